"""SARIF: valid against its schema whatever the report contains, complete, with stable places and identities."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ligerdiag.model.findings import SourceLine, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status, UnusedSuppression
from ligerdiag.report.case_places import Repository
from ligerdiag.report.sarif import render_sarif
from ligerdiag.rules.registry import RULES
from tests.report.every_report import REPORTS
from tests.report.samples import make_case, make_finding, make_report

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
REPOSITORY = Repository(root="/repo", current="/repo/sub")
IDS_OF_OUR_OWN = """
unexpected-verdict unexplained-verdict inconclusive disagreement not-analysed no-numbers unused-suppression not-checked
"""


def render(report: CheckReport, exit_code: int = 0) -> dict[str, Any]:
    return json.loads(render_sarif(report, repository=REPOSITORY, exit_code=exit_code))


def render_results(*cases: CaseReport) -> list[dict[str, Any]]:
    return render(make_report(*cases))["runs"][0]["results"]


def find_one(*cases: CaseReport) -> dict[str, Any]:
    (result,) = render_results(*cases)
    return result


def find_fingerprint(**changes: Any) -> str:
    fields = {key: changes.pop(key) for key in ("id", "target") if key in changes}
    case = replace(found(**changes), **fields)
    return find_one(case)["partialFingerprints"]["ligerdiag/v1"]


def found(**changes: Any) -> CaseReport:
    """A case with one finding that counts."""
    finding = make_finding(**{"source": SourceLine(file="/repo/train.py", line=41, function="step"), **changes})
    outputs = {"bias": Verdict.STALE}
    return make_case("a", Status.FINDINGS, expected=None, findings=(finding,), outputs=outputs)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_output_matches_the_schema(report: CheckReport) -> None:
    log = render(report)
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(log)) == []
    for result in log["runs"][0]["results"]:
        assert log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert isinstance(result["suppressions"], list)
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"]
        assert location["physicalLocation"].get("region", {"startLine": 1})["startLine"] > 0


def test_the_schema_refuses_other_json() -> None:
    log = render(REPORTS["findings"])
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(log)


def test_rule_ids_and_their_order_never_change() -> None:
    rules = render(make_report())["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [*sorted(rule.id for rule in RULES), *IDS_OF_OUR_OWN.split()]
    stale = rules[0]
    assert (stale["name"], stale["defaultConfiguration"]) == ("stale-read", {"level": "error"})
    assert "ligerdiag explain LD001" in stale["help"]["text"]


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_every_finding_is_a_result_and_none_are_joined(report: CheckReport) -> None:
    ids = [result["ruleId"] for result in render(report)["runs"][0]["results"]]
    for rule in {finding.rule for case in report.cases for finding in case.findings}:
        assert ids.count(rule) == sum(finding.rule == rule for case in report.cases for finding in case.findings)
    assert ids.count("unused-suppression") == len(report.unused_suppressions)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        (make_case(status=Status.UNEXPECTED, mismatch="m"), "unexpected-verdict"),
        (make_case(status=Status.DISAGREEMENT), "disagreement"),
        (make_case(status=Status.INCONCLUSIVE), "inconclusive"),
        (make_case(status=Status.ERROR, error="aborted"), "not-analysed"),
        (make_case(status=Status.FINDINGS, expected=None, outputs={"w": Verdict.LATENT}), "unexplained-verdict"),
        (REPORTS["a replay that died"].cases[0], "no-numbers"),
    ],
)
def test_troubles_besides_findings_are_kept(case: CaseReport, rule: str) -> None:
    assert find_one(case)["ruleId"] == rule


@pytest.mark.parametrize("status", [Status.EXPECTED, Status.CLEAN, Status.NOTHING, Status.ALLOWED])
def test_a_right_case_without_findings_has_no_result(status: Status) -> None:
    assert render_results(make_case(status=status, outputs={"a": Verdict.FRESH})) == []


def test_a_result_is_on_the_user_s_line_relative_to_the_root() -> None:
    location = find_one(found())["locations"][0]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "train.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 41},
    }
    assert location["logicalLocations"][1] == {
        "name": "%triton_kernel_call.2",
        "fullyQualifiedName": "a@h100/%triton_kernel_call.2",
        "kind": "instruction",
    }
    assert render(make_report())["runs"][0]["originalUriBaseIds"] == {"%SRCROOT%": {"uri": "file:///repo/"}}


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("train.py", 3, {"uri": "sub/train.py", "uriBaseId": "%SRCROOT%"}),
        ("../a b/ü:#.py", 3, {"uri": "a%20b/%C3%BC%3A%23.py", "uriBaseId": "%SRCROOT%"}),
        ("/elsewhere/lib.py", 3, {"uri": "file:///elsewhere/lib.py"}),
        ("/repository/lib.py", 3, {"uri": "file:///repository/lib.py"}),
        ("../../etc/passwd", 3, {"uri": "file:///etc/passwd"}),
        ("/repo/a.py", 0, {"uri": "a.py", "uriBaseId": "%SRCROOT%"}),
    ],
)
def test_a_file_has_a_uri_by_its_location(file: str, line: int, expected: dict[str, str]) -> None:
    place = find_one(found(source=SourceLine(file=file, line=line)))["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == expected
    assert ("region" in place) == (line > 0)


@pytest.mark.parametrize("source", [None, SourceLine(file="<string>", line=1)])
def test_without_a_user_s_line_a_result_points_at_the_case_or_artifact_or_root(
    source: SourceLine | None,
) -> None:
    case = replace(found(source=source), source="/repo/cases/a.py", artifact="/dump/a.pb")
    places = [find_one(case), find_one(replace(case, source="")), find_one(replace(case, source="", artifact=""))]
    uris = [place["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for place in places]
    assert uris == ["cases/a.py", "file:///dump/a.pb", "."]


def test_a_trouble_is_at_the_definition_of_the_case(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from ligerdiag import Case\n\n\nCASES = (\n    Case(name='other'),\n    Case(\n        name='a'),\n)\n"
    )
    case = make_case("a[1-2]", Status.UNEXPECTED, mismatch="m", source=str(file))
    assert find_one(case)["locations"][0]["physicalLocation"]["region"] == {"startLine": 6}


def test_the_callers_and_the_case_are_related_places() -> None:
    evidence = (("write", "w"), ("from", "/repo/model.py:7 in loss"), ("from", "/repo/run.py:9 in the module"))
    result = find_one(replace(found(evidence=evidence), source="/repo/cases/a.py"))
    places = [
        (one["id"], one["physicalLocation"]["artifactLocation"]["uri"], one["physicalLocation"].get("region"))
        for one in result["relatedLocations"]
    ]
    assert places == [(1, "model.py", {"startLine": 7}), (2, "run.py", {"startLine": 9}), (3, "cases/a.py", None)]


def test_allowed_findings_are_kept_and_marked_with_the_reason() -> None:
    said = Suppression(kind=SuppressionKind.IN_CODE, reason="only logged", where="train.py:40")
    (suppression,) = find_one(found(suppressed=said))["suppressions"]
    assert (suppression["kind"], suppression["justification"]) == ("inSource", "only logged")
    assert suppression["location"]["physicalLocation"]["region"] == {"startLine": 40}
    by_file = Suppression(kind=SuppressionKind.CONFIG, reason="tracked", where="pyproject.toml, entry 1")
    (suppression,) = find_one(found(suppressed=by_file))["suppressions"]
    assert (suppression["kind"], suppression["justification"]) == ("external", "tracked")


def test_expected_findings_are_kept_and_marked_and_a_drift_is_not_excused() -> None:
    findings = (make_finding(), make_finding(rule="LD015"))
    expected, drift = render_results(make_case(findings=findings, expected={"w": "stale"}, expected_rules=("LD002",)))
    (suppression,) = expected["suppressions"]
    assert suppression["kind"] == "external"
    assert suppression["justification"] == "the case expects it: w stale; rules LD002"
    assert drift["suppressions"] == []


@pytest.mark.parametrize("status", [Status.UNEXPECTED, Status.INCONCLUSIVE, Status.DISAGREEMENT])
def test_a_case_that_is_not_as_expected_excuses_nothing(status: Status) -> None:
    assert all(r["suppressions"] == [] for r in render_results(make_case(status=status, findings=(make_finding(),))))


def test_a_fingerprint_does_not_depend_on_line_and_instruction_numbers() -> None:
    moved = SourceLine(file="/repo/train.py", line=99, function="step")
    assert find_fingerprint(source=moved, instructions=("call.9",), message="m", evidence=()) == find_fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"rule": "LD001"},
        {"kernel": "other"},
        {"operand": 1},
        {"operand": None},
        {"id": "b"},
        {"target": "a100"},
        {"source": SourceLine(file="/repo/other.py", line=41, function="step")},
        {"source": SourceLine(file="/repo/train.py", line=41, function="loss")},
    ],
)
def test_different_results_have_different_fingerprints(change: dict[str, Any]) -> None:
    assert find_fingerprint(**change) != find_fingerprint()


def test_a_fingerprint_is_the_same_in_every_checkout() -> None:
    report = make_report(found())
    elsewhere = make_report(found(source=SourceLine(file="/home/ann/repo/train.py", line=41, function="step")))
    other = Repository(root="/home/ann/repo", current="/home/ann/repo")
    here = render(report)["runs"][0]["results"][0]
    there = json.loads(render_sarif(elsewhere, repository=other, exit_code=1))["runs"][0]["results"][0]
    assert here["partialFingerprints"] == there["partialFingerprints"]
    installed = [
        find_fingerprint(source=SourceLine(file=f"{root}/site-packages/lib/op.py", line=1))
        for root in ("/a", "/repo/b")
    ]
    assert installed[0] == installed[1]


def test_an_unused_suppression_is_on_its_comment_or_in_the_file_of_its_entry() -> None:
    wheres = {
        SuppressionKind.IN_CODE: "train.py:40",
        SuppressionKind.CONFIG: "pyproject.toml [[tool.ligerdiag.suppress]] number 1",
    }
    unused = tuple(
        UnusedSuppression(kind=kind, rule="LD003", reason="r", where=where, message="is not used")
        for kind, where in wheres.items()
    )
    results = render(make_report(unused_suppressions=unused))["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [(place["artifactLocation"]["uri"], place.get("region")) for place in places] == [
        ("sub/train.py", {"startLine": 40}),
        ("sub/pyproject.toml", None),
    ]


def test_equal_fingerprints_of_a_case_are_numbered() -> None:
    one = found()
    prints = [
        result["partialFingerprints"]["ligerdiag/v1"]
        for result in render_results(
            replace(one, findings=(*one.findings, *(replace(f, message="something else") for f in one.findings)))
        )
    ]
    assert prints[0].endswith(":1")
    assert prints[1] == prints[0].removesuffix("1") + "2"


def test_the_invocation_says_how_the_run_ended() -> None:
    report = make_report(
        make_case("b", Status.ERROR, error="aborted", log_tail="F0000\n"), interrupted=True, notes=("a note",)
    )
    text = render_sarif(report, repository=REPOSITORY, exit_code=130, meaning="interrupted", successful=False)
    (invocation,) = json.loads(text)["runs"][0]["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 130)
    assert invocation["exitCodeDescription"] == "interrupted"
    told = [(one["descriptor"]["id"], one["level"]) for one in invocation["toolExecutionNotifications"]]
    assert told == [("not-analysed", "error"), ("interrupted", "error"), ("note", "note")]
    assert "b on h100: aborted" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_foreign_names_can_neither_link_nor_colour() -> None:
    evil = "[click](http://evil)\x1b[31m\x00\udcff\u202e"
    text = render_sarif(make_report(found(message=evil, outputs=(evil,))), repository=REPOSITORY, exit_code=1)
    result = json.loads(text)["runs"][0]["results"][0]
    assert text.isascii()
    assert result["message"]["text"].startswith("[click] (http://evil)\n")
    assert "\x1b" not in json.loads(text)["runs"][0]["results"][0]["properties"]["outputs"][0]
    text.encode("utf-8").decode("utf-8")


@pytest.mark.parametrize(
    "link", ["[x](http://evil)", "[x]\x1b[0m(http://evil)", "[x]\u202e(http://evil)", "[x]\x00(1)"]
)
def test_no_name_makes_a_link_in_any_text(link: str) -> None:
    line = SourceLine(file=f"/repo/{link}.py", line=3, function=link)
    said = Suppression(kind=SuppressionKind.CONFIG, where=link, reason=link)
    finding = make_finding(
        source=line,
        message=link,
        kernel=link,
        help=link,
        evidence=(("from", f"/repo/{link}.py:3 in {link}"), (link, link)),
    )
    cases = (
        make_case(
            link, Status.FINDINGS, findings=(finding, replace(finding, suppressed=said)), source=f"/repo/{link}.py"
        ),
        make_case(link, Status.ERROR, outputs={}, error=f"`{link}` is damaged", artifact=f"/repo/{link}"),
    )
    report = make_report(*cases, notes=(link,), toolchain=link)
    texts = list_texts(render(report))
    assert sum("evil" in text or "(1)" in text for text in texts) > 8
    assert not [text for text in texts if "](" in text]


def list_texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in list_texts(item)]
        case list():
            return [text for item in value for text in list_texts(item)]
        case _:
            return []
