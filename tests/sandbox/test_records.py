"""A message between processes arrives unchanged, and a message of another type is refused."""

import json
from pathlib import Path

import pytest

from ligerdiag.codec import FieldError, decode_record, encode_record, parse_record
from ligerdiag.errors import CompileError
from ligerdiag.inspection.module_inspection import ModuleOutcome
from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.report import CaseReport, Identity, Judged, Status, refuse
from ligerdiag.model.schedule_view import Fate, Neighbourhood
from ligerdiag.sandbox.child import Question, render_message
from tests.report.html.view_samples import make_view
from tests.report.samples import LAUNCH, make_case, make_device, make_finding, make_judged, make_replay

CASES = (
    make_case(),
    make_case("all", view=make_view(), findings=(make_finding(),), replay=make_replay(launches=(LAUNCH,))),
    make_case("device", device=make_device(), expected={"y": "stale"}, expected_rules=("LD001",)),
)


def send_through[A](kind: type[A], value: A) -> A:
    return decode_record(kind, json.loads(json.dumps(encode_record(value))))


JUDGED = (
    make_judged(view=make_view(), findings=(make_finding(),), expected={"y": "stale"}),
    refuse(Identity(id="a", target="h100"), CompileError("aborted", "the log")),
)


@pytest.mark.parametrize("judged", JUDGED, ids=lambda judged: judged.identity.id)
def test_a_judgement_arrives_unchanged(judged: Judged) -> None:
    outcome = ModuleOutcome(judged=judged)
    assert send_through(ModuleOutcome, outcome) == outcome


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_report_arrives_unchanged(case: CaseReport) -> None:
    assert send_through(CaseReport, case) == case


def test_invalid_unicode_and_infinity_survive() -> None:
    report = CaseReport(
        id="\udcff\x00`", target="", toolchain="", status=Status.ERROR, seconds=float("inf"),
        neighbourhoods=(Neighbourhood(kernel="k", operand=2**70, number=1, fate=Fate.GONE),),
    )  # fmt: skip
    assert send_through(CaseReport, report) == report


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SourceLine, {"file": "f", "line": True, "function": ""}),
        (SourceLine, {"file": "f", "line": 1.5, "function": ""}),
        (SourceLine, {"file": "f", "line": 1}),
        (SourceLine, {"file": "f", "line": 1, "function": "", "more": 1}),
        (SourceLine, ["f", 1, ""]),
        (SourceLine, None),
        (Verdict, "good"),
        (Verdict, ["fresh"]),
        (ModuleOutcome, {"judged": None, "notes": "text", "is_idle": False, "is_over_budget": False}),
        (ModuleOutcome, {"judged": {}, "notes": [], "is_idle": False, "is_over_budget": False}),
        (tuple[str, str], ["a"]),
        (frozenset[int], ["a"]),
    ],
)
def test_another_type_is_refused(kind: type[object], value: object) -> None:
    with pytest.raises(FieldError, match="expected"):
        decode_record(kind, value)


@pytest.mark.parametrize("text", ["", "nonsense", "[" * 200_000, "9" * 5000, '{"answer": 1}'])
def test_a_malformed_message_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match=r"expected|not JSON"):
        parse_record(Question, text)


def test_a_question_keeps_its_subject() -> None:
    question = Question(answer=Path("/a"), subject=Path("/b"))
    assert parse_record(Question, render_message(question)) == question
