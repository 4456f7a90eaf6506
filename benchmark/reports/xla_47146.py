"""A ragged all-to-all in symmetric memory goes wrong (with openxla/xla#47283)."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/47146",
    year=2026,
    versions="XLA of August 2026",
    kind=Kind.OUT_OF_REACH,
    reported="a ragged all-to-all fails in symmetric memory",
    unreachable="the mistake is in the runtime's windows for symmetric memory",
)
