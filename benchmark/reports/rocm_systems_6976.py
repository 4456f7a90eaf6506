"""A graph of the HIP runtime drops a barrier between two of its kernels."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/ROCm/rocm-systems/issues/6976",
    year=2026,
    versions="ROCm 7, gfx942",
    kind=Kind.OVERLAP,
    reported="a HIP graph loses a barrier, and the result is NaN",
    unreachable="the barrier is in the recorded graph and is lost in the runtime",
)
