"""On one kind of GPU single operations return stale or arbitrary numbers since an upgrade.

The right answer: those of the CPU. The HLO of the two versions is the same.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/40633",
    year=2026,
    versions="jax 0.11.0 and 0.11.1, RTX A6000",
    kind=Kind.OUT_OF_REACH,
    reported="operations outside of jit return numbers of the operation before",
    unreachable="the HLO is right; kernels, driver or GPU are not",
)
