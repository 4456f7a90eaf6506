"""A symmetric window is not aligned as the library wants it."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/47406",
    year=2026,
    versions="XLA of August 2026",
    kind=Kind.OUT_OF_REACH,
    reported="the registration of a symmetric window fails because of its alignment",
    unreachable="the allocator aligns the window; openxla/xla#47461 found another cause later",
)
