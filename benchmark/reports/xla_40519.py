"""A move of a value to the device passes a barrier that should hold it back."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/40519",
    year=2026,
    versions="XLA of April 2026",
    kind=Kind.OVERLAP,
    reported="an annotated move to the device bypasses an optimization barrier",
    unreachable="the move is one between the host's memory and the device's, which ligerdiag's targets do not describe",
)
