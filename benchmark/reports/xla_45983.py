"""Asynchronous copies run beside kernels that need the same bandwidth, and gain nothing."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/45983",
    year=2026,
    versions="XLA of July 2026",
    kind=Kind.OVERLAP,
    reported="copies on the device are hidden behind kernels that are bound by memory, so that they stay exposed",
    unreachable="the copies are right and needed; only a profile shows that they are not hidden",
)
