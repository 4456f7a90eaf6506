"""A donated buffer is passed to a second call, and the process dies instead of getting an error."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/22604",
    year=2025,
    versions="jax 0.4.29 to 0.5.0, GPU",
    kind=Kind.CLOBBERED,
    reported="passing a buffer that an earlier call has taken kills the process",
    unreachable="the second call is a matter of the caller and the runtime: each program by itself is right",
)
