"""Outputs that are no inputs any more are computed elsewhere and copied back by the caller."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/pytorch/helion/pull/1849",
    year=2026,
    versions="helion of April 2026",
    kind=Kind.SILENT_COPY,
    reported="results of a kernel are copied back into the caller's tensors in the memory of the device",
    unreachable="the copy is PyTorch's, after the compiled program has returned",
)
