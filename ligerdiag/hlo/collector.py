"""Python's garbage collector, out of the way while views of a module are made and looked through."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Generator[None]:
    """The views hold many small objects that stay: looking through them again and again for cycles doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
