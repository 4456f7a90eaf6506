"""How often Python looks for garbage in the processes of ligerdiag: a command and a worker. A caller of `ligerdiag.check`
keeps its own setting.
"""

import gc

_NEW_OBJECTS = 10_000
"""Python's own 700 cost a tenth of a compile or an analysis, which make millions of objects and few cycles."""


def collect_rarely() -> None:
    """Makes this process look for garbage only after some thousand new objects."""
    gc.set_threshold(_NEW_OBJECTS)
