"""A Pallas kernel with two products gives wrong results on an H100 since a change of XLA."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/19780",
    year=2024,
    versions="XLA of November 2024, H100",
    kind=Kind.MISCOMPILE,
    reported="the second of two products in a Pallas kernel is wrong on an H100",
    unreachable="the mistake is in Triton's code for tensor cores; the kernel's IR is right",
)
