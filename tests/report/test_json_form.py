"""The JSON form matches its schema, whatever the report contains."""

import json
from dataclasses import fields
from typing import Any

import jsonschema
import pytest

from ligerdiag.codec import pack_record, unpack_record
from ligerdiag.model.findings import (
    DeviceOutput,
    DeviceRun,
    LaunchNumbers,
    OutputNumbers,
    OutsideAccess,
    ProgramMeeting,
    Replay,
    SourceLine,
)
from ligerdiag.model.memory import (
    Copy,
    CopyCause,
    CurvePoint,
    Donation,
    DonationFault,
    LiveValue,
    MemoryUse,
    Request,
    RequestKind,
)
from ligerdiag.model.report import SCHEMA_VERSION, CheckReport
from ligerdiag.report.json import FOR_RULES, render_json
from tests.report.every_report import REPORTS
from tests.report.samples import make_case, make_copy, make_finding, make_memory, make_report
from tools.json_schema import load_schema


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
@pytest.mark.parametrize("exit_code", [None, 1])
def test_output_matches_the_schema(report: CheckReport, exit_code: int | None) -> None:
    validator = jsonschema.Draft202012Validator(load_schema())
    assert list(validator.iter_errors(json.loads(render_json(report, exit_code=exit_code)))) == []


@pytest.mark.parametrize("line", [-5, -(2**31), 0])
def test_an_impossible_line_number_is_unknown(line: int) -> None:
    finding = make_finding(source=SourceLine(file="train.py", line=line))
    rendered = json.loads(render_json(make_report(make_case(findings=(finding,)))))
    assert rendered["cases"][0]["findings"][0]["source"] == {"file": "train.py", "line": None, "function": ""}
    assert list(jsonschema.Draft202012Validator(load_schema()).iter_errors(rendered)) == []


def test_there_is_one_schema_with_the_model_s_version() -> None:
    schema = load_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"]["const"] == SCHEMA_VERSION


def test_the_schema_refuses_unknown_fields() -> None:
    top = json.loads(render_json(make_report(make_case())))
    top["cases"][0]["verdict"] = "fine"
    assert not jsonschema.Draft202012Validator(load_schema()).is_valid(top)


def test_a_source_without_a_line_is_null() -> None:
    case = json.loads(render_json(REPORTS["a line that is not known"]))["cases"][0]
    assert case["findings"][0]["source"] == {"file": "a.py", "line": None, "function": ""}


def test_output_is_ascii_and_ends_with_a_newline() -> None:
    text = render_json(REPORTS["hostile names"])
    assert text.isascii()
    assert text.endswith("}\n")
    assert "\x1b" not in text


def test_a_non_finite_number_is_null_and_the_text_is_strict_json() -> None:
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
        ("meeting", ProgramMeeting),
        ("outside", OutsideAccess),
        ("device", DeviceRun),
        ("device_output", DeviceOutput),
    ],
)
def test_every_field_of_the_numbers_is_in_the_schema(definition: str, record: Any) -> None:
    names = [field.name for field in fields(record)]
    hidden = {"launch": FOR_RULES, "meeting": FOR_RULES - {"line"}, "outside": FOR_RULES - {"line"}}.get(definition, ())
    assert load_schema()["$defs"][definition]["required"] == [name for name in names if name not in hidden]


def test_a_case_without_numbers_has_null_and_no_disagreement() -> None:
    case = json.loads(render_json(make_report(make_case())))["cases"][0]
    assert (case["replay"], case["device"], case["disagreements"]) == (None, None, [])


@pytest.mark.parametrize(
    ("definition", "record", "derived"),
    [
        ("memory", MemoryUse, ["reserved", "copied", "copy_milliseconds", "is_in_place"]),
        ("copy", Copy, ["total"]),
        ("donation", Donation, []),
        ("request", Request, []),
        ("live_value", LiveValue, []),
        ("curve_point", CurvePoint, []),
    ],
)
def test_every_field_of_the_memory_is_in_the_schema(definition: str, record: Any, derived: list[str]) -> None:
    assert load_schema()["$defs"][definition]["required"] == [*(field.name for field in fields(record)), *derived]


def test_the_schema_has_every_cause_fault_and_kind() -> None:
    definitions = load_schema()["$defs"]
    assert definitions["copy"]["properties"]["cause"]["enum"] == list(CopyCause)
    assert definitions["donation"]["properties"]["fault"]["oneOf"][1]["enum"] == list(DonationFault)
    assert definitions["request"]["properties"]["kind"]["enum"] == list(RequestKind)


def test_memory_has_its_figures_and_its_lines() -> None:
    memory = json.loads(render_json(make_report(make_case(memory=make_memory()))))["cases"][0]["memory"]
    assert (memory["peak"], memory["reserved"], memory["copied"]) == (34603008, 35127296, 16777216)
    assert memory["copy_milliseconds"] == pytest.approx(2e3 * 16777216 / 3.35e12)
    assert memory["is_in_place"] is False
    assert memory["collectives"] == [{"opcode": "all-reduce", "bytes": 2097152}]
    assert memory["peak_line"] == {"file": "train.py", "line": 52, "function": "loss"}
    assert [one["total"] for one in memory["copies"]] == [8388608, 8388608]
    assert [one["fault"] for one in memory["donations"]] == [None, "dtype"]


def test_a_case_without_memory_and_a_target_without_bandwidth_have_null() -> None:
    cases = json.loads(render_json(make_report(make_case(), make_case(memory=make_memory(bandwidth=0.0)))))["cases"]
    assert cases[0]["memory"] is None
    assert cases[1]["memory"]["copy_milliseconds"] is None


def test_a_report_keeps_its_memory_between_processes() -> None:
    report = make_report(make_case(memory=make_memory(copies=(make_copy(trips=None),))))
    assert unpack_record(CheckReport, pack_record(report), maximum=1 << 20) == report
