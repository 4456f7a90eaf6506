"""A Pallas kernel for TPUs reads zeros by DMA if one of its operands is not used.

The right answer: the operand's contents.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/39744",
    year=2026,
    versions="libtpu 0.0.43, TPU",
    kind=Kind.OUT_OF_REACH,
    reported="with an unused operand a kernel's copy from main memory reads zeros",
    unreachable="the compiler of TPU kernels; ligerdiag reads kernels for GPUs",
)
