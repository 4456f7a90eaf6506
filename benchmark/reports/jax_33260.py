"""The interpreter cannot follow an asynchronous copy into an inner scope.

The right answer: as on a TPU.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/33260",
    year=2025,
    versions="jax 0.8, TPU",
    kind=Kind.OUT_OF_REACH,
    reported="a kernel that runs on a TPU raises an error in interpret mode",
    unreachable="a mistake of Pallas' interpreter, which no compiled program contains",
)
