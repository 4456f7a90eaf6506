"""An argument is donated to an output in the host's memory, and XLA aborts.

Structure: the only output is the argument, moved to pinned memory of the host; the argument is donated.

The right answer: bytes of the device cannot hold an output in the host's memory, so the donation is void (the report had it
end in an abort); the move is the line. The cured twin donates nothing.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def offload(x):
    return {"x": jax.device_put(x * 2.0, jax.memory.Space.Host)}  # at: move


REPORT = Report(
    link="https://github.com/openxla/xla/pull/29270",
    year=2025,
    versions="jax 0.7.0, GPU",
    kind=Kind.VOID_DONATION,
    reported="donating an argument to an output in another memory space aborts without a message",
    finds=Wrong(at=("move",), kinds=(Kind.VOID_DONATION, Kind.NO_COMPILE)),
)
BAD = Case(name="xla_29270", params=("bad",), function=offload, args=(Arg(shape=(128, 128), donate=True),))
CURED = Case(name="xla_29270", params=("cured",), function=offload, args=(Arg(shape=(128, 128)),))
CASES = (BAD, CURED)
