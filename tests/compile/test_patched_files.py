"""Modules that are imported from another text than their file has."""

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ligerdiag.compile.cases.patched_files import PATCHED_FILES
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import Source


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; afterwards nothing is patched, and its modules are forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    PATCHED_FILES.use(Source(root=str(tmp_path)))
    for name in ("patched_one", "patched_package", "patched_package.inner"):
        sys.modules.pop(name, None)


def test_the_module_has_the_other_text_under_its_own_name(folder: Path) -> None:
    path, text = folder / "patched_one.py", folder / "text"
    path.write_text("def f():\n    return 1\n", encoding="utf-8")
    text.write_text("\n\ndef f():\n    return 22\n", encoding="utf-8")
    PATCHED_FILES.use(Source(root=str(folder), patches=((str(path), str(text)),)))
    module = importlib.import_module("patched_one")
    assert (module.f(), module.__file__) == (22, str(path))
    assert inspect.getsource(module.f) == "def f():\n    return 22\n"
    assert not list(folder.glob("__pycache__/patched_one*"))
    del sys.modules["patched_one"]
    PATCHED_FILES.use(Source(root=str(folder)))
    module = importlib.import_module("patched_one")
    assert (module.f(), inspect.getsource(module.f)) == (1, "def f():\n    return 1\n")


def test_a_module_inside_of_a_package_is_patched_and_the_package_is_not(folder: Path) -> None:
    package = folder / "patched_package"
    package.mkdir()
    (package / "__init__.py").write_text("NAME = 'own'\n", encoding="utf-8")
    (package / "inner.py").write_text("VALUE = 1\n", encoding="utf-8")
    (folder / "text").write_text("from patched_package import NAME\nVALUE = NAME\n", encoding="utf-8")
    PATCHED_FILES.use(Source(root=str(folder), patches=((str(package / "inner.py"), str(folder / "text")),)))
    assert importlib.import_module("patched_package.inner").VALUE == "own"


def test_a_patch_that_is_gone_is_an_error(folder: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the patch of `a\.py`"):
        PATCHED_FILES.use(Source(root=str(folder), file="a.py", patches=(("a.py", str(folder / "gone")),)))


def test_a_module_behind_a_link_has_the_other_text_for_inspect_as_well(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    real, text = tmp_path_factory.mktemp("real") / "patched_one.py", folder / "text"
    real.write_text("def f():\n    return 1\n", encoding="utf-8")
    text.write_text("\n\ndef f():\n    return 22\n", encoding="utf-8")
    (folder / "patched_one.py").symlink_to(real)
    PATCHED_FILES.use(Source(root=str(folder), patches=((str(real), str(text)),)))
    module = importlib.import_module("patched_one")
    assert (module.f(), inspect.getsource(module.f)) == (22, "def f():\n    return 22\n")
