"""The report as JSON for programs: schema.json beside this file is its contract, docs/json.md its description."""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import ligerdiag
from ligerdiag.findings import Finding, SourceLine, Suppression
from ligerdiag.report.causes import compute_causes, list_calls, list_reads, list_rules
from ligerdiag.report.json_numbers import render_device, render_replay
from ligerdiag.report.model import SCHEMA_VERSION, CaseReport, CheckReport, Coverage, Disagreement, UnusedSuppression

type Json = dict[str, Any]


def render_json(report: CheckReport, *, exit_code: int | None = None, version: str = "") -> str:
    """Returns the whole report as one JSON object, ASCII only, with a final newline.

    exit_code: what the process will exit with, when a process asks. version: ligerdiag's own.
    """
    top: Json = {
        "schema": SCHEMA_VERSION,
        "version": version or compute_version(),
        "toolchain": report.toolchain,
        "versions": dict(report.versions),
        "targets": list(report.targets),
        "seconds": round(report.seconds, 6),
        "interrupted": report.interrupted,
        "ended_by": report.ended_by.value if report.interrupted else None,
        "exit_code": exit_code,
        "notes": list(report.notes),
        "unused_suppressions": [_unused(one) for one in report.unused_suppressions],
        "cases": [_case(case) for case in report.cases],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def load_schema() -> Json:
    """Returns the JSON Schema (draft 2020-12) that every output of `render_json` meets."""
    return json.loads(resources.files("ligerdiag.report").joinpath("schema.json").read_text(encoding="utf-8"))


def compute_version() -> str:
    """Version of the ligerdiag that runs."""
    from importlib import metadata

    try:
        return metadata.version(ligerdiag.__name__)
    except metadata.PackageNotFoundError:
        return "unknown"


def _case(case: CaseReport) -> Json:
    return {
        "id": case.id,
        "target": case.target,
        "toolchain": case.toolchain,
        "status": case.status.value,
        "about": case.about,
        "expected": dict(case.expected) if isinstance(case.expected, Mapping) else case.expected,
        "expected_rules": None if case.expected_rules is None else list(case.expected_rules),
        "outputs": {name: verdict.value for name, verdict in case.outputs.items()},
        "findings": [
            _finding(cause) for cause in compute_causes(case.findings, tuple(case.outputs), case.source_roots)
        ],
        "coverage": _coverage(case.coverage),
        "replay": None if case.replay is None else render_replay(case.replay),
        "device": None if case.device is None else render_device(case.device),
        "disagreements": [_disagreement(one) for one in case.disagreements],
        "seconds": round(case.seconds, 6),
        "cached": case.cached,
        "mismatch": case.mismatch,
        "error": case.error,
        "log_tail": case.log_tail,
        "artifact": case.artifact,
    }


def _finding(finding: Finding) -> Json:
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
        "source": _place(finding.source),
        "stores": [] if call is None else [_place(place) for place in call.stores],
        "calls": len(list_calls(finding)),
        "callers": [] if call is None else [_place(place) for place in call.callers],
        "reads": [
            {"source": _place(line), "in_backward": in_backward, "count": len(parts)}
            for (line, in_backward), parts in list_reads(finding).items()
        ],
        "evidence": [{"label": label, "text": text} for label, text in finding.evidence],
        "help": finding.help,
        "suppressed": None if finding.suppressed is None else _suppression(finding.suppressed),
    }


def _place(source: SourceLine | None) -> Json | None:
    return None if source is None else {"file": source.file, "line": source.line or None, "function": source.function}


def _suppression(one: Suppression) -> Json:
    return {"kind": one.kind.value, "reason": one.reason, "where": one.where}


def _unused(one: UnusedSuppression) -> Json:
    return {
        "kind": one.kind.value,
        "rule": one.rule,
        "reason": one.reason,
        "where": one.where,
        "message": one.message,
    }


def _disagreement(one: Disagreement) -> Json:
    return {
        "output": one.output,
        "static": one.static.value,
        "numbers": one.numbers.value,
        "message": one.message,
        "evidence": [{"label": label, "text": text} for label, text in one.evidence],
    }


def _coverage(coverage: Coverage) -> Json:
    return {
        "instructions": coverage.instructions,
        "kernels": coverage.kernels,
        "hidden_writes": coverage.hidden_writes,
        "tags": coverage.tags,
        "tags_found": coverage.tags_found,
        "buffer_assignment": coverage.buffer_assignment,
        "not_covered": list(coverage.not_covered),
    }
