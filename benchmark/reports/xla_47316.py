"""Reports of a fuzzer: programs whose results change if one pass is off (with 13 more issues of the same author)."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/47316",
    year=2026,
    versions="XLA of August 2026, RTX 4060",
    kind=Kind.MISCOMPILE,
    reported="twenty programs give other numbers unless the fusion pass is disabled",
    unreachable=(
        "the reports have whole generated programs and no reduced one, and the numbers differ on one GPU model only"
    ),
)
