"""A recurrence that writes each step into a large array is far slower than in TensorFlow."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/10197",
    year=2022,
    versions="jax 0.3",
    kind=Kind.SILENT_COPY,
    reported="updates of one plane of a carried cube in a scan seem to copy the cube",
    unreachable="every version that compiles here updates the cube in place",
)
