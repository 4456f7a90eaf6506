"""The files that a report may quote: the user's own, and no other that a dump names."""

import os
from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.model.findings import CallPlace, SourceLine
from ligerdiag.report.causes import compute_causes
from ligerdiag.source_text import MAX_FILE_BYTES, find_usual_root, load_source_text, read_source, resolve_roots
from tests.report.samples import make_finding

SECRET = "token = 'secret'\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The user's folder, next to one with a secret."""
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(SECRET)
    return tmp_path / "mine"


def load(file: Path | str, *roots: Path) -> str:
    return load_source_text(SourceLine(file=str(file), line=1), [str(root) for root in roots])


def test_a_line_below_a_root_is_shown(mine: Path) -> None:
    assert load(mine / "train.py", mine) == "token = 'secret'"
    assert load(mine / "train.py", mine / "train", mine.parent) == "token = 'secret'"
    assert load(mine / ".." / "mine" / "train.py", mine) == "token = 'secret'"


def test_nothing_is_read_without_a_root(mine: Path) -> None:
    assert load(mine / "train.py") == ""


@pytest.mark.parametrize("name", ["../other/train.py", "../other/../other/train.py", "/proc/self/environ", "train"])
def test_nothing_outside_the_roots_is_read(mine: Path, name: str) -> None:
    assert load(mine / name, mine) == ""
    assert load(mine.parent / "mine-too" / "train.py", mine) == ""


def test_a_link_out_of_the_root_is_not_followed(mine: Path) -> None:
    (mine / "link.py").symlink_to(mine.parent / "other" / "train.py")
    (mine / "folder").symlink_to(mine.parent / "other")
    (mine / "environ.py").symlink_to("/proc/self/environ")
    for name in ("link.py", "folder/train.py", "environ.py"):
        assert load(mine / name, mine) == ""


def test_a_link_within_the_root_is_followed_only_to_python_files(mine: Path) -> None:
    (mine / "link.py").symlink_to(mine / "train.py")
    (mine / ".env").write_text(SECRET)
    (mine / "env.py").symlink_to(mine / ".env")
    assert load(mine / "link.py", mine) == "token = 'secret'"
    assert load(mine / "env.py", mine) == ""


def test_only_regular_files_of_a_bounded_size_are_opened(mine: Path) -> None:
    os.mkfifo(mine / "pipe.py")
    (mine / "folder.py").mkdir()
    (mine / "large.py").write_text("#" * (MAX_FILE_BYTES + 1))
    for name in ("pipe.py", "folder.py", "large.py", "gone.py", "a\0.py"):
        assert read_source(str(mine / name), [str(mine)]) is None, name


def test_the_patch_of_a_call_quotes_no_other_file(mine: Path) -> None:
    file = mine / "train.py"
    file.write_text("loss = jt.triton_call(secret, y, kernel=k, out_shape=o)\n")
    place = SourceLine(file=str(file), line=1)
    call = CallPlace(line=place, target="triton_kernel_call_ffi", operands=2, outputs=1)
    finding = make_finding(rule="LD006", source=place, call=call, outputs=())
    (shown,) = compute_causes([finding], (), [str(mine)])
    (hidden,) = compute_causes([finding], (), [str(mine.parent / "other")])
    assert "call_in_place(secret, y" in shown.help
    assert "secret" not in hidden.help


def test_the_usual_root_is_the_repository_or_else_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "repository" / "folder" / "inner"
    inner.mkdir(parents=True)
    assert find_usual_root(inner) == str(inner)
    (tmp_path / "repository" / ".git").write_text("gitdir: elsewhere\n")
    assert find_usual_root(inner) == str(tmp_path / "repository")


def test_a_root_is_a_folder(mine: Path) -> None:
    (mine.parent / "link").symlink_to(mine)
    assert resolve_roots([mine, mine.parent / "link"]) == (str(mine),)
    with pytest.raises(InputError, match="expected a folder for --source-root"):
        resolve_roots([mine / "train.py"])
