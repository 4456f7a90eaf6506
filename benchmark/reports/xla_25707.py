"""A recorded graph of cuDNN is updated wrongly inside of a command buffer."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/25707",
    year=2025,
    versions="not said",
    kind=Kind.OUT_OF_REACH,
    reported="an update of a command buffer leaves a cuDNN graph with old addresses",
    unreachable="the runtime updates the graph between two executions of the same schedule",
)
