"""Reports made by hand, for the tests of what is printed."""

from collections.abc import Mapping

from ligerdiag.findings import Finding, Severity, SourceLine, Verdict
from ligerdiag.report.model import CaseReport, CheckReport, Coverage, Status

OUTPUTS: Mapping[str, Verdict] = {
    "loss": Verdict.FRESH,
    "input": Verdict.STALE,
    "weight": Verdict.LATENT,
    "bias": Verdict.CLOBBERED,
}

COVERAGE = Coverage(
    instructions=120,
    kernels=1,
    hidden_writes=1,
    tags=80,
    tags_found=79,
    buffer_assignment=True,
    not_covered=("custom call `cublas$gemm` by its table entry",),
)


def make_finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "rule": "LD002",
        "severity": Severity.ERROR,
        "message": "gradient of `bias` reads a copy of the logits that `ce_kernel` overwrote elsewhere",
        "outputs": ("bias",),
        "source": SourceLine(file="train.py", line=41, function="step"),
        "kernel": "ce_kernel",
        "operand": 0,
        "instructions": ("triton_kernel_call.2", "input_reduce_fusion"),
        "evidence": (
            ("write", "%triton_kernel_call.2 overwrites operand 0, %transpose, at logical time 14"),
            ("read", "%input_reduce_fusion reads %loop_add_fusion at logical time 22"),
        ),
        "help": "return the gradient as a declared output",
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def make_case(case_id: str = "flce[hidden]", status: Status = Status.EXPECTED, **changes: object) -> CaseReport:
    fields: dict[str, object] = {
        "id": case_id,
        "target": "h100",
        "toolchain": "default",
        "status": status,
        "expected": "hazard",
        "outputs": OUTPUTS,
        "coverage": COVERAGE,
        "seconds": 0.25,
    }
    return CaseReport(**{**fields, **changes})  # type: ignore[arg-type]


def make_report(*cases: CaseReport, targets: tuple[str, ...] = ("h100",), **changes: object) -> CheckReport:
    fields: dict[str, object] = {
        "cases": cases,
        "targets": targets,
        "toolchain": "default",
        "versions": {"jax": "0.11.2"},
        "seconds": 1.5,
    }
    return CheckReport(**{**fields, **changes})  # type: ignore[arg-type]
