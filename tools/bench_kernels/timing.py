"""Times a call in the steady state: after a while of the same calls, so that clocks and power have settled.

A matrix product on a cold GPU is some 10 % faster than the same one a second later. What is compared is therefore run for
some time before it is measured, and calls follow one another without a pause.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

WARM_SECONDS = 0.4
MEASURED_SECONDS = 0.8
_BATCH_SECONDS = 0.05
"""Calls are queued for about this long before the GPU is waited for: what Python costs is hidden."""


class Timing(NamedTuple):
    """Milliseconds of a call: over the batches of calls, the median and the least."""

    median: float
    least: float


def time_calls(call: Callable[[], Any], wait: Callable[[Any], Any]) -> Timing:
    """Times `call`, which queues work on the GPU; `wait` blocks until a result of it is there."""
    wait(call())
    start = time.perf_counter()
    wait(call())
    batch = max(1, round(_BATCH_SECONDS / max(1e-6, time.perf_counter() - start)))
    _run(call, wait, batch, WARM_SECONDS)
    seconds = _run(call, wait, batch, MEASURED_SECONDS)
    return Timing(1e3 * statistics.median(seconds), 1e3 * min(seconds))


def _run(call: Callable[[], Any], wait: Callable[[Any], Any], batch: int, seconds: float) -> list[float]:
    """Returns the seconds of a call, for each batch of calls."""
    done: list[float] = []
    end = time.perf_counter() + seconds
    while not done or time.perf_counter() < end:
        start = time.perf_counter()
        result = None
        for _ in range(batch):
            result = call()
        wait(result)
        done.append((time.perf_counter() - start) / batch)
    return done
