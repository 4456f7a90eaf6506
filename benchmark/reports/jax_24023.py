"""Two aliased outputs that a Pallas kernel does not touch are zeros on a TPU.

The right answer: the inputs, as one alias alone gives. On a GPU both outputs hold them, so no program of ours is wrong.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/24023",
    year=2024,
    versions="jax 0.4.34, TPU",
    kind=Kind.OUT_OF_REACH,
    reported="a kernel that stores nothing to two aliased outputs returns zeros on a TPU",
    unreachable="only the lowering for TPUs loses the second alias",
)
