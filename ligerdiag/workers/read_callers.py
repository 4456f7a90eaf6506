"""Finds out from the interpreter's stack whose code makes a read: the user's, a library's, or that of JAX and Triton."""

import inspect
import os
import sysconfig
import tempfile
import threading
from collections.abc import Generator
from functools import cache
from types import FrameType

from ligerdiag.errors import is_project_file

_TOOLS = frozenset({"jax", "jaxlib", "jax_triton", "jax_plugins", "triton", "ligerdiag"})
"""Packages whose own reads do not count: their versions and settings are part of every question to the cache."""
_RECORDERS = ("ligerdiag.workers.outside_reads", "ligerdiag.workers.read_callers")
_LOADERS = ("ligerdiag.compile.cases.loader", "ligerdiag.compile.cases.live_functions")
"""Modules of ligerdiag that import for the user what the source names."""


_thread = threading.local()
"""Has `asks` while this thread finds out whose a file is, which asks for links, too."""


def find_caller() -> FrameType | None:
    """Returns the innermost frame of the stack that is outside of the files that record reads."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") in _RECORDERS:
        frame = frame.f_back
    return frame


def is_read_by_user(frame: FrameType | None) -> bool:
    """Returns whether the user's code makes a read, itself or through an installed package. A read does not count if a
    package of `_TOOLS`, such as JAX, makes it on the way.

    A thread may run nothing but a library's function, as for `executor.map(numpy.load, files)`. Its reads count,
    because the stack does not say who started it.
    """
    last = None
    for last in _walk_to_tools(frame):
        if _is_of_user(last.f_code.co_filename):
            return True
    return _is_bottom_of_thread(last)


def is_own_code(frame: FrameType | None) -> bool:
    """Returns whether the user's code makes a read, itself or through Python's library."""
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_of_user(file):
            return True
        if file == tempfile.__file__:
            return False  # it makes its folders where the worker's are, which are removed at the end
        if file.startswith("<") and not file.startswith("<frozen"):
            return frame.f_globals.get("__name__") == "__main__"  # of `python -c`, or a notebook
        if not _is_of_python(file):
            return False
        frame = frame.f_back
    return False


def is_asked_by_user(frame: FrameType | None) -> bool:
    """Returns whether the user's code, or the loader of the user's source, looks for a module, itself or through
    Python's library. A search by an installed package does not count.
    """
    while frame is not None and _is_of_python(frame.f_code.co_filename):
        frame = frame.f_back
    return (
        not getattr(_thread, "asks", False)
        and frame is not None
        and (_is_of_user(frame.f_code.co_filename) or frame.f_globals.get("__name__") in _LOADERS)
    )


def find_starter(frame: FrameType | None) -> FrameType | None:
    """Returns the frame of the user's code that makes a read, itself or by calling a library. Returns None if a package
    of `_TOOLS` makes it, or a library makes it while it is imported.
    """
    is_library, one = False, None
    for one in _walk_to_tools(frame):
        file = one.f_code.co_filename
        if _is_of_user(file):
            return one
        if one.f_globals.get("__name__") == "platform":
            return None  # it runs `uname`, of which the answer belongs to the machine
        if is_library and file.startswith("<frozen importlib"):
            return None
        is_library = is_library or not _is_of_python(file)
    return one if _is_bottom_of_thread(one) else None


def is_of_spawn(frame: FrameType | None) -> bool:
    """Returns whether the frame belongs to multiprocessing while it starts a process."""
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("multiprocessing.popen_")


def list_python_callers(frame: FrameType | None) -> tuple[frozenset[str], bool]:
    """Returns the names of the functions of Python's library at the inner end of the stack. Also returns whether one of
    them belongs to `importlib.metadata`.
    """
    names: set[str] = set()
    is_metadata = False
    while frame is not None and _is_of_python(frame.f_code.co_filename):
        if not _is_made_up(frame.f_code.co_filename):
            names.add(frame.f_code.co_name)
        is_metadata = is_metadata or str(frame.f_globals.get("__name__")).startswith("importlib.metadata")
        frame = frame.f_back
    return frozenset(names), is_metadata


def _is_made_up(file: str) -> bool:
    """Returns whether the code is from no file, as that of `exec`."""
    return file.startswith("<") and not file.startswith("<frozen")


def _is_bottom_of_thread(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_name == "_bootstrap" and frame.f_back is None


def _walk_to_tools(frame: FrameType | None) -> Generator[FrameType]:
    """Yields the frames from the inner to the outer one, up to the first of a package of `_TOOLS`, which is left out. A file
    of the user's does not count as such a package, whatever its module is called.
    """
    if getattr(_thread, "asks", False):
        return
    while frame is not None:
        is_tool = str(frame.f_globals.get("__name__", "")).partition(".")[0] in _TOOLS
        if is_tool and not _is_of_user(frame.f_code.co_filename):
            return
        yield frame
        frame = frame.f_back


@cache
def _is_of_user(file: str) -> bool:
    _thread.asks = True
    try:
        return is_project_file(file)
    finally:
        _thread.asks = False


@cache
def _is_of_python(file: str) -> bool:
    """Returns whether the code is of Python's library, or made up by it, such as the methods of a dataclass."""
    if file.startswith("<"):
        return True
    if not file.startswith(_list_python_folders()):
        return False
    return not {"site-packages", "dist-packages"} & set(file.split(os.sep))


@cache
def _list_python_folders() -> tuple[str, ...]:
    """Returns the folders of Python's library, each with a separator at its end."""
    return tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
