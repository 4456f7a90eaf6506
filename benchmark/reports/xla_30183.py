"""Custom calls that say that they can be recorded are forced into command buffers, and some crash."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/30183",
    year=2025,
    versions="XLA of August 2025",
    kind=Kind.OUT_OF_REACH,
    reported="forcing compatible custom calls into command buffers breaks a library's tests",
    unreachable="the library's calls misbehave while they are recorded; the schedule is right",
)
