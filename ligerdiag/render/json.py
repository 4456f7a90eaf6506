"""The report as JSON for programs: schema.json beside this file is its contract, docs/json.md its description."""

import json
from collections.abc import Mapping
from importlib import resources
from math import isfinite

import ligerdiag
from ligerdiag.codec import JsonObject
from ligerdiag.judgement.causes import compute_causes, list_calls, list_reads, list_rules
from ligerdiag.model.findings import (
    DeviceOutput,
    DeviceRun,
    Finding,
    LaunchNumbers,
    OutputNumbers,
    Replay,
    SourceLine,
    Suppression,
)
from ligerdiag.model.report import SCHEMA_VERSION, CaseReport, CheckReport, Coverage, Disagreement, UnusedSuppression


def render_replay(replay: Replay) -> JsonObject:
    """Returns the record as a JSON object."""
    return {
        "state": replay.state.value,
        "reason": replay.reason,
        "outputs": {name: _output(numbers) for name, numbers in replay.outputs.items()},
        "reference": _numbers(replay.reference),
        "reference_tolerance": _numbers(replay.reference_tolerance),
        "changed_inputs": _numbers(replay.changed_inputs),
        "second_run": _numbers(replay.second_run),
        "launches": [_launch(launch) for launch in replay.launches],
        "unreached": list(replay.unreached),
        "seconds": round(replay.seconds, 6),
        "estimated_seconds": _number(replay.estimated_seconds),
        "estimated_bytes": replay.estimated_bytes,
        "cached": replay.cached,
    }


def render_device(device: DeviceRun) -> JsonObject:
    """Returns the record as a JSON object."""
    return {
        "device": device.device,
        "count": device.count,
        "runs": device.runs,
        "outputs": {name: _device_output(output) for name, output in device.outputs.items()},
        "verdicts": dict(device.verdicts),
        "not_covered": list(device.not_covered),
        "intended_from": device.intended_from,
        "artifact": device.artifact,
        "milliseconds": _number(device.milliseconds),
        "timed_runs": device.timed_runs,
        "error": device.error,
        "died": device.died,
    }


def _output(numbers: OutputNumbers) -> JsonObject:
    return {
        "attribution": numbers.attribution.value,
        "error": _number(numbers.error),
        "stale_error": _number(numbers.stale_error),
        "distance": _number(numbers.distance),
        "tolerance": _number(numbers.tolerance),
        "rows_fresh": numbers.rows_fresh,
        "rows_stale": numbers.rows_stale,
        "rows": numbers.rows,
    }


def _launch(launch: LaunchNumbers) -> JsonObject:
    return {
        "kernel": launch.kernel,
        "instruction": launch.instruction,
        "launches": launch.launches,
        "checked": launch.checked,
        "unwritten": [
            {"output": output, "unwritten": unwritten, "elements": elements}
            for output, (unwritten, elements) in launch.unwritten.items()
        ],
        "racing": [{"operand": operand, "difference": _number(value)} for operand, value in launch.racing.items()],
    }


def _device_output(output: DeviceOutput) -> JsonObject:
    return {
        "errors": [_number(error) for error in output.errors],
        "attribution": output.attribution.value,
        "tolerance": _number(output.tolerance),
        "distance": _number(output.distance),
        "replay_error": _number(output.replay_error),
        "unsteady": _number(output.unsteady),
    }


def _numbers(values: Mapping[str, float]) -> JsonObject:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and isfinite(value) else None


def render_json(report: CheckReport, *, exit_code: int | None = None, version: str = "") -> str:
    """Returns the whole report as one JSON object, ASCII only, with a final newline.

    exit_code: what the process will exit with, when a process asks. version: ligerdiag's own.
    """
    top: JsonObject = {
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


def load_schema() -> JsonObject:
    """Returns the JSON Schema (draft 2020-12) that every output of `render_json` meets."""
    return json.loads(resources.files("ligerdiag.render").joinpath("schema.json").read_text(encoding="utf-8"))


def compute_version() -> str:
    """Version of the ligerdiag that runs."""
    from importlib import metadata

    try:
        return metadata.version(ligerdiag.__name__)
    except metadata.PackageNotFoundError:
        return "unknown"


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


def _place(source: SourceLine | None) -> JsonObject | None:
    return None if source is None else {"file": source.file, "line": source.line or None, "function": source.function}


def _suppression(one: Suppression) -> JsonObject:
    return {"kind": one.kind.value, "reason": one.reason, "where": one.where}


def _unused(one: UnusedSuppression) -> JsonObject:
    return {
        "kind": one.kind.value,
        "rule": one.rule,
        "reason": one.reason,
        "where": one.where,
        "message": one.message,
    }


def _disagreement(one: Disagreement) -> JsonObject:
    return {
        "output": one.output,
        "static": one.static.value,
        "numbers": one.numbers.value,
        "message": one.message,
        "evidence": [{"label": label, "text": text} for label, text in one.evidence],
    }


def _coverage(coverage: Coverage) -> JsonObject:
    return {
        "instructions": coverage.instructions,
        "kernels": coverage.kernels,
        "hidden_writes": coverage.hidden_writes,
        "tags": coverage.tags,
        "tags_found": coverage.tags_found,
        "buffer_assignment": coverage.buffer_assignment,
        "not_covered": list(coverage.not_covered),
    }
