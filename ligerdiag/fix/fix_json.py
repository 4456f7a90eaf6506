"""Renders the answers of `fix` as JSON: `$defs/fixes` of the report's schema is the contract, docs/json.md describes it."""

import json
from collections.abc import Mapping, Sequence

from ligerdiag.codec import JsonObject
from ligerdiag.fix.records import Attempt, CaseFix
from ligerdiag.model.findings import Verdict
from ligerdiag.report.json import make_plain, make_top


def render_fixes_json(fixes: Sequence[CaseFix], *, written: set[str], exit_code: int | None = None) -> str:
    """Returns the answers as one JSON object: ASCII only, with a final newline.

    written: ids of the cases whose cure has been written. exit_code: as in `render_json`.
    """
    top: JsonObject = {
        **make_top(exit_code=exit_code),
        "fixes": [_fix(one, is_written=one.case_id in written) for one in fixes],
    }
    return json.dumps(top, indent=2, allow_nan=False) + "\n"


def _fix(fix: CaseFix, *, is_written: bool) -> JsonObject:
    return {
        "case": fix.case_id,
        "error": fix.error,
        "verdicts": _verdicts(fix.verdicts),
        "hazards": list(fix.hazards),
        "not_covered": list(fix.not_covered),
        "cure": None if fix.best is None else fix.best.cure,
        "written": is_written,
        "attempts": [_attempt(one) for one in fix.attempts],
    }


def _attempt(attempt: Attempt) -> JsonObject:
    return {
        "cure": attempt.cure,
        "safe": attempt.is_safe,
        "proof": attempt.proof.value,
        "reason": attempt.reason,
        "verdicts": _verdicts(attempt.verdicts),
        "left": list(attempt.left),
        "compared": attempt.is_compared,
        "changes_callers": attempt.changes_callers,
        "unproved_callers": list(attempt.unproved_callers),
        "remarks": list(attempt.remarks),
        "unseen": list(attempt.unseen),
        "also_changed": list(attempt.also_changed),
        "not_changed": list(attempt.not_changed),
        "others": {
            "judged": list(attempt.others.judged),
            "not_judged": attempt.others.left,
            "worse": list(attempt.others.worse),
            "copied": dict(attempt.others.copied),
        },
        "changed_lines": attempt.changed_lines,
        "files": [str(path) for path in sorted(attempt.files)],
        "diff": attempt.diff,
        "next_step": attempt.next_step,
        "advice": attempt.advice,
        "costs": {target: make_plain(cost) for target, cost in attempt.costs.items()},
    }


def _verdicts(verdicts: Mapping[str, Mapping[str, Verdict]]) -> JsonObject:
    return {target: {name: one.value for name, one in outputs.items()} for target, outputs in verdicts.items()}
