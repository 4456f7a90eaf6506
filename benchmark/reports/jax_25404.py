"""A limit on overlapping collectives makes the latency-hiding scheduler abort."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/25404",
    year=2024,
    versions="jax 0.4.37",
    kind=Kind.OVERLAP,
    reported="the latency-hiding scheduler fails a check of its limits on overlap",
    unreachable="XLA aborts inside of its scheduler, and leaves no schedule",
)
