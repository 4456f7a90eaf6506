"""Worker side: turns what a user's code or XLA raised into one line that names the place and the reason."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CASE_PATH = "LIGERDIAG_CASE_PATH"
"""Environment variable of a worker: the user's PYTHONPATH, in absolute paths; see `toolchain`, 5."""
MAXIMUM_MESSAGE = 400
_PACKAGE = Path(__file__).resolve().parents[1]


def describe_fault(fault: BaseException) -> str:
    """`mine.py:12: ValueError: what it said`, with the innermost line of the user's own code."""
    message = " ".join(str(fault).split("\n\n")[0].split())[:MAXIMUM_MESSAGE]
    kind = type(fault).__name__
    text = f"{kind}: {message}" if message else kind
    if isinstance(fault, SyntaxError) and fault.filename:
        return f"{fault.filename}:{fault.lineno}: {kind}: {fault.msg}"
    place = find_place(fault)
    return f"{place}: {text}" if place else text


def find_place(fault: BaseException) -> str:
    """`mine.py:12`, the innermost line of the user's own code on the way to the fault; empty where there is none."""
    frames = reversed(traceback.extract_tb(fault.__traceback__))
    return next((f"{frame.filename}:{frame.lineno}" for frame in frames if is_project_file(frame.filename)), "")


@cache
def is_project_file(file: str) -> bool:
    """Returns whether the file is the user's own: of no installed package, not of Python, not of ligerdiag."""
    if not file or file.startswith("<"):
        return False
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _foreign_folders())


@cache
def _foreign_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    folders = [_PACKAGE, *(Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
    if sys.prefix != sys.base_prefix:
        folders.append(Path(sys.prefix).resolve())
    return (*folders, *_list_installed_folders())


def list_case_path() -> tuple[str, ...]:
    """In a worker: the folders of the user's PYTHONPATH, absolute."""
    return tuple(path for path in os.environ.get(CASE_PATH, "").split(os.pathsep) if path)


def holds_installed(folder: Path) -> bool:
    """Returns whether `pip install --target` made the folder: it holds installed packages, and no project."""
    return any(folder.glob("*.dist-info")) and not (folder / "pyproject.toml").exists()


def _list_installed_folders() -> Iterator[Path]:
    """Folders of PYTHONPATH that hold what was installed."""
    for entry in (*os.environ.get("PYTHONPATH", "").split(os.pathsep), *list_case_path()):
        folder = Path(entry).resolve()
        if entry and holds_installed(folder):
            yield folder
