"""Findings of a real program are allowed in its code and in a configuration file, through the command line."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ligerdiag.rules.schedules.ld003_latent_order import LUCKY_READER
from tests.api.conftest import RunCli
from tools.json_schema import load_schema

READER = 'return {"sums": sums, "columns": h.sum(0)}'
CALL = "    return jt.triton_call(x, kernel=double_kernel"
IN_CODE = LUCKY_READER.code.replace(READER, f"{READER}  # ligerdiag: allow LD003 the sum is only logged").replace(
    CALL, f"    # ligerdiag: allow undeclared-write, LD012 a workaround follows\n{CALL}"
)
FILES = {
    "plain.py": LUCKY_READER.code,
    "in_code.py": IN_CODE.replace('name="lucky"', 'name="in_code"'),
    "bare.py": IN_CODE.replace(" the sum is only logged", "").replace('name="lucky"', 'name="bare"'),
    "expected.py": IN_CODE.replace('name="lucky"', 'name="expected", expected="fresh"'),
}
LATENT = '[[tool.ligerdiag.suppress]]\nrule = "LD003"\nreason = "only logged"\n'
UNDECLARED = '[[tool.ligerdiag.suppress]]\nrule = "LD006"\nreason = "known"\nkernel = "double_*"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_cli: RunCli) -> Path:
    """The compiled files."""
    path = tmp_path_factory.mktemp("mine")
    for name, text in FILES.items():
        (path / name).write_text(text)
    (path / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    assert run_cli("check", ".", "--no-replay", cwd=path).code == 1
    return path


@pytest.fixture
def run(folder: Path, run_cli: RunCli, tmp_path: Path) -> Any:
    """Checks a file with this configuration; returns the exit code and the JSON."""

    def check(file: str, config: str, *words: str) -> tuple[int, Any]:
        path = tmp_path / "config.toml"
        path.write_text(f"[tool.ligerdiag]\n{config}")
        outcome = run_cli("check", file, "--no-replay", "--config", path, "--format", "json", *words, cwd=folder)
        report = json.loads(outcome.out)
        assert list(jsonschema.Draft202012Validator(load_schema()).iter_errors(report)) == []
        return outcome.code, report

    return check


def allowed(report: Any) -> dict[str, str | None]:
    """Returns who allows each rule."""
    return {
        rule: finding["suppressed"] and finding["suppressed"]["where"]
        for case in report["cases"]
        for finding in case["findings"]
        for rule in finding["rules"]
    }


def line_of(file: str, words: str) -> str:
    return f"{file}:{next(n for n, line in enumerate(FILES[file].splitlines(), 1) if words in line)}"


def test_without_a_suppression_both_findings_count(run: Any) -> None:
    code, report = run("plain.py", "")
    assert (code, report["cases"][0]["status"]) == (1, "findings")
    assert allowed(report) == {"LD003": None, "LD006": None}
    assert report["unused_suppressions"] == []


def test_a_comment_allows_findings_on_its_line_and_the_run_passes(run: Any) -> None:
    code, report = run("in_code.py", "")
    assert (code, report["cases"][0]["status"]) == (0, "allowed")
    assert report["cases"][0]["outputs"]["columns"] == "latent"
    assert allowed(report) == {
        "LD003": line_of("in_code.py", "allow LD003"),
        "LD006": line_of("in_code.py", "allow undeclared-write"),
    }


def test_a_suppression_of_a_replay_rule_is_unused_only_after_a_replay(folder: Path, run: Any, run_cli: RunCli) -> None:
    assert run("in_code.py", "")[1]["unused_suppressions"] == []
    outcome = run_cli("check", "in_code.py", "--strict", cwd=folder)
    assert outcome.code == 1
    place = line_of("in_code.py", "allow undeclared-write")
    assert f"suppression {place}: `allow LD012` is not used: no finding of LD012 at line" in outcome.out
    assert run_cli("check", "in_code.py", cwd=folder).code == 0


def test_a_comment_without_a_reason_is_reported_and_allows_nothing(run: Any) -> None:
    code, report = run("bare.py", "")
    assert code == 1
    assert allowed(report) == {"LD003": None, "LD006": line_of("bare.py", "allow undeclared-write")}
    (told,) = report["unused_suppressions"]
    assert (told["rule"], told["where"]) == ("LD003", line_of("bare.py", "allow LD003"))
    assert "without a reason" in told["message"]


def test_entries_in_the_configuration_allow_by_rule_and_filter(run: Any) -> None:
    first, second = (f"config.toml [[tool.ligerdiag.suppress]] number {number}" for number in (1, 2))
    code, report = run("plain.py", LATENT + UNDECLARED)
    assert (code, report["cases"][0]["status"]) == (0, "allowed")
    assert allowed(report) == {"LD003": first, "LD006": second}
    code, report = run("plain.py", f'{LATENT}output = "sums"\n{UNDECLARED}')
    assert (code, allowed(report)) == (1, {"LD003": None, "LD006": second})
    code, report = run("plain.py", f'{LATENT}output = "columns"\ncase = "luck?"\nsource = "*/plain.py"\n')
    assert (code, allowed(report)) == (1, {"LD003": first, "LD006": None})


def test_an_entry_that_matches_nothing_is_reported_if_its_case_was_checked(run: Any) -> None:
    stale = '[[tool.ligerdiag.suppress]]\nrule = "LD001"\nreason = "r"\ncase = "CASE"\n'
    for case_id, words, code, number in (
        ("lucky", ("--strict",), 1, 1),
        ("luck*", ("--strict",), 0, 0),
    ):
        got, report = run("plain.py", LATENT + UNDECLARED + stale.replace("CASE", case_id), *words)
        assert (got, len(report["unused_suppressions"])) == (code, number)


def test_every_target_has_its_own_findings(run: Any) -> None:
    _, report = run("in_code.py", "", "--target", "h100,a100")
    statuses = {case["target"]: case["status"] for case in report["cases"]}
    assert statuses == {"h100": "allowed", "a100": "allowed"}
    _, report = run("in_code.py", 'targets = ["h100", "a100"]\n', "--target", "a100")
    assert [case["target"] for case in report["cases"]] == ["a100"]


def test_expectations_ignore_suppressions(run: Any) -> None:
    code, report = run("expected.py", "")
    assert (code, report["cases"][0]["status"]) == (1, "unexpected")


def test_inspect_honours_suppressions_like_check(folder: Path, run: Any, run_cli: RunCli, tmp_path: Path) -> None:
    artifact = run("in_code.py", "")[1]["cases"][0]["artifact"]
    assert run_cli("inspect", artifact, cwd=folder).code == 1, (
        "an artifact that says where its source lies is not believed"
    )
    outcome = run_cli("inspect", artifact, "--source-root", ".", cwd=folder)
    assert outcome.code == 0
    assert "in_code  allowed  agrees  columns latent (allowed) · sums fresh" in outcome.out
    artifact = run("plain.py", "")[1]["cases"][0]["artifact"]
    config = tmp_path / "inspect.toml"
    config.write_text(LATENT + UNDECLARED)
    assert run_cli("inspect", artifact, cwd=folder).code == 1
    assert run_cli("inspect", artifact, "--config", config, cwd=folder).code == 0


def test_the_nearest_pyproject_is_read(folder: Path, run_cli: RunCli) -> None:
    path = folder / "pyproject.toml"
    before = path.read_text()
    path.write_text(before + LATENT + UNDECLARED)
    outcome = run_cli("check", "plain.py", "--no-replay", cwd=folder)
    path.write_text(before)
    assert outcome.code == 0
    assert "columns latent (allowed) · sums fresh" in outcome.out
    assert "allowed: 2 findings of LD003, LD006, each with a reason: -v lists them" in outcome.out
