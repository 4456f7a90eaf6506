"""Two frameworks share one buffer, and one of them writes.

The right answer: JAX's array does not change.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/30228",
    year=2025,
    versions="not said",
    kind=Kind.OUT_OF_REACH,
    reported="an array that came by DLPack shares memory with another framework's",
    unreachable="the write is in another framework, outside of any compiled program",
)
