"""Two executions of one program that run at the same time mix up their events."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/38709",
    year=2026,
    versions="not said",
    kind=Kind.OVERLAP,
    reported="asynchronous events of concurrent executions are confused",
    unreachable="two executions of one schedule share the runtime's events; each schedule by itself is right",
)
