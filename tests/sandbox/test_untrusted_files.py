"""Untrusted paths are opened only if they are regular files, without waiting, and read only up to a limit."""

import os
import socket
from pathlib import Path

import pytest

from ligerdiag.errors import ArtifactError
from ligerdiag.untrusted_files import count_stored_bytes, open_untrusted, read_untrusted


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link to a fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (*tmp_path.iterdir(), tmp_path, Path("/dev/zero"), Path("/dev/tty")):
            with pytest.raises(ArtifactError, match=r"is not a file|cannot read"):
                read_untrusted(path, 100)


def test_a_link_is_followed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_untrusted(tmp_path / "link", 4) == b"text"
    with pytest.raises(ArtifactError, match=r"is not a file|cannot read"):
        read_untrusted(tmp_path / "link", 4, follow=False)


def test_a_file_above_the_bound_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ArtifactError, match=f"`holes` has {1 << 40} bytes, more than the 100 that are allowed"):
        open_untrusted(tmp_path / "holes", 100)


def test_holes_do_not_count_as_stored_bytes(tmp_path: Path) -> None:
    whole, holes = tmp_path / "whole", tmp_path / "holes"
    whole.write_bytes(b"x" * 100_000)
    assert count_stored_bytes([whole, tmp_path / "missing", tmp_path]) == 100_000
    with holes.open("wb") as file:
        file.truncate(1 << 30)
    assert count_stored_bytes([holes]) == 0
    with holes.open("r+b") as file:
        file.seek(1 << 29)
        file.write(b"x" * 1000)
    assert 1000 <= count_stored_bytes([holes, whole]) < 1 << 20
