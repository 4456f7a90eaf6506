"""Python's garbage collector, out of the way while views of a module are made and looked through."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

_FROZEN_AT_START = 1000
"""More than Python freezes itself when it starts (375); who calls gc.freeze has far more."""


@contextmanager
def pause_collector(*, keep: bool = False) -> Generator[None]:
    """The views hold many small objects that stay: looking through them again and again for cycles doubles the time.

    keep: what is made meanwhile will stay, and goes to the collector's oldest generation without being looked through,
    unless somebody has frozen objects, who would not want them thawed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if keep and was_enabled and gc.get_freeze_count() < _FROZEN_AT_START:
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()
