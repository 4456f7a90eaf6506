"""The JSON form meets its schema, whatever the report holds."""

import json

import jsonschema
import pytest

from ligerdiag.findings import SourceLine, Verdict
from ligerdiag.report.json import load_schema, render_json
from ligerdiag.report.model import SCHEMA_VERSION, CheckReport, Status
from tests.report.samples import make_case, make_finding, make_report

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
