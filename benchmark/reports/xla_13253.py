"""A fusion updates an array in place and also reads it at other places, which it has already overwritten.

The right answer: the old elements, at every place. XLA has decided such fusions rightly since then, and text of HLO has no
buffer assignment, which alone says that both are in one place.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/13253",
    year=2024,
    versions="XLA of May 2024, Intel GPU",
    kind=Kind.OUT_OF_REACH,
    reported="the decision to fuse into an in-place update forgets operations that are not elementwise",
    unreachable="no version that ligerdiag compiles with makes the fusion, and HLO text does not say which bytes are shared",
)
