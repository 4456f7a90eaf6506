"""XLA:CPU copies a donated array before it updates one element, although the read of the old element could come first.

The right answer: no copy. Compiled for a GPU the same program makes none.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/25399",
    year=2024,
    versions="jax 0.4.37, CPU",
    kind=Kind.OUT_OF_REACH,
    reported="a donated array is copied twice before a small update, in spite of a barrier",
    unreachable="only XLA:CPU makes the copies; ligerdiag compiles for GPUs",
)
