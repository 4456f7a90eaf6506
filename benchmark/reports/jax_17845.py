"""Taking an element out of the middle of a carried array, by shifting a slice of it, copies the array in every iteration.

Structure: a scan carries one vector; each iteration reads a slice that starts behind an index and writes it back one place
further left, into the overlapping bytes.

The right answer: only the slice (4 KiB) has to be saved before it is written back, because it overlaps its own target. The
vector (128 KiB) itself can stay in place, so a copy of the whole carry in an iteration is superfluous; the update or the loop
is the line. The cured twin puts a barrier between the slice and the update: XLA then saves the slice, and updates in place.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def pop_all(carry, places):
    def body(carry, place):
        value = carry[place]
        rest = jax.lax.dynamic_slice(carry, (place + 1,), (1024,))
        return jax.lax.dynamic_update_slice(carry, rest, (place,)), value  # at: update

    carry, values = jax.lax.scan(body, carry, places)  # at: loop
    return {"carry": carry, "values": values}


def pop_all_saved(carry, places):
    def body(carry, place):
        value = carry[place]
        rest = jax.lax.dynamic_slice(carry, (place + 1,), (1024,))
        carry, rest, value = jax.lax.optimization_barrier((carry, rest, value))
        return jax.lax.dynamic_update_slice(carry, rest, (place,)), value

    carry, values = jax.lax.scan(body, carry, places)
    return {"carry": carry, "values": values}


ARGS = (
    Arg(shape=(32768,), donate=True),
    Arg(shape=(16,), dtype="int32", draw=Draw(kind="randint", low=0, high=30000)),
)
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/17845",
    year=2023,
    versions="jax 0.4.16",
    kind=Kind.SILENT_COPY,
    reported="shifting a slice of a scan's carry copies the carry instead of updating it in place",
    finds=Wrong(at=("update", "loop")),
)
BAD = Case(name="jax_17845", params=("bad",), function=pop_all, args=ARGS)
CURED = Case(name="jax_17845", params=("cured",), function=pop_all_saved, args=ARGS)
CASES = (BAD, CURED)
