"""Errors that keep ligerdiag from analysing a program, and the texts that describe them.

Each error is one line for the user: it names a thing and says what was expected. Its exit code is part of the command
line's contract (`ligerdiag check --help`). Findings are in `model.findings`; a bug of ligerdiag is a traceback.
"""

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar


class LigerdiagError(Exception):
    """The base class of the errors that ligerdiag raises on purpose.

    `str(error)` is one line, in lower case and without a final stop.
    """

    exit_code: ClassVar[int] = 3
    printed: str = ""
    """The text that the user's code printed before the error."""
    file: str = ""
    """Absolute path of the case file that the error is about; empty if it is about no one case file."""


class InputError(LigerdiagError):
    """Raised if the request is wrong (exit code 2).

    For example, there is no such file, case, target or rule, or the mesh does not fit.
    """

    exit_code: ClassVar[int] = 2


class CaseError(LigerdiagError):
    """Raised if a case file raises when it is imported, or a case's function when it is traced.

    The exit code is 2, because the user's input is wrong.
    """

    exit_code: ClassVar[int] = 2


class CompileError(LigerdiagError):
    """Raised if XLA or a worker failed (exit code 3): compile error, abort, timeout, out of memory.

    `log_tail` has the last lines of the worker's log, for the report.
    """

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


class WorkerImportError(CompileError):
    """Raised if the Python of a toolchain cannot import a package that a worker needs, such as jax (exit code 3).

    Every case would fail in the same way, so the whole request fails.
    """


def describe_error(error: LigerdiagError) -> str:
    """Returns the error as one line. For a failed worker, the line includes the last line of the worker's log."""
    said = error.log_tail.strip().splitlines() if isinstance(error, CompileError) else []
    return f"{error}: {said[-1].strip()}" if said else str(error)


class ArtifactError(LigerdiagError):
    """Raised if an artifact or a file of a dump is truncated, hostile or in an unknown format (exit code 3)."""


_MOST_LETTERS = 200


def describe_bug(fault: Exception) -> str:
    """Returns one line about a bug of ligerdiag, such as `IndexError list index out of range (ld009.py:12)`.

    If LIGERDIAG_DEBUG is set, raises the exception again instead.
    """
    if os.environ.get("LIGERDIAG_DEBUG"):
        raise fault
    frame = traceback.extract_tb(fault.__traceback__)[-1]
    what = " ".join(f"{type(fault).__name__} {fault}".split())[:_MOST_LETTERS]
    return f"{what} ({os.path.basename(frame.filename)}:{frame.lineno})"


class UsedWorkerError(LigerdiagError):
    """Raised if a worker process gets a job that only a new worker can do.

    The process has imported a case file. The job is for another case file, or for the same file after it has changed.
    """


CASE_PATH = "LIGERDIAG_CASE_PATH"
"""Name of a worker's environment variable that holds the user's PYTHONPATH as absolute paths; see
`toolchains.toolchain`.
"""
MAXIMUM_MESSAGE = 400
"""Most characters of an exception's message that are shown."""
_MOST_PARTS = 5
"""Most exceptions of an exception group that are shown."""
_EXTRAS = {"jax_triton": "jax-triton"}
"""Maps the name of a module that only some programs need to the name of ligerdiag's optional extra that installs it."""
_PACKAGE = Path(__file__).resolve().parent


def describe_fault(fault: BaseException) -> str:
    """Returns a text about an exception, such as `mine.py:12: ValueError: message`.

    The place is the innermost line of the user's code. For an exception group, the text includes its parts.
    """
    message = " ".join(str(fault).split("\n\n")[0].split())[:MAXIMUM_MESSAGE]
    parts: tuple[BaseException, ...] = getattr(fault, "exceptions", ()) if _is_group(fault) else ()
    if parts:
        message = f"{message}: {' · '.join([describe_fault(part) for part in parts[:_MOST_PARTS]])}"[
            : 2 * MAXIMUM_MESSAGE
        ]
    kind = type(fault).__name__
    text = (f"{kind}: {message}" if message else kind) + _name_extra(fault)
    if isinstance(fault, SyntaxError) and fault.filename:
        return f"{fault.filename}:{fault.lineno}: {kind}: {fault.msg}"
    place = find_place(fault)
    return f"{place}: {text}" if place else text


def read_message(fault: BaseException) -> str:
    """Returns the message of an exception on one line; the exception's type if the message is empty."""
    return " ".join(str(fault).split()) or type(fault).__name__


_IMPORTS = "imports start at the nearest folder with a pyproject.toml, else with .git; PYTHONPATH adds others"


_NO_GPU = ("cuInit(device) failed", "Unsupported GPU device kind: cpu")
"""Parts of the errors of jax-triton 0.3 and 0.4 where it asks for the machine's GPU and there is none."""
_LOWERED_HERE = (
    "outside of the compile for a target, jax-triton asks this machine's GPU for its compute capability, and there is none:"
    " pass `compute_capability=90` to `triton_call`, or give ligerdiag the function instead of lowering it"
)


def _name_extra(fault: BaseException) -> str:
    module = (fault.name or "").partition(".")[0] if isinstance(fault, ModuleNotFoundError) else ""
    if module in _EXTRAS:
        return f": `pip install 'ligerdiag[{_EXTRAS[module]}]'` installs it"
    if any(one in str(fault) for one in _NO_GPU):
        return f": {_LOWERED_HERE}"
    return f" ({_IMPORTS})" if module else ""


def _is_group(fault: BaseException) -> bool:
    return isinstance(fault, BaseExceptionGroup)


def find_place(fault: BaseException) -> str:
    """Returns the innermost line of the traceback that is in a file of the user, such as `mine.py:12`.

    If there is none, returns the innermost line of code without a file, such as `<string>:3` of `python -c`, or "".
    """
    frames = traceback.extract_tb(fault.__traceback__)[::-1]
    own = [frame for frame in frames if is_project_file(frame.filename)]
    own += [frame for frame in frames if frame.filename.startswith("<") and not frame.filename.startswith("<frozen")]
    return next((f"{frame.filename}:{frame.lineno}" for frame in own), "")


@cache
def is_project_file(file: str) -> bool:
    """Returns whether the file is the user's own. Files of installed packages, of Python and of ligerdiag are not."""
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
    """Returns the absolute folders of the user's PYTHONPATH in a worker, and () in any other process."""
    return tuple(path for path in os.environ.get(CASE_PATH, "").split(os.pathsep) if path)


def holds_installed(folder: Path) -> bool:
    """Returns whether the folder contains installed packages and no project of the user.

    A folder of `pip install --target` is an example.
    """
    return any(folder.glob("*.dist-info")) and not (folder / "pyproject.toml").exists()


def _list_installed_folders() -> Iterator[Path]:
    """Yields the folders of PYTHONPATH, and those that a .pth file adds, that hold installed packages."""
    here = Path.cwd()
    for entry in (*os.environ.get("PYTHONPATH", "").split(os.pathsep), *list_case_path(), *sys.path):
        folder = Path(entry).resolve()
        if entry and folder != here and holds_installed(folder):
            yield folder
