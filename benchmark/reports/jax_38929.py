"""Gradients of a scan with several Refs were taken for one another, or raised errors.

The right answer: as with immutable arrays. It is mended in the version that ligerdiag compiles with.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/pull/38929",
    year=2026,
    versions="jax 0.11.0",
    kind=Kind.OUT_OF_REACH,
    reported="the transpose of a scan mixes up Refs and arrays in its operands",
    unreachable="mended in JAX before the versions that ligerdiag compiles with",
)
