"""Limits that make the package easy to navigate: short files, small folders, and one meaning for each name."""

import ast
from collections import Counter
from pathlib import Path

import ligerdiag

_PACKAGE = Path(ligerdiag.__file__).parent
_PROGRAMS = _PACKAGE / "toolchains" / "probes"
"""Programs that try a toolchain: compiled like a user's file, never imported."""
_SOURCES = sorted(path for path in _PACKAGE.rglob("*.py") if path.parent != _PROGRAMS)


def test_no_file_is_too_long_to_read() -> None:
    """A file has one subject in 200 to 500 lines; generated files are excluded. See
    docs/adr/0018-no-limit-on-modules.md.
    """
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in _SOURCES}
    assert {name: length for name, length in lengths.items() if length > 700} == {}


def test_no_folder_has_more_than_20_modules() -> None:
    folders = Counter(str(source.parent.relative_to(_PACKAGE)) for source in _SOURCES)
    assert {folder: count for folder, count in folders.items() if count > 20} == {}


def test_no_file_name_occurs_twice() -> None:
    names = Counter(source.stem for source in _SOURCES if source.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_no_public_class_name_occurs_twice() -> None:
    names = Counter(
        node.name
        for source in _SOURCES
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_few_files_name_an_opcode_that_computes_nothing() -> None:
    assert len([source for source in _SOURCES if "async-start" in source.read_text(encoding="utf-8")]) <= 8
