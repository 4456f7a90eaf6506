"""Taking an element out of the middle of a carried array, by shifting a slice of it, copies the array in every iteration."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/17845",
    year=2023,
    versions="jax 0.4.16",
    kind=Kind.SILENT_COPY,
    reported="shifting a slice of a scan's carry copies the carry instead of updating it in place",
    unreachable="jax 0.5.3 to 0.11.2, all that compile here, save the slice alone and update the carry in place",
)
