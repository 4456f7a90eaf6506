"""Two overlapping stores of one program arrive in the wrong order."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/10743",
    year=2026,
    versions="triton 3.6",
    kind=Kind.LOST_UPDATE,
    reported="the later of two overlapping stores of one kernel does not always win",
    unreachable="the threads of one program are not modelled: in the kernel's IR the second store follows the first",
)
