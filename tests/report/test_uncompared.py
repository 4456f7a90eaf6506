"""A report says for each case with a reference why its outputs were not compared with it."""

import json
from math import nan

import pytest

from ligerdiag.model.findings import DeviceOutput, DeviceRun, Replay, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.json import render_json
from ligerdiag.report.markdown import render_markdown
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.report.words.uncompared import explain_uncompared_reference
from tests.report.samples import make_case, make_report

COMPARED = Replay(state=ReplayState.DONE, reference={"y": 0.0})


def make_referenced(case_id: str = "a", **changes: object) -> CaseReport:
    fields: dict[str, object] = {"has_reference": True, "status": Status.CLEAN, "outputs": {"y": Verdict.FRESH}}
    return make_case(case_id, **{"findings": (), "replay": None, **fields, **changes})  # type: ignore[arg-type]


def make_device(intended_from: str) -> DeviceRun:
    output = DeviceOutput(errors=(0.0,), attribution=None, tolerance=1e-4, unsteady=0.0)  # type: ignore[arg-type]
    return DeviceRun(device="H200", count=1, runs=3, outputs={"y": output}, intended_from=intended_from)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "--no-replay"),
        ({"has_reference": False}, ""),
        ({"replay": COMPARED}, ""),
        ({"replay": Replay(state=ReplayState.TOO_LARGE)}, "the replay is `too large`"),
        ({"replay": Replay(state=ReplayState.DONE)}, "the replay compared no output with it"),
        ({"replay": Replay(state=ReplayState.DONE, reference={"y": nan, "z": 0.0})}, "no finite error of `y`"),
        ({"device": make_device("reference: no replay")}, ""),
        ({"device": make_device("program order")}, "--no-replay"),
        ({"status": Status.ERROR}, ""),
    ],
)
def test_the_reason_says_why_no_output_was_compared(changes: dict[str, object], reason: str) -> None:
    assert explain_uncompared_reference(make_referenced("a", **changes)) == reason


def test_each_case_is_named_once_and_only_those_with_a_reference() -> None:
    cases = (make_referenced("a"), make_referenced("a", target="a100"), make_referenced("b"))
    report = make_report(*cases, make_referenced("c", has_reference=False), targets=("h100", "a100"))
    assert "reference not compared: --no-replay (reference of `a` and `b`)\n" in render_terminal(report)


def test_many_cases_are_counted_without_verbose() -> None:
    report = make_report(*(make_referenced(f"case{number}") for number in range(7)))
    assert "`case4` and 2 more)" in render_terminal(report)
    assert "`case6`)" in render_terminal(report, verbose=True)


def test_json_and_markdown_say_it_too() -> None:
    report = make_report(make_referenced("a"), make_referenced("b", replay=COMPARED))
    assert [case["reference_not_compared"] for case in json.loads(render_json(report))["cases"]] == ["--no-replay", ""]
    assert "reference not compared: --no-replay (reference of `a`)" in render_markdown(report, exit_code=0)
