"""Renders a comparison of two reports as JSON; docs/compare.md describes it."""

import json

from ligerdiag.analysis.explain.memory_drift import CopyChange
from ligerdiag.codec import JsonObject, encode_record
from ligerdiag.report.compared.report_comparison import (
    ComparedCase,
    Grade,
    ReportComparison,
    ReportedCase,
    ReportedFinding,
    ReportedSide,
)
from ligerdiag.report.json import make_top


def render_comparison_json(comparison: ReportComparison, *, exit_code: int | None = None) -> str:
    """Returns the comparison as one JSON object: ASCII only, with a final newline. exit_code: as in `render_json`."""
    top: JsonObject = {
        **make_top(exit_code=exit_code),
        "old": _side(comparison.old),
        "new": _side(comparison.new),
        "notes": list(comparison.notes),
        "counts": {grade.value: len(comparison.list_graded(grade)) for grade in Grade},
        "cases": [_case(case) for case in comparison.cases],
        "only_old": [_name(case) for case in comparison.only_old],
        "only_new": [_name(case) for case in comparison.only_new],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _side(side: ReportedSide) -> JsonObject:
    return {"label": side.label, "toolchain": side.toolchain, "versions": dict(side.versions)}


def _name(case: ReportedCase) -> JsonObject:
    return {"id": case.id, "target": case.target}


def _case(case: ComparedCase) -> JsonObject:
    old, new = case.collectives
    return {
        "id": case.id,
        "grade": case.grade.value,
        "old": _reported(case.old),
        "new": _reported(case.new),
        "figures": [
            {"figure": figure.name, "old": figure.old, "new": figure.new, "change": figure.change}
            for figure in case.figures
        ],
        "collective_operations": {"old": old, "new": new},
        "verdicts": [
            {"output": name, "old": was and was.value, "new": now and now.value} for name, was, now in case.verdicts
        ],
        "new_findings": [_finding(finding) for finding in case.appeared],
        "gone_findings": [_finding(finding) for finding in case.gone],
        "copies": [_copy(copy) for copy in case.copies],
        "hint": case.hint,
    }


def _reported(case: ReportedCase) -> JsonObject:
    return {**_name(case), "status": case.status.value, "error": case.error}


def _finding(finding: ReportedFinding) -> JsonObject:
    return {**encode_record(finding), "line": finding.line or None}


def _copy(copy: CopyChange) -> JsonObject:
    return {**encode_record(copy), "line": copy.line or None}
