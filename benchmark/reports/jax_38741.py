"""Two groups of flags for overlapping collectives are each right, and together they give NaN."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/38741",
    year=2026,
    versions="jax 0.10.2, TPU v6e",
    kind=Kind.OVERLAP,
    reported="collectives that overlap an attention kernel corrupt the result on a TPU",
    unreachable="the schedule is made by the TPU's compiler, libtpu, which does not run here",
)
