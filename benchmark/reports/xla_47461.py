"""A kernel that writes to its peers needs buffers in collective memory; a dynamic-slice fusion around its call hides
that.

The right answer: operands and results of the call in the collective space. The run fails, and no value is wrong.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/47461",
    year=2026,
    versions="jax 0.11.1 nightly, 4 GB200",
    kind=Kind.OUT_OF_REACH,
    reported="a fusion around a collective Mosaic kernel hides that its buffers need collective memory",
    unreachable="ligerdiag does not model memory spaces; a program needs several processes and peers",
)
