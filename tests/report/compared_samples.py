"""Reports of two states of the same cases, made by hand."""

from collections.abc import Sequence

from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.model.memory import CopyCause, MemoryUse
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.compared.report_comparison import ReportComparison, compare_reports, make_side
from tests.hazards.memory_by_hand import MIB, make_copy, make_line, make_memory
from tests.report.samples import make_case, make_finding, make_report


def make_compared(case_id: str, memory: MemoryUse | None = None, **changes: object) -> CaseReport:
    """Returns a case that is fresh and without findings."""
    fields: dict[str, object] = {
        "status": Status.CLEAN,
        "outputs": {"loss": Verdict.FRESH},
        "expected": None,
        "memory": memory,
    }
    return make_case(case_id, **{**fields, **changes})  # type: ignore[arg-type]


def make_memory_finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "rule": "LD027",
        "severity": Severity.WARNING,
        "message": "`cache` is copied before it is overwritten",
        "source": make_line(41),
        "outputs": (),
    }
    return make_finding(**{**fields, **changes})


BIG = make_copy(64 * MIB, cause=CopyCause.BRANCH_UNCHANGED, line=make_line(88))
OLD: Sequence[CaseReport] = (
    make_compared("cond", make_memory()),
    make_compared("decode", make_memory(make_copy(17 * MIB, trips=8))),
    make_compared("evaluate", make_memory()),
    make_compared("flce", make_memory()),
    make_compared("gone", make_memory()),
    make_compared("sharded", make_memory(collectives=(("all-gather", 4 * MIB),))),
    make_compared("broken", status=Status.ERROR, error="XLA aborted", outputs={}),
)
NEW: Sequence[CaseReport] = (
    make_compared("added", make_memory()),
    make_compared("sharded", make_memory(collectives=(("all-gather", 4 * MIB), ("all-reduce", 8 * MIB)))),
    make_compared("flce", make_memory(), outputs={"loss": Verdict.STALE}, status=Status.FINDINGS),
    make_compared("evaluate", make_memory(peak=140 * MIB + 65536)),
    make_compared("decode", make_memory()),
    make_compared(
        "cond",
        make_memory(BIG, peak=204 * MIB, temporaries=94 * MIB),
        findings=(make_memory_finding(),),
        status=Status.FINDINGS,
    ),
    make_compared("broken"),
)


def make_compared_report(cases: Sequence[CaseReport], jax: str = "0.10.0") -> CheckReport:
    return make_report(*cases, toolchain=f"jax-{jax}", versions={"jax": jax, "triton": "3.6.0"})


def compare_by_hand(old: Sequence[CaseReport], new: Sequence[CaseReport]) -> ReportComparison:
    return compare_reports(
        make_side(make_compared_report(old), "old.json"), make_side(make_compared_report(new, "0.11.2"), "new.json")
    )
