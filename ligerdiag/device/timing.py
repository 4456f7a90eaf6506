"""Worker side: how long one execution takes on the devices.

1. The executable has run before, so nothing is loaded or allocated for the first time while the clock runs.
2. The arguments lie on the devices. What a kernel overwrites in them stays so: that changes numbers, not times. Where the
   program takes arguments over (donation), each execution gets copies, made on the devices before its clock starts.
3. The clock runs from the call to the moment when every output is ready, so the time has the host's part in it: some tens
   of microseconds, which is most of it where the program is small.
4. There are `MOST_RUNS` timed executions, fewer when they and their copies take more than `BUDGET` together, at least one.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax

MOST_RUNS = 20
BUDGET = 1.0
"""Seconds."""


def time_executions(compiled: Callable[..., Any], arguments: Any, *, donates: bool) -> tuple[float, ...]:
    """Milliseconds of each timed execution. arguments: a sequence, on the devices, of what `compiled` takes."""
    library: Any = jax
    times: list[float] = []
    began = perf_counter()
    while len(times) < MOST_RUNS and (not times or perf_counter() - began < BUDGET):
        given = library.block_until_ready(library.tree.map(_copy, arguments)) if donates else arguments
        started = perf_counter()
        results = library.block_until_ready(compiled(*given))
        times.append((perf_counter() - started) * 1e3)
        del results  # before the next one is made: two at once may not fit
    return tuple(times)


def _copy(array: Any) -> Any:
    return array.copy()
