"""In interpret mode an aliased output outside of main memory does not start from its input.

The right answer: the input's contents, as on a TPU.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/pull/27254",
    year=2025,
    versions="jax 0.5.3",
    kind=Kind.OUT_OF_REACH,
    reported="the interpreter for TPU kernels ignores aliases of arguments that are not in main memory",
    unreachable="a mistake of Pallas' interpreter, which no compiled program contains",
)
