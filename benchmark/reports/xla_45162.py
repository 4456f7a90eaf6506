"""The runtime replaces an allocation when it runs a dynamic-slice fusion, and a thunk inside of it used the old one.

The right answer: the new allocation. Neither HLO nor buffer assignment shows it.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/45162",
    year=2026,
    versions="XLA of July 2026",
    kind=Kind.OUT_OF_REACH,
    reported="a thunk forgets that one of its allocations was replaced",
    unreachable="the mistake is in XLA's runtime, after the schedule and the buffers",
)
