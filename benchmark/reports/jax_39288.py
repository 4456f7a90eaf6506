"""Reading and writing a Ref under vmap raises errors if the batch is not the first axis.

The right answer: as with immutable arrays. JAX 0.11.2 is right, or raises an error while it traces.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/39288",
    year=2026,
    versions="jax 0.11.0",
    kind=Kind.OUT_OF_REACH,
    reported="vmap over a Ref with in_axes other than 0 fails in several ways",
    unreachable="JAX raises an error while it traces: there is no program to judge",
)
