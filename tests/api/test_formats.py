"""Real programs in every format: files are valid, annotations are on the right lines, and all formats give the same
exit code.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from junitparser import JUnitXml

from ligerdiag import api
from ligerdiag.api.judging import find_file
from ligerdiag.cli.main import main
from ligerdiag.cli.output import SUMMARY, Format
from ligerdiag.model.jobs import Source
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.rules.programs.ld014_unknown_effect import FORGED_POINTER
from tests.api.conftest import Check, RunCli
from tools.json_schema import load_schema

SARIF = Path(__file__).parents[1] / "report" / "schemas" / "sarif-2.1.0.json"
FORMS = tuple(form for form in Format if form is not Format.ISSUE)
"""The formats of a whole run; a bug report is about one finding."""
MODEL = """\
import jax
import jax_triton
import triton
import triton.language as tl


@triton.jit
def running_maximum(row_ptr, last_ptr, N: tl.constexpr):
    best = tl.load(row_ptr)
    for n in range(1, N):
        best = tl.maximum(best, tl.load(row_ptr + n))
        tl.store(row_ptr + n, best)
    tl.store(last_ptr, best)


def maximum(row):
    return jax_triton.triton_call(row, kernel=running_maximum, out_shape=jax.ShapeDtypeStruct((), "float32"), grid=1, N=8)
"""
CASES = """\
import os

from model import maximum

from ligerdiag import Arg, Case

ARGS = (Arg(shape=(8,)), Arg(shape=(8,)))


def stale(x, y):
    row = x * y
    last = maximum(row)
    return {"last": last, "row": row + y}


def right(x, y):
    return {"last": maximum(x * y)}


def allowed(x, y):
    row = x * y
    last = maximum(row)
    # ligerdiag: allow LD001, LD002 the row is only logged
    return {"last": last, "row": row + y}


def idle(x, y):
    return x + y


def raises(x, y):
    return x / {}["no such key"]


def dies(x, y):
    os.abort()


CASES = (
    Case(name="right", function=right, args=ARGS, expected="fresh"),
    Case(name="wrong", function=stale, args=ARGS),
    Case(name="hazard", function=stale, args=ARGS, expected="hazard"),
    Case(name="allowed", function=allowed, args=ARGS),
    Case(
        name="contrary",
        function=right,
        args=ARGS,
        params=(1, 2),
        expected="hazard",
    ),
    Case(name="idle", function=idle, args=ARGS),
    Case(name="raises", function=raises, args=ARGS),
    Case(name="dies", function=dies, args=ARGS),
)
"""
FILES = {
    "pyproject.toml": "",
    "model.py": MODEL,
    "schedules/mine.py": CASES,
    "schedules/forges.py": FORGED_POINTER.code,
}
BY_CODE: Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]] = {
    0: (("right", "hazard"), ()),
    1: (("right", "wrong", "contrary"), ()),
    2: (("right", "raises"), ()),
    3: (("right", "wrong", "dies"), ()),
    4: (("right", "forges"), ("--strict", "--fail-on", "never")),
    5: (("idle",), ()),
}
"""Exit code to cases (or their file) that give it, and options."""

type Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text)
    return path


@pytest.fixture(scope="module")
def whole(project: Path, check: Check) -> CheckReport:
    """All cases, compiled once for all of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        return check("schedules")


@pytest.fixture
def run(project: Path, whole: CheckReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `ligerdiag check` in the project on the cases with these names, without compiling them again."""
    monkeypatch.chdir(project)
    monkeypatch.delenv(SUMMARY, raising=False)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project))

    def run_check(names: tuple[str, ...], *words: str) -> tuple[int, str]:
        cases = tuple(
            case for case in whole.cases if case.id.partition("[")[0] in names or Path(case.source).stem in names
        )
        report = CheckReport(cases=cases, targets=whole.targets, toolchain=whole.toolchain, versions=whole.versions)
        monkeypatch.setattr(api, "check", lambda options, show, policy: report)
        monkeypatch.setattr(sys, "argv", ["ligerdiag", "check", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        return int(leaving.value.code or 0), capsys.readouterr().out

    return run_check


def line_of(file: str, text: str, nth: int = 1) -> int:
    """Returns the 1-based number of the `nth` line that contains the text."""
    return [number for number, line in enumerate(FILES[file].splitlines(), 1) if text in line][nth - 1]


def validate(form: Format, text: str, code: int) -> None:
    match form:
        case Format.JSON:
            assert list(jsonschema.Draft202012Validator(load_schema()).iter_errors(json.loads(text))) == []
            assert json.loads(text)["exit_code"] == code
        case Format.SARIF:
            schema = json.loads(SARIF.read_text(encoding="utf-8"))
            assert list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(text))) == []
            (invocation,) = json.loads(text)["runs"][0]["invocations"]
            assert (invocation["exitCode"], invocation["executionSuccessful"]) == (code, code not in (2, 3))
        case Format.JUNIT:
            read = JUnitXml.fromstring(text.encode())
            assert (read.failures + read.errors == 0) == (code in (0, 5))
        case Format.GITHUB:
            *commands, totals = text.splitlines()
            assert all(command.startswith("::") for command in commands)
            assert bool(commands) == (code not in (0, 5))
            assert not totals.startswith("::")
        case Format.MARKDOWN:
            assert f"Exit code {code}: " in text
            assert ("Needs attention" in text) == (code not in (0, 5))
        case Format.TERMINAL:
            assert "on h100 in" in text.splitlines()[-1]
        case Format.CONCISE:
            assert bool(text) == (code not in (0, 5))
        case Format.ISSUE:
            pytest.fail("a bug report is no report of a run")


@pytest.mark.parametrize("code", BY_CODE)
@pytest.mark.parametrize("form", FORMS)
def test_every_format_is_valid_and_has_the_same_exit_code(run: Run, form: Format, code: int) -> None:
    names, words = BY_CODE[code]
    ended, text = run(names, "--format", form.value, *words)
    assert ended == code
    validate(form, text, code)


def test_a_bug_report_is_about_the_one_case_that_has_something_to_report(run: Run) -> None:
    code, text = run(("idle", "wrong"), "--format", "issue")
    assert code == 1
    assert text.startswith(
        "# `running_maximum` overwrites operand 0 without declaring it, and `row` is computed from the"
    )
    assert "What the program runs of `schedules/mine.py` and 1 other file of the project" in text
    assert "\n```python\n# schedules/mine.py\n" in text
    assert "\n```python\n# model.py\n" in text
    assert run(("idle",), "--format", "issue") == (2, "")


def test_a_sarif_result_is_at_the_call_and_names_the_reading_line(run: Run) -> None:
    _, text = run(("wrong", "hazard", "allowed"), "--format", "sarif")
    results = [r for r in json.loads(text)["runs"][0]["results"] if r["ruleId"] in ("LD001", "LD002")]
    assert [place(result) for result in results] == [("model.py", line_of("model.py", "triton_call"))] * 3
    assert [related_by_text(result)["read here"] for result in results] == [
        ("schedules/mine.py", line_of("schedules/mine.py", '"row": row + y', nth)) for nth in (1, 1, 2)
    ]
    assert [describe_suppressions(result) for result in results] == [
        [],
        [("external", "the case expects it: hazard")],
        [("inSource", "the row is only logged")],
    ]
    assert len({result["partialFingerprints"]["ligerdiag/v1"] for result in results}) == 3


def test_an_undeclared_write_belongs_to_its_hazard_s_result_or_is_a_result(run: Run) -> None:
    _, text = run(("right", "wrong", "allowed"), "--format", "sarif")
    results = [(r["properties"]["case"], r["properties"]["rules"], r) for r in json.loads(text)["runs"][0]["results"]]
    (stale,) = {rules[0] for case, rules, _ in results if case == "wrong"}
    assert [(case, rules) for case, rules, _ in results] == [
        ("right", ["LD006"]),
        ("wrong", [stale, "LD006"]),
        ("allowed", [stale]),
        ("allowed", ["LD006"]),
    ]
    assert all("LD006 undeclared-write" in result["message"]["text"] for case, _, result in results if case == "wrong")


@pytest.mark.parametrize(
    ("name", "called"), [("right", 'return {"last": maximum(x * y)}'), ("wrong", "last = maximum(row)")]
)
def test_a_finding_about_the_call_is_in_the_calling_file_and_names_the_caller(name: str, called: str, run: Run) -> None:
    _, text = run((name,), "--format", "sarif")
    (result,) = [r for r in json.loads(text)["runs"][0]["results"] if "LD006" in r["properties"]["rules"]]
    assert place(result) == ("model.py", line_of("model.py", "triton_call"))
    related = {place_of(one) for one in result["relatedLocations"]}
    assert ("model.py", line_of("model.py", "tl.store(row_ptr + n, best)")) in related
    assert ("schedules/mine.py", line_of("schedules/mine.py", called)) in related
    assert ("schedules/mine.py", line_of("schedules/mine.py", f'name="{name}"')) in related


def test_annotations_are_on_the_right_lines_of_the_right_files(run: Run) -> None:
    _, text = run(("right", "wrong", "hazard", "allowed", "contrary", "raises"), "--format", "github")
    places = {(title, file, line) for title, file, line in map(read_command, text.splitlines()[:-1])}
    stale = next(title for title, _, _ in places if title.startswith(("LD001", "LD002")))
    assert places == {
        (stale, "model.py", line_of("model.py", "triton_call")),
        ("LD006 undeclared-write", "model.py", line_of("model.py", "triton_call")),
        ("unexpected verdict", "schedules/mine.py", line_of("schedules/mine.py", 'name="contrary"') - 1),
        ("not analysed", "schedules/mine.py", line_of("schedules/mine.py", 'name="raises"')),
    }
    (said,) = [line for line in text.splitlines() if f"title={stale}," in line or f"title={stale}::" in line]
    assert f"schedules/mine.py:{line_of('schedules/mine.py', '"row": row + y')}" in said


def test_junit_tests_are_named_by_file_and_id(run: Run) -> None:
    _, text = run(("right", "contrary"), "--format", "junit")
    (suite,) = JUnitXml.fromstring(text.encode())
    assert [(test.classname, test.name, test.is_passed) for test in suite] == [
        ("schedules.mine", "right", True),
        ("schedules.mine", "contrary[1-2]", False),
    ]


def test_a_case_given_by_module_is_reported_in_its_file(project: Path) -> None:
    root = str(project)
    assert find_file(Source(module="schedules.mine:CASES", root=root)) == str(project / "schedules" / "mine.py")
    assert find_file(Source(module="jax.numpy:sum", root=root)) == ""
    assert find_file(Source(file="/a/b.py", root=root)) == "/a/b.py"


def test_a_complete_run_in_its_own_process_writes_every_file(
    project: Path, whole: CheckReport, run_cli: RunCli, tmp_path: Path
) -> None:
    assert {case.status for case in whole.cases} >= {Status.EXPECTED, Status.UNEXPECTED, Status.ERROR}
    outputs = [word for form in FORMS for word in ("--output", f"{form.value}={tmp_path / form.value}")]
    names = ("schedules/mine.py::right", "schedules/mine.py::wrong")
    outcome = run_cli("check", *names, "--no-replay", *outputs, cwd=project)
    assert outcome.code == 1
    for form in FORMS:
        validate(form, (tmp_path / form.value).read_text(), 1)


def test_inspect_gives_places_without_the_program_s_file(whole: CheckReport, run_cli: RunCli, tmp_path: Path) -> None:
    artifact = next(case.artifact for case in whole.cases if case.id == "wrong")
    outcome = run_cli("inspect", artifact, "--format", "sarif", cwd=tmp_path)
    assert outcome.code == 1
    validate(Format.SARIF, outcome.out, 1)
    results = json.loads(outcome.out)["runs"][0]["results"]
    assert all(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results)


def place(result: dict[str, Any]) -> tuple[str, int]:
    return place_of(result["locations"][0])


def place_of(location: dict[str, Any]) -> tuple[str, int]:
    physical = location["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical["region"]["startLine"]


def related_by_text(result: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {one["message"]["text"]: place_of(one) for one in result["relatedLocations"]}


def describe_suppressions(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["kind"], one["justification"]) for one in result["suppressions"]]


def read_command(line: str) -> tuple[str, str, int]:
    properties = dict(part.split("=", 1) for part in line.split("::")[1].partition(" ")[2].split(","))
    return properties["title"], properties["file"], int(properties["line"])
