"""The same report as jax_25399, for XLA: copy insertion does not look at a barrier.

The right answer: no copy. Compiled for a GPU the same program makes none.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/20440",
    year=2024,
    versions="XLA of December 2024, CPU",
    kind=Kind.OUT_OF_REACH,
    reported="copies that XLA inserts come before a barrier that should order a read and an update",
    unreachable="only XLA:CPU makes the copies; ligerdiag compiles for GPUs",
)
