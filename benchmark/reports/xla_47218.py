"""As xla_43396, for computations inside an asynchronous pair when a loop is double-buffered.

The right answer: the offset that the HLO computes.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/47218",
    year=2026,
    versions="XLA of August 2026, GPU",
    kind=Kind.OUT_OF_REACH,
    reported="double-buffered loops with asynchronous copies keep the offsets of a single iteration",
    unreachable="the offset is in a backend configuration that ligerdiag does not compare with the HLO; mended since",
)
