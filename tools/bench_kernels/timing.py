"""Times calls in the steady state: after a warm-up with the same calls, when clocks and power have settled.

A matrix product on a cold GPU is some 10 % faster than the same one a second later. So everything that is compared runs
for some time before it is measured, calls follow one another without a pause, and the ways to compute one thing take
turns: the GPU's temperature affects all of them alike. Matrix products are also 2 to 3 % faster just after calls that
move bytes, presumably because those draw less power; so in its turn a way first runs unmeasured for a while.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

WARM_SECONDS = 0.4
MEASURED_SECONDS = 1.6
_BATCH_SECONDS = 0.05
"""Calls are queued for about this long before the host waits for the GPU, which hides the cost of Python. A turn is two
batches, and the second one is measured.
"""


class Timing(NamedTuple):
    """Milliseconds of a call: the median and the least over the batches of calls."""

    median: float
    least: float


def time_calls(calls: Mapping[str, Callable[[], Any]], wait: Callable[[Any], Any]) -> dict[str, Timing]:
    """Times calls, each of which queues work on the GPU, in turns; `wait` blocks until a result of one exists."""
    batches = {name: _count_for_a_batch(call, wait) for name, call in calls.items()}
    _run_in_turns(calls, batches, wait, WARM_SECONDS)
    seconds = _run_in_turns(calls, batches, wait, MEASURED_SECONDS)
    return {name: Timing(1e3 * statistics.median(of_call), 1e3 * min(of_call)) for name, of_call in seconds.items()}


def _count_for_a_batch(call: Callable[[], Any], wait: Callable[[Any], Any]) -> int:
    wait(call())
    start = time.perf_counter()
    wait(call())
    return max(1, round(_BATCH_SECONDS / max(1e-6, time.perf_counter() - start)))


def _run_in_turns(
    calls: Mapping[str, Callable[[], Any]], batches: Mapping[str, int], wait: Callable[[Any], Any], seconds: float
) -> dict[str, list[float]]:
    """Returns the seconds per call, for each call and batch; each call gets about the given number of seconds."""
    done: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while calls and (time.perf_counter() < end or not all(done.values())):
        for name, call in calls.items():
            _run_batch(call, batches[name], wait)
            done[name].append(_run_batch(call, batches[name], wait))
    return done


def _run_batch(call: Callable[[], Any], count: int, wait: Callable[[Any], Any]) -> float:
    """Returns the seconds of a call."""
    start = time.perf_counter()
    result = None
    for _ in range(count):
        result = call()
    wait(result)
    return (time.perf_counter() - start) / count
