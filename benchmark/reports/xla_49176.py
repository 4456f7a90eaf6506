"""A fusion that shifts an array by one row works in place, and copies forward over its own input.

The right answer: the old rows, shifted. On a GPU the program is right.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/49176",
    year=2026,
    versions="jax 0.11, CPU",
    kind=Kind.OUT_OF_REACH,
    reported="an in-place update on a CPU reads elements that it has already overwritten",
    unreachable="only XLA:CPU fuses the read into the update; ligerdiag compiles for GPUs",
)
