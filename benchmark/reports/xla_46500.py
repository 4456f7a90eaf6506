"""Attention in cuDNN has several defects, one of which uses memory that has been freed."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/46500",
    year=2026,
    versions="not said",
    kind=Kind.OUT_OF_REACH,
    reported="cuDNN's attention uses freed memory",
    unreachable="the mistake is in the runtime's use of cuDNN",
)
