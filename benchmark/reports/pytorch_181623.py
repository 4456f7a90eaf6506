"""A wrapper for Pallas kernels treats a donated argument as gone, so its caller copies the result back."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/pytorch/pytorch/pull/181623",
    year=2026,
    versions="PyTorch of April 2026",
    kind=Kind.SILENT_COPY,
    reported="kernels that write in place are wrapped as functions without mutation, and callers copy the results back",
    unreachable="the copy is made by PyTorch, outside of any compiled program",
)
