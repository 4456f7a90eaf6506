"""The JSON form meets its schema, whatever the report holds."""

import json
from dataclasses import fields
from typing import Any

import jsonschema
import pytest

from ligerdiag.findings import SourceLine, Suppression, SuppressionKind, Verdict
from ligerdiag.outcomes import (
    Attribution,
    DeviceOutput,
    DeviceRun,
    LaunchNumbers,
    OutputNumbers,
    Replay,
    ReplayState,
)
from ligerdiag.report.agreement import compute_disagreements
from ligerdiag.report.json import load_schema, render_json
from ligerdiag.report.model import SCHEMA_VERSION, CheckReport, Status, UnusedSuppression
from tests.report.samples import (
    LAUNCH,
    make_case,
    make_device,
    make_finding,
    make_numbers,
    make_refused,
    make_replay,
    make_report,
)

NOT_FINITE = make_replay(
    {"w": make_numbers(Attribution.UNDECIDED, error=float("nan"), stale_error=float("inf"), distance=float("-inf"))},
    reference={"w": float("inf")},
    launches=(LAUNCH,),
)

REPORTS = {
    "nothing": make_report(),
    "every status": make_report(*(make_case(f"c[{status}]", status) for status in Status)),
    "every expectation": make_report(
        *(make_case(f"c[{n}]", expected=e) for n, e in enumerate((None, "fresh", "hazard", {"*": "stale|latent"})))
    ),
    "every verdict": make_report(make_case(outputs={v.value: v for v in Verdict})),
    "findings": make_report(
        make_case(findings=(make_finding(), make_finding(source=None, operand=None, evidence=(), kernel="")))
    ),
    "a line that is not known": make_report(
        make_case(findings=(make_finding(source=SourceLine(file="a.py", line=0)),))
    ),
    "an error": make_report(
        make_case(status=Status.ERROR, error="aborted", error_exit_code=3, log_tail="F0000\n\x1b[31m", outputs={})
    ),
    "every attribution": make_report(
        make_case(replay=make_replay({a.value: make_numbers(a, rows=4, rows_fresh=3) for a in Attribution}))
    ),
    "every state of a replay": make_report(
        *(make_case(f"c[{state}]", replay=make_refused(state, "because")) for state in ReplayState)
    ),
    "numbers that are not finite": make_report(make_case(replay=NOT_FINITE)),
    "a device": make_report(make_case(device=make_device(), replay=make_replay())),
    "a device that did not run": make_report(
        make_case(device=make_device(outputs={}, verdicts={}, error="no GPU", milliseconds=None))
    ),
    "disagreements": make_report(
        make_case(
            status=Status.DISAGREEMENT,
            disagreements=compute_disagreements(
                {"w": Verdict.STALE}, (make_finding(outputs=("w",)),), make_replay({"w": make_numbers()}), None
            ),
        )
    ),
    "suppressions": make_report(
        make_case(
            status=Status.ALLOWED,
            findings=tuple(
                make_finding(suppressed=Suppression(kind=kind, reason="r", where="a.py:1")) for kind in SuppressionKind
            ),
        ),
        unused_suppressions=tuple(
            UnusedSuppression(kind=kind, rule="LD003", reason="", where="a.py:1", message="needs a reason")
            for kind in SuppressionKind
        ),
    ),
    "hostile names": make_report(make_case("[red]\x1b]0;x\x07\udcff\u202e", outputs={"\x00": Verdict.FRESH})),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
@pytest.mark.parametrize("exit_code", [None, 1])
def test_output_meets_the_schema(report: CheckReport, exit_code: int | None) -> None:
    validator = jsonschema.Draft202012Validator(load_schema())
    assert list(validator.iter_errors(json.loads(render_json(report, exit_code=exit_code)))) == []


def test_the_schema_is_one_and_names_the_version_of_the_model() -> None:
    schema = load_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"]["const"] == SCHEMA_VERSION


def test_the_schema_refuses_what_it_does_not_know() -> None:
    top = json.loads(render_json(make_report(make_case())))
    top["cases"][0]["verdict"] = "fine"
    assert not jsonschema.Draft202012Validator(load_schema()).is_valid(top)


def test_a_source_without_a_line_says_null() -> None:
    case = json.loads(render_json(REPORTS["a line that is not known"]))["cases"][0]
    assert case["findings"][0]["source"] == {"file": "a.py", "line": None, "function": ""}


def test_output_is_ascii_and_ends_with_a_newline() -> None:
    text = render_json(REPORTS["hostile names"])
    assert text.isascii()
    assert text.endswith("}\n")
    assert "\x1b" not in text


def test_a_number_that_is_not_finite_is_null_and_the_text_is_strict_json() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"`{constant}` is no JSON")

    text = render_json(REPORTS["numbers that are not finite"])
    replay = json.loads(text, parse_constant=refuse)["cases"][0]["replay"]
    numbers = replay["outputs"]["w"]
    assert [numbers[name] for name in ("error", "stale_error", "distance", "tolerance")] == [None, None, None, 1e-5]
    assert replay["reference"] == {"w": None}
    assert replay["launches"][0]["racing"] == [{"operand": 0, "difference": None}]


@pytest.mark.parametrize(
    ("definition", "record"),
    [
        ("replay", Replay),
        ("output_numbers", OutputNumbers),
        ("launch", LaunchNumbers),
        ("device", DeviceRun),
        ("device_output", DeviceOutput),
    ],
)
def test_every_field_of_the_numbers_is_in_the_schema(definition: str, record: Any) -> None:
    assert load_schema()["$defs"][definition]["required"] == [field.name for field in fields(record)]


def test_a_case_without_numbers_says_null_and_no_disagreement() -> None:
    case = json.loads(render_json(make_report(make_case())))["cases"][0]
    assert (case["replay"], case["device"], case["disagreements"]) == (None, None, [])
