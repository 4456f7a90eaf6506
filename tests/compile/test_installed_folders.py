"""A folder that a .pth file adds to the path holds installed packages like site-packages, and is not a project."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ligerdiag import errors


@pytest.fixture(autouse=True)
def _forgotten_afterwards() -> Iterator[None]:
    yield
    forget_folders()


def forget_folders() -> None:
    """Drops what this process knows of folders: the recorder of reads, if a test has installed it, asks all the time."""
    errors.is_project_file.cache_clear()
    errors._foreign_folders.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("marker", "is_project"), [("foo-1.0.dist-info", False), ("", True)])
def test_a_folder_with_installed_packages_is_not_a_project(
    marker: str, is_project: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lib"
    (folder / "foo").mkdir(parents=True)
    if marker:
        (folder / marker).mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    forget_folders()
    assert errors.is_project_file(str(folder / "foo" / "module.py")) is is_project


def test_the_current_folder_is_a_project_whatever_it_contains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foo-1.0.dist-info").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    forget_folders()
    assert errors.is_project_file(str(tmp_path / "cases.py"))
