"""A fusion that updates in place reads its own output, if the update is a shifted slice of the operand."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/49176",
    year=2026,
    versions="XLA of September 2026, CPU",
    kind=Kind.MISCOMPILE,
    reported="an update by a shifted slice of the same array is wrong on the CPU",
    unreachable="XLA:CPU makes the fusion; compiled for a GPU, says the report, the program is right",
)
