"""A one-sided gather writes into an aliased output that peers also see."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/41492",
    year=2026,
    versions="XLA of 2026",
    kind=Kind.OVERLAP,
    reported="a one-sided all-gather needs its output aliased and in a symmetric window",
    unreachable="peers write the window; no instruction of one device's schedule does",
)
