"""Bisections and differences as JSON for programs: `$defs` of schema.json are their contract, docs/json.md their
description.
"""

import json
from collections.abc import Sequence

from ligerdiag.analysis.explain.drift import Drift, NeighbourhoodPair
from ligerdiag.codec import JsonObject
from ligerdiag.judgement.bisection import Bisection, BisectionRow
from ligerdiag.judgement.difference import ComparedSide, Difference, DifferenceReport
from ligerdiag.model.schedule_view import Neighbourhood, Reader
from ligerdiag.render.json import label_evidence, make_top, render_place


def render_bisections_json(bisections: Sequence[Bisection], *, exit_code: int | None = None, version: str = "") -> str:
    """Returns one JSON object, ASCII only, with a final newline. exit_code, version: as in `render_json`."""
    top: JsonObject = {
        **make_top(exit_code=exit_code, version=version),
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


def render_differences_json(report: DifferenceReport, *, exit_code: int | None = None, version: str = "") -> str:
    """Returns one JSON object, ASCII only, with a final newline. exit_code, version: as in `render_json`."""
    top: JsonObject = {
        **make_top(exit_code=exit_code, version=version),
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
