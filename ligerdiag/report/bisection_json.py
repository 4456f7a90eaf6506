"""Bisections as JSON for programs: `$defs/bisections` of schema.json is its contract, docs/json.md its description."""

import json
from collections.abc import Sequence
from typing import Any

from ligerdiag.report.bisection import Bisection, BisectionRow
from ligerdiag.report.json import compute_version
from ligerdiag.report.model import SCHEMA_VERSION

type Json = dict[str, Any]


def render_bisections_json(bisections: Sequence[Bisection], *, exit_code: int | None = None, version: str = "") -> str:
    """Returns one JSON object, ASCII only, with a final newline. exit_code, version: as in `render_json`."""
    top: Json = {
        "schema": SCHEMA_VERSION,
        "version": version or compute_version(),
        "exit_code": exit_code,
        "bisections": [_bisection(one) for one in bisections],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _bisection(one: Bisection) -> Json:
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


def _row(row: BisectionRow) -> Json:
    return {
        "label": row.label.strip(),
        "answer": row.is_answer,
        "word": row.word,
        "outputs": {name: verdict.value for name, verdict in row.outputs.items()},
        "cells": dict(row.cells),
        "replay": row.replay,
        "evidence": [{"label": label, "text": text} for label, text in row.evidence],
        "error": row.error,
        "artifact": row.artifact,
    }
