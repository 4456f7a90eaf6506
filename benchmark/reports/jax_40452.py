"""In interpret mode the old input is copied over what the kernel has written.

The right answer: what the kernel has written, as on a device.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/pull/40452",
    year=2026,
    versions="jax 0.11.1",
    kind=Kind.OUT_OF_REACH,
    reported="the interpreter drops writes to an aliased output whose input is only read in an inner scope",
    unreachable="a mistake of Pallas' interpreter, which no compiled program contains",
)
