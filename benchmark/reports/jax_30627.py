"""A program needs 10 GB where it needed 4.4 GB before an upgrade."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/30627",
    year=2025,
    versions="jax 0.6",
    kind=Kind.MEMORY_DRIFT,
    reported="the memory of a large program more than doubles with an upgrade of JAX",
    unreachable="the report has no program, and its author has given up the code that showed it",
)
