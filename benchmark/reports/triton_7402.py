"""The result of an atomic addition reaches one thread of the program only."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/7402",
    year=2025,
    versions="triton 3.3.1, H100",
    kind=Kind.MISCOMPILE,
    reported="the place that an atomic addition returns is right in one thread and zero in the others",
    unreachable="the mistake is in Triton's code for threads; the program's IR is right, and so is its meaning",
)
