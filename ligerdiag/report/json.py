"""Renders reports, bisections, differences and comparisons as JSON; schema.json is the contract, docs/json.md and
docs/compare.md describe it.
"""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, cast

from ligerdiag.analysis.explain.drift import Drift, NeighbourhoodPair
from ligerdiag.analysis.explain.memory_drift import CopyChange
from ligerdiag.codec import JsonObject, encode_record
from ligerdiag.model.findings import CutLoop, Finding, LaunchNumbers, Replay, SourceLine
from ligerdiag.model.memory import Copy, CurvePoint, Donation, LiveValue, MemoryUse, Request
from ligerdiag.model.report import SCHEMA_VERSION, CaseReport, CheckReport
from ligerdiag.model.schedule_view import Neighbourhood, Reader
from ligerdiag.package_metadata import compute_version
from ligerdiag.report.causes import compute_causes, list_calls, list_reads, list_rules
from ligerdiag.report.compared.report_comparison import (
    ComparedCase,
    Grade,
    ReportComparison,
    ReportedCase,
    ReportedFinding,
    ReportedSide,
)
from ligerdiag.report.comparisons import Bisection, BisectionRow, ComparedSide, Difference, DifferenceReport
from ligerdiag.report.words.uncompared import explain_uncompared_reference


def make_plain(record: object) -> Any:
    """Returns the fields of a record as JSON, in their order. A number that is not finite becomes null."""
    return _drop_infinities(encode_record(record))


def _drop_infinities(value: Any) -> Any:
    match value:
        case float() if not isfinite(value):
            return None
        case dict():
            entries = cast("dict[str, Any]", value)
            return {name: _drop_infinities(entry) for name, entry in entries.items()}
        case list():
            return [_drop_infinities(entry) for entry in cast("list[Any]", value)]
        case _:
            return value


def label_evidence(evidence: Sequence[tuple[str, str]]) -> list[JsonObject]:
    """Returns evidence, given as (label, sentence) pairs, as JSON objects."""
    return [{"label": label, "text": text} for label, text in evidence]


def render_place(source: SourceLine | None) -> JsonObject | None:
    """Returns the source line as a JSON object, or None if `source` is None. An unknown line number becomes null."""
    return None if source is None else {"file": source.file, "line": source.line or None, "function": source.function}


def make_top(*, exit_code: int | None) -> JsonObject:
    """Returns the fields at the start of each JSON document, such as its format version.

    exit_code: as in `render_json`.
    """
    return {"schema": SCHEMA_VERSION, "version": compute_version(), "exit_code": exit_code}


def _replay(replay: Replay) -> JsonObject:
    launches = [_launch(launch) for launch in replay.launches]
    own: JsonObject = {"cut": _cut(replay.cut), "seconds": round(replay.seconds, 6)}
    opaque = replay.opaque
    if opaque is not None:
        numbers = {"cut": _cut(opaque.cut), "seconds": round(opaque.seconds, 6)}
        own["opaque"] = {**make_plain(opaque), **numbers}
    return {**make_plain(replay), "launches": launches, **own}


def _cut(loops: Sequence[CutLoop]) -> list[JsonObject]:
    return [{**make_plain(one), "line": render_place(one.line)} for one in loops]


FOR_RULES = frozenset(
    {
        "line",
        "unwritten_later",
        "old_reads",
        "order_tried",
        "reached_by_order",
        "reached_by_garbage",
        "are_atomic",
        "is_later",
    }
)
"""Fields of a kernel launch that JSON leaves out: rules need them, and the findings say the same in words."""


def _launch(launch: LaunchNumbers) -> JsonObject:
    def make_known(record: Any) -> JsonObject:
        return {key: value for key, value in make_plain(record).items() if key not in FOR_RULES}

    return {
        **make_known(launch),
        "unwritten": [
            {"output": output, "unwritten": unwritten, "elements": elements}
            for output, (unwritten, elements) in launch.unwritten.items()
        ],
        "racing": [{"operand": operand, "difference": make_plain(value)} for operand, value in launch.racing.items()],
        "meetings": [
            {**make_known(one), "line": render_place(one.line), "other_line": render_place(one.other_line)}
            for one in launch.meetings
        ],
        "outside": [{**make_known(one), "line": render_place(one.line)} for one in launch.outside],
    }


def render_json(report: CheckReport, *, exit_code: int | None = None) -> str:
    """Returns the whole report as one JSON object, ASCII only, with a final newline.

    exit_code: the exit code with which the process will end; None if the process does not end after the report.
    """
    top: JsonObject = {
        "schema": SCHEMA_VERSION,
        "version": compute_version(),
        "toolchain": report.toolchain,
        "versions": dict(report.versions),
        "targets": list(report.targets),
        "seconds": round(report.seconds, 6),
        "interrupted": report.interrupted,
        "ended_by": report.ended_by.value if report.interrupted else None,
        "exit_code": exit_code,
        "notes": list(report.notes),
        "selected": report.selected,
        "unused_suppressions": make_plain(report.unused_suppressions),
        "cases": [_case(case) for case in report.cases],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _case(case: CaseReport) -> JsonObject:
    return {
        "id": case.id,
        "target": case.target,
        "toolchain": case.toolchain,
        "status": case.status.value,
        "about": case.about,
        "expected": dict(case.expected) if isinstance(case.expected, Mapping) else case.expected,
        "expected_rules": None if case.expected_rules is None else list(case.expected_rules),
        "outputs": {name: verdict.value for name, verdict in case.outputs.items()},
        "findings": _findings(compute_causes(case.findings, tuple(case.outputs), case.source_roots)),
        "coverage": make_plain(case.coverage),
        "replay": None if case.replay is None else _replay(case.replay),
        "device": make_plain(case.device),
        "memory": None if case.memory is None else _memory(case.memory),
        "tuning": make_plain(case.tuning),
        "reference_not_compared": explain_uncompared_reference(case),
        "disagreements": [{**make_plain(one), "evidence": label_evidence(one.evidence)} for one in case.disagreements],
        "seconds": round(case.seconds, 6),
        "compile_seconds": round(case.compile_seconds, 6),
        "cached": case.cached,
        "mismatch": case.mismatch,
        "error": case.error,
        "log_tail": case.log_tail,
        "artifact": case.artifact,
    }


def _memory(memory: MemoryUse) -> JsonObject:
    def place(records: Sequence[LiveValue | CurvePoint | Donation | Request]) -> list[JsonObject]:
        return [{**make_plain(one), "line": render_place(one.line)} for one in records]

    def make_copy(copy: Copy) -> JsonObject:
        return {**make_plain(copy), "line": render_place(copy.line), "total": copy.total}

    return {
        **make_plain(memory),
        "peak_line": render_place(memory.peak_line),
        "at_peak": place(memory.at_peak),
        "curve": place(memory.curve),
        "copies": [make_copy(one) for one in memory.copies],
        "donations": place(memory.donations),
        "requests": place(memory.requests),
        "collectives": [{"opcode": opcode, "bytes": size} for opcode, size in memory.collectives],
        "reserved": memory.reserved,
        "copied": memory.copied,
        "copy_milliseconds": make_plain(memory.copy_milliseconds),
        "is_in_place": memory.is_in_place,
    }


def _findings(causes: Sequence[Finding]) -> list[JsonObject]:
    places = {cause: place for place, cause in enumerate(causes)}
    origins = [cause.follows_from and places[cause.follows_from] for cause in causes]
    return [{**_finding(cause), "follows_from": origin} for cause, origin in zip(causes, origins, strict=True)]


def _finding(finding: Finding) -> JsonObject:
    call = finding.call
    return {
        "rule": finding.rule,
        "rules": list(list_rules(finding)),
        "severity": finding.severity.value,
        "message": finding.message,
        "outputs": list(finding.outputs),
        "kernel": finding.kernel,
        "operand": finding.operand,
        "instructions": list(finding.instructions),
        "source": render_place(finding.source),
        "stores": [] if call is None else [render_place(place) for place in call.stores],
        "calls": len(list_calls(finding)),
        "callers": [] if call is None else [render_place(place) for place in call.callers],
        "reads": [
            {"source": render_place(line), "in_backward": in_backward, "count": len(parts)}
            for (line, in_backward), parts in list_reads(finding).items()
        ],
        "evidence": label_evidence(finding.evidence),
        "help": finding.help,
        "suppressed": make_plain(finding.suppressed),
    }


def render_bisections_json(bisections: Sequence[Bisection], *, exit_code: int | None = None) -> str:
    """Returns bisections as one JSON object, ASCII only, with a final newline. exit_code: as in `render_json`."""
    top: JsonObject = {
        **make_top(exit_code=exit_code),
        "bisections": [_bisection(one) for one in bisections],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _bisection(one: Bisection) -> JsonObject:
    return {
        "case": one.case_id,
        "target": one.target,
        "toolchain": one.toolchain,
        "axis": one.axis.value,
        "columns": list(one.columns),
        "rows": [_row(row) for row in one.rows],
        "answers": list(one.answers),
        "notes": list(one.notes),
        "trials": one.trials,
        "compiled": one.compiled,
        "seconds": round(one.seconds, 6),
        "interrupted": one.interrupted,
        "unsettled": one.is_unsettled,
    }


def _row(row: BisectionRow) -> JsonObject:
    return {
        "label": row.label.strip(),
        "answer": row.is_answer,
        "word": row.word,
        "outputs": {name: verdict.value for name, verdict in row.outputs.items()},
        "cells": dict(row.cells),
        "replay": row.replay,
        "evidence": label_evidence(row.evidence),
        "error": row.error,
        "artifact": row.artifact,
    }


def render_differences_json(report: DifferenceReport, *, exit_code: int | None = None) -> str:
    """Returns the result of `diff` as one JSON object, ASCII only, with a final newline. exit_code: as in
    `render_json`.
    """
    top: JsonObject = {
        **make_top(exit_code=exit_code),
        "seconds": round(report.seconds, 6),
        "interrupted": report.interrupted,
        "notes": list(report.notes),
        "differences": [_difference(one) for one in report.differences],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _difference(one: Difference) -> JsonObject:
    return {
        "name": one.name,
        "differs": one.differs,
        "first": _side(one.first),
        "second": _side(one.second),
        "verdicts": [
            {"output": name, "first": first and first.value, "second": second and second.value}
            for name, first, second in one.verdicts
        ],
        "writes": [_write(pair) for pair in one.writes],
        "memory": [
            {"figure": figure.name, "first": figure.first, "second": figure.second, "change": figure.change}
            for figure in one.memory
        ],
        "changes": [_change(change) for change in one.changes],
    }


def _side(side: ComparedSide) -> JsonObject:
    report = side.report
    return {
        "label": side.label,
        "id": report.id,
        "target": report.target,
        "toolchain": report.toolchain,
        "artifact": report.artifact,
        "error": report.error,
        "not_covered": list(report.coverage.not_covered),
    }


def _write(pair: NeighbourhoodPair) -> JsonObject:
    one = pair.before or pair.after
    assert one is not None
    return {
        "kernel": one.kernel,
        "operand": one.operand,
        "number": one.number,
        "first": _neighbourhood(pair.before),
        "second": _neighbourhood(pair.after),
        "readers": [{"first": _reader(two.before), "second": _reader(two.after)} for two in pair.readers],
        "instead": pair.instead and pair.instead.value,
        "changes": [_change(change) for change in pair.changes],
    }


def _neighbourhood(one: Neighbourhood | None) -> JsonObject | None:
    if one is None:
        return None
    return {
        "fate": one.fate.value,
        "source": render_place(one.source),
        "shape": one.shape,
        "bytes": one.size,
        "copied_by": list(one.copied_by),
        "shares": list(one.shares),
    }


def _reader(reader: Reader | None) -> JsonObject | None:
    if reader is None:
        return None
    return {
        "side": reader.side.value,
        "reads": reader.origin.value,
        "opcode": reader.opcode,
        "op_name": reader.op_name,
        "source": render_place(reader.source),
        "within": reader.within or "",
    }


def _change(change: Drift) -> JsonObject:
    return {
        "kind": change.kind.value,
        "text": change.text,
        "matters": not change.is_minor,
        "output": change.output,
        "source": render_place(change.source),
    }


def render_comparison_json(comparison: ReportComparison, *, exit_code: int | None = None) -> str:
    """Returns the comparison as one JSON object: ASCII only, with a final newline. exit_code: as in `render_json`."""
    top: JsonObject = {
        **make_top(exit_code=exit_code),
        "old": _reported_side(comparison.old),
        "new": _reported_side(comparison.new),
        "notes": list(comparison.notes),
        "counts": {grade.value: len(comparison.list_graded(grade)) for grade in Grade},
        "cases": [_compared_case(case) for case in comparison.cases],
        "only_old": [_name_reported(case) for case in comparison.only_old],
        "only_new": [_name_reported(case) for case in comparison.only_new],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _reported_side(side: ReportedSide) -> JsonObject:
    return {"label": side.label, "toolchain": side.toolchain, "versions": dict(side.versions)}


def _name_reported(case: ReportedCase) -> JsonObject:
    return {"id": case.id, "target": case.target}


def _compared_case(case: ComparedCase) -> JsonObject:
    old, new = case.collectives
    return {
        "id": case.id,
        "grade": case.grade.value,
        "old": _reported_case(case.old),
        "new": _reported_case(case.new),
        "figures": [
            {"figure": figure.name, "old": figure.old, "new": figure.new, "change": figure.change}
            for figure in case.figures
        ],
        "collective_operations": {"old": old, "new": new},
        "verdicts": [
            {"output": name, "old": was and was.value, "new": now and now.value} for name, was, now in case.verdicts
        ],
        "new_findings": [_reported_finding(finding) for finding in case.appeared],
        "gone_findings": [_reported_finding(finding) for finding in case.gone],
        "copies": [_changed_copy(copy) for copy in case.copies],
        "hint": case.hint,
    }


def _reported_case(case: ReportedCase) -> JsonObject:
    return {**_name_reported(case), "status": case.status.value, "error": case.error}


def _reported_finding(finding: ReportedFinding) -> JsonObject:
    return {**encode_record(finding), "line": finding.line or None}


def _changed_copy(copy: CopyChange) -> JsonObject:
    return {**encode_record(copy), "line": copy.line or None}
