"""A process hangs after a CUDA graph has been destroyed."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/marin-community/marin/issues/5675",
    year=2026,
    versions="B200",
    kind=Kind.OUT_OF_REACH,
    reported="a job on a B200 hangs when a graph is destroyed",
    unreachable="the driver hangs",
)
