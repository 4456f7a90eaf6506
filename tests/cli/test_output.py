"""Several formats at once go to the right places: each file is complete or missing, whatever the exit code."""

import json
from pathlib import Path

import pytest
from junitparser import JUnitXml

from ligerdiag.cli.output import SUMMARY, SUMMARY_BYTES, Format, Outputs, parse_outputs
from ligerdiag.errors import InputError
from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Status
from ligerdiag.rules.registry import RULES
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.samples import make_case, make_finding, make_report

FORMS = [form.value for form in Format if form is not Format.ISSUE]
"""The formats of a whole run; a bug report is about one finding."""
WRONG = make_report(make_case("a", Status.FINDINGS, expected=None, findings=(make_finding(),)))
REPORTS: dict[int, tuple[CheckReport, tuple[str, ...]]] = {
    0: (make_report(make_case()), ()),
    1: (WRONG, ()),
    2: (make_report(make_case(status=Status.ERROR, error="no such axis", error_exit_code=2)), ()),
    3: (make_report(make_case(status=Status.ERROR, error="aborted", error_exit_code=3)), ()),
    4: (make_report(make_case(status=Status.INCONCLUSIVE)), ("--strict",)),
    5: (make_report(make_case(status=Status.NOTHING, coverage=Coverage())), ()),
    130: (make_report(make_case(), interrupted=True), ()),
}


@pytest.fixture(autouse=True)
def outside_of_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SUMMARY, "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("code", REPORTS)
@pytest.mark.parametrize("form", FORMS)
def test_the_exit_code_is_the_same_for_every_format(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, form: str, code: int
) -> None:
    api.report, words = REPORTS[code]
    path = tmp_path / "report"
    outcome = run_command("check", "--format", form, "--output", f"{form}={path}", *words)
    assert outcome.code == code
    assert outcome.out == path.read_text()


def test_several_files_are_written_at_once_and_the_table_is_shown(
    api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    api.report = WRONG
    words = [word for form in FORMS for word in ("--output", f"{form}={tmp_path}/{form}")]
    outcome = run_command("check", *words)
    assert outcome.code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMS)
    assert outcome.out == (tmp_path / "terminal").read_text()
    assert json.loads((tmp_path / "json").read_text())["exit_code"] == 1
    (run,) = json.loads((tmp_path / "sarif").read_text())["runs"]
    assert run["invocations"][0]["exitCode"] == 1
    assert run["invocations"][0]["exitCodeDescription"].startswith("findings at or above")
    assert JUnitXml.fromfile(str(tmp_path / "junit")).failures == 1
    assert (tmp_path / "github").read_text().startswith("::error ")
    assert "Exit code 1: findings at or above" in (tmp_path / "markdown").read_text()


def test_a_bug_report_goes_to_standard_output_and_to_a_file(
    api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    api.report = WRONG
    outcome = run_command("check", "--format", "issue", "--output", f"issue={tmp_path / 'issue.md'}")
    assert outcome.code == 1
    assert outcome.out.startswith("# ")
    assert outcome.out == (tmp_path / "issue.md").read_text()
    assert [options.view for options in api.asked] == [True]


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ((make_case(),), "there is nothing to report: `flce[hidden]` on h100 has no finding (as expected)"),
        (
            WRONG.cases * 2,
            "a bug report is about one case on one target, and 2 have something to report: run `ligerdiag check a --format"
            " issue` or",
        ),
        ((), "there is nothing to report: no case was selected"),
    ],
)
def test_a_bug_report_without_one_bug_is_an_input_error(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, cases: tuple[CaseReport, ...], said: str
) -> None:
    api.report = make_report(*cases)
    words = ("--output", f"issue={tmp_path / 'issue.md'}", "--output", f"json={tmp_path / 'json'}")
    for outcome in (run_command("check", "--format", "issue"), run_command("check", *words)):
        assert outcome.code == 2
        assert outcome.err.splitlines()[-1].startswith(f"error: {said}")
    assert [path.name for path in tmp_path.iterdir()] == ["json"]


def test_a_refused_run_has_one_error_in_the_format_of_a_bug_report(api: FakeApi, run_command: RunCommand) -> None:
    api.error = InputError("no such case")
    outcome = run_command("check", "--format", "issue")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1] == "error: no such case"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--bisect", "flags"),
            "`--bisect` works only for a bug report: add `--format issue`, or use `ligerdiag bisect`",
        ),
        (("--bisect", "edges", "--format", "issue"), "expected one of passes, flags, targets, toolchains for --bisect"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_any_work(
    api: FakeApi, run_command: RunCommand, words: tuple[str, ...], said: str
) -> None:
    for command in ("check", "reduce"):
        outcome = run_command(command, *(("mine.py",) if command == "reduce" else ()), *words)
        assert outcome.code == 2
        assert said in outcome.err
    assert api.asked == []


def test_format_goes_to_standard_output_besides_files(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    outcome = run_command("check", "--format", "markdown", "--output", f"json={tmp_path / 'a.json'}")
    assert outcome.out.startswith("## ligerdiag\n")
    assert json.loads((tmp_path / "a.json").read_text())["exit_code"] == 0


def test_fail_on_and_strict_apply_to_junit_tests(api: FakeApi, run_command: RunCommand) -> None:
    api.report = make_report(make_case(status=Status.INCONCLUSIVE))
    assert "<skipped" in run_command("check", "--format", "junit").out
    assert "<failure" in run_command("check", "--format", "junit", "--strict").out
    api.report = WRONG
    assert "<failure" in run_command("check", "--format", "junit").out
    outputs = {"a": make_case().outputs["loss"]}
    findings = make_case("a", Status.FINDINGS, expected=None, findings=(make_finding(),), outputs=outputs)
    api.report = make_report(findings)
    assert "<failure" not in run_command("check", "--format", "junit", "--fail-on", "never").out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "sarfi=out.sarif",
            "expected one of terminal, json, sarif, junit, github, markdown, concise, issue before `=`",
        ),
        ("html=out", "but got `html`; write `./html=out` for a file"),
        ("sarif=", "expected a file after `sarif=`"),
        ("sarif=missing/out.sarif", "the directory of --output, `missing`, does not exist"),
        ("sarif=.", "is a directory"),
    ],
)
def test_a_wrong_output_option_is_an_error_before_any_work(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run_command("check", "--output", "json=a.json", "--output", word)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert api.asked == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", ["junit=a", "a", "junit=./a", "junit=link"])
def test_two_reports_cannot_share_a_file(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a")
    outcome = run_command("check", "--output", "json=a", "--output", other)
    assert outcome.code == 2
    assert "each --output needs its own file" in outcome.err
    assert api.asked == []


def test_a_file_name_may_contain_an_equals_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = parse_outputs(["./foo=x", "a.b=c", "json=d=e"], Format.JSON)
    assert outputs == Outputs(
        shown=Format.TERMINAL,
        files={Path("foo=x"): Format.JSON, Path("a.b=c"): Format.JSON, Path("d=e"): Format.JSON},
    )


def test_a_bare_file_gets_the_format_and_the_table_is_still_shown(tmp_path: Path) -> None:
    files = {tmp_path / "a": Format.SARIF, tmp_path / "b": Format.JUNIT}
    assert parse_outputs([str(tmp_path / "a"), f"junit={tmp_path / 'b'}"], Format.SARIF) == Outputs(
        shown=Format.TERMINAL, files=files
    )


@pytest.mark.parametrize(
    ("name", "form"), [("out.sarif", Format.SARIF), ("out.XML", Format.JUNIT), ("out.md", Format.MARKDOWN)]
)
def test_a_suffix_tells_the_format(tmp_path: Path, name: str, form: Format) -> None:
    file = tmp_path / name
    assert parse_outputs([str(file)], Format.GITHUB) == Outputs(shown=Format.GITHUB, files={file: form})
    assert parse_outputs([f"json={file}"], Format.GITHUB) == Outputs(shown=Format.GITHUB, files={file: Format.JSON})


def test_a_suffix_that_says_nothing_leaves_the_format_to_the_option(tmp_path: Path) -> None:
    file = tmp_path / "out.log"
    assert parse_outputs([str(file)], Format.JSON) == Outputs(shown=Format.TERMINAL, files={file: Format.JSON})


def test_an_unwritable_file_does_not_stop_the_others(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ligerdiag.cli import output

    def refuse(path: Path, text: str) -> None:
        if path.name == "json":
            raise InputError("cannot write `json`: no space left")
        path.write_text(text)

    monkeypatch.setattr(output, "write_atomically", refuse)
    outcome = run_command("check", "--output", f"json={tmp_path / 'json'}", "--output", f"sarif={tmp_path / 'sarif'}")
    assert (outcome.code, outcome.err.splitlines()[-1]) == (2, "error: cannot write `json`: no space left")
    assert (tmp_path / "sarif").exists()
    assert "flce[hidden]" in outcome.out


def test_the_github_format_appends_to_the_job_summary(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("of another step\n")
    monkeypatch.setenv(SUMMARY, str(page))
    api.report = WRONG
    run_command("check", "--format", "json")
    assert page.read_text() == "of another step\n"
    assert run_command("check", "--format", "github").code == 1
    assert page.read_text().startswith("of another step\n## ligerdiag\n")
    assert run_command("check", "--output", f"github={tmp_path / 'g'}").code == 1
    assert page.read_text().count("## ligerdiag\n") == 2


def test_a_job_summary_stays_below_github_s_limit(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv(SUMMARY, str(page))
    api.report = make_report(*(make_case(f"{'x' * 900}[{n}]", Status.UNEXPECTED, mismatch="m") for n in range(2000)))
    run_command("check", "--format", "github")
    assert 10_000 < page.stat().st_size <= SUMMARY_BYTES


def test_inspect_accepts_the_same_formats(run_command: RunCommand, tmp_path: Path) -> None:
    outcome = run_command("inspect", str(tmp_path), "--output", "sarfi=x")
    assert outcome.code == 2
    assert "expected one of terminal, json, sarif" in outcome.err
    for form in FORMS:
        assert "`--output`" not in run_command("inspect", str(tmp_path / "gone"), "--format", form).err


@pytest.mark.parametrize("command", ["bisect", "diff", "toolchains"])
def test_answers_come_only_as_a_table_or_json(run_command: RunCommand, command: str) -> None:
    help_text = run_command(command, "--help").out
    if command == "toolchains":
        help_text = run_command(command, "list", "--help").out
    assert "json" in help_text
    assert "sarif" not in help_text


def test_statistics_go_where_no_program_reads(api: FakeApi, run_command: RunCommand) -> None:
    api.report = WRONG
    assert run_command("check", "--statistics").out.endswith("1  LD002  stale-copy  error\n")
    outcome = run_command("check", "--statistics", "--format", "json")
    assert json.loads(outcome.out)["exit_code"] == 1
    assert outcome.err.endswith("1  LD002  stale-copy  error\n")


@pytest.mark.parametrize(
    ("words", "ignored"),
    [
        (("--ignore", "LD003,stale-copy"), {"LD002", "LD003"}),
        (("--ignore", "LD003", "--ignore", "LD002"), {"LD002", "LD003"}),
        (("--select", "LD001"), {rule.id for rule in RULES} - {"LD001"}),
        (("--select", "LD001,LD002", "--ignore", "LD001"), {rule.id for rule in RULES} - {"LD002"}),
        ((), set()),
    ],
)
def test_rules_that_are_left_out_are_allowed(
    api: FakeApi, run_command: RunCommand, words: tuple[str, ...], ignored: set[str]
) -> None:
    run_command("check", *words)
    (options,) = api.asked
    assert {entry.rule for entry in options.suppress} == ignored
    assert all(entry.is_asked for entry in options.suppress)


def test_a_rule_that_does_not_exist_is_refused_before_any_work(api: FakeApi, run_command: RunCommand) -> None:
    outcome = run_command("check", "--ignore", "stale-cpoy")
    assert outcome.code == 2
    assert "stale-copy" in outcome.err
    assert api.asked == []
