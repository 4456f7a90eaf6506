"""A static slice of a sharded array is overwritten, and each device gathers the whole array for it."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/23052",
    year=2024,
    versions="jax 0.4.31 to 0.4.34, GPU",
    kind=Kind.SILENT_COPY,
    reported="setting a static slice of a sharded matrix gathers the matrix on all devices",
    unreachable="jax 0.5.3 to 0.11.2, all that compile here, write the rows where they belong, and gather nothing",
)
