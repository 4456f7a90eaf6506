"""Temporary folders are removed after their process has ended, and never before."""

import errno
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ligerdiag.artifacts.scratch_folders import LOCK, ScratchFolder, remove_stale_folders

MAKE = """
import sys, time
from ligerdiag.artifacts.scratch_folders import ScratchFolder
folder = ScratchFolder("kind")
(folder.path / "log").write_text("half")
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_folders_of_a_killed_process_are_removed_and_folders_in_use_are_not(temporary: Path) -> None:
    command = [sys.executable, "-c", MAKE]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dead,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as alive,
    ):
        assert dead.stdout is not None
        assert alive.stdout is not None
        left, used = Path(dead.stdout.readline().strip()), Path(alive.stdout.readline().strip())
        assert left.parent == used.parent == temporary
        dead.kill()
        dead.wait()
        assert left.is_dir()
        remove_stale_folders(temporary)
        assert not left.exists()
        assert (used / "log").read_text() == "half"
        alive.kill()
    remove_stale_folders(temporary)
    assert list(temporary.iterdir()) == []


def test_other_users_may_not_enter_a_scratch_folder(temporary: Path) -> None:
    folder = ScratchFolder()
    assert folder.path.parent == temporary
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()


def test_a_removed_folder_is_gone(temporary: Path) -> None:
    folder = ScratchFolder()
    (folder.path / "log").touch()
    folder.remove()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_a_folder_that_cannot_be_locked_is_removed(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tempfile.gettempdir() == str(temporary)

    def refuse(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", arguments[0])

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="No space left"):
        ScratchFolder()
    assert list(temporary.iterdir()) == []


def test_folders_that_may_not_be_ours_are_not_removed(temporary: Path) -> None:
    elsewhere = temporary / "precious"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (temporary / "ligerdiag-link").symlink_to(elsewhere)
    (temporary / "ligerdiag-file").touch()
    full, young, old = (temporary / f"ligerdiag-{name}" for name in ("full", "young", "old"))
    for folder in (full, young, old):
        folder.mkdir()
    (full / "notes").touch()
    for folder in (full, old):
        os.utime(folder, (time.time() - 7 * 86400,) * 2)
    with_link = temporary / "ligerdiag-with-link"
    with_link.mkdir()
    (with_link / LOCK).symlink_to(elsewhere / LOCK)
    remove_stale_folders(temporary)
    assert {path.name.removeprefix("ligerdiag-") for path in temporary.iterdir()} == {
        *("precious", "link", "file", "full", "young", "with-link")
    }
    assert (elsewhere / LOCK).exists()
