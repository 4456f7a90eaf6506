"""Sets how often Python's garbage collector runs in ligerdiag's own processes, which are commands and workers. A program
that calls `ligerdiag.check` keeps its own setting.
"""

import gc

_NEW_OBJECTS = 10_000
"""Python's own 700 cost a tenth of a compile or an analysis, which make millions of objects and few cycles."""


def collect_rarely() -> None:
    """Makes the garbage collector of this process run only after some thousand new objects."""
    gc.set_threshold(_NEW_OBJECTS)
