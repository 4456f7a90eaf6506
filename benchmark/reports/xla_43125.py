"""Virtual memory for ragged collectives is allocated and freed wrongly (with openxla/xla#43978 and #44077)."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/43125",
    year=2026,
    versions="XLA of 2026",
    kind=Kind.OUT_OF_REACH,
    reported="allocations for ragged all-to-alls in virtual memory go wrong",
    unreachable="the allocator is at fault",
)
