"""Errors that keep ligerdiag from looking: input, compile, artifact. Findings live in `findings`, bugs are tracebacks.

Each error is one line for the user: it names the thing and says what is expected. Its exit code is part of the command
line's contract (`ligerdiag check --help`).
"""

import os
import traceback
from typing import ClassVar


class LigerdiagError(Exception):
    """Base of everything that ligerdiag raises on purpose; `str(error)` is one line, lower case, no final stop."""

    exit_code: ClassVar[int] = 3


class InputError(LigerdiagError):
    """The request cannot be met as given: no such file, case, target or rule, a mesh that does not fit (exit code 2)."""

    exit_code: ClassVar[int] = 2


class CaseError(LigerdiagError):
    """A case file raises when imported, or a case's function raises when traced (exit code 2: the user's input)."""

    exit_code: ClassVar[int] = 2


class CompileError(LigerdiagError):
    """XLA or a worker failed: compile error, abort, timeout, out of memory (exit code 3).

    `log_tail` holds the last lines of the worker's log, for the report.
    """

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


def describe_error(error: LigerdiagError) -> str:
    """Returns one line: the error, with the last thing that the worker said where a worker failed."""
    said = error.log_tail.strip().splitlines() if isinstance(error, CompileError) else []
    return f"{error}: {said[-1].strip()}" if said else str(error)


class ArtifactError(LigerdiagError):
    """An artifact is truncated, hostile or of a form that we do not know (exit code 3)."""


_MOST_LETTERS = 200


def describe_bug(fault: Exception) -> str:
    """`IndexError list index out of range (ld009.py:12)`: one line of something that we did not expect.

    With LIGERDIAG_DEBUG the fault is raised again instead.
    """
    if os.environ.get("LIGERDIAG_DEBUG"):
        raise fault
    frame = traceback.extract_tb(fault.__traceback__)[-1]
    what = " ".join(f"{type(fault).__name__} {fault}".split())[:_MOST_LETTERS]
    return f"{what} ({os.path.basename(frame.filename)}:{frame.lineno})"


class UsedWorkerError(LigerdiagError):
    """A worker that holds one source was asked for another one, or for a changed file; the caller needs a fresh
    worker."""
