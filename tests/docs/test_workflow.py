"""The workflow and the hook that users copy: the page shows the actual files, and their commands work as described."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import yaml
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from ligerdiag.model.report import Status
from ligerdiag.report.case_places import Repository
from ligerdiag.report.sarif import render_sarif
from tests.report.samples import make_case, make_finding, make_report

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "docs" / "workflows" / "ligerdiag.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
PAGE = ROOT / "docs" / "ci.md"
SARIF = ROOT / "tests" / "report" / "schemas" / "sarif-2.1.0.json"
CASE = "constant[aliased]"
FILTER = "Leave out what does not count"


def read_steps() -> list[dict[str, str]]:
    """Returns the steps of the workflow's only job."""
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    return job["steps"]


def read_runs() -> dict[str, str]:
    """Returns the commands of the steps with `run:`, by name."""
    return {step["name"]: step["run"] for step in read_steps() if "run" in step}


def read_command() -> list[str]:
    """Returns the workflow's check, on one case, in this environment."""
    words = shlex.split(read_runs()["Check the schedules"])
    assert words[:4] == ["uv", "run", "ligerdiag", "check"]
    return [sys.executable, "-m", "ligerdiag", "check", CASE, *words[4:]]


def test_the_page_shows_the_actual_files() -> None:
    blocks = [token.content for token in MarkdownIt().parse(PAGE.read_text()) if token.type == "fence"]
    assert WORKFLOW.read_text() in blocks
    assert HOOKS.read_text() in blocks


def test_the_workflow_has_exactly_the_steps_that_are_run_here() -> None:
    assert list(read_runs()) == ["Install uv", "Check the schedules", FILTER]
    actions = [step["uses"] for step in read_steps() if "uses" in step]
    assert len(actions) == len(read_steps()) - len(read_runs())
    assert all(re.fullmatch(r"[\w-]+(/[\w-]+)+@v\d+", action) for action in actions)


def test_the_check_of_the_workflow_writes_the_files_that_its_other_steps_read(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    environment = os.environ | {
        "GITHUB_WORKSPACE": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(summary),
        "LIGERDIAG_CACHE_DIR": str(tmp_path / "cache"),
    }
    words = [re.sub(r"=(ligerdiag\.\w+)$", rf"={tmp_path}/\1", word) for word in read_command()]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("ligerdiag.*")} == {"ligerdiag.sarif", "ligerdiag.xml"}
    log = json.loads((tmp_path / "ligerdiag.sarif").read_text())
    assert list(jsonschema.Draft202012Validator(json.loads(SARIF.read_text())).iter_errors(log)) == []
    uris = {
        location["physicalLocation"]["artifactLocation"].get("uriBaseId")
        for result in log["runs"][0]["results"]
        for location in result["locations"]
    }
    assert uris <= {"%SRCROOT%"}
    assert [test.name for suite in JUnitXml.fromfile(str(tmp_path / "ligerdiag.xml")) for test in suite] == [CASE]
    assert done.stdout.splitlines()[-1].startswith("1 case on h100 in ")
    assert summary.read_text().startswith("## ligerdiag\n")


def test_the_upload_has_every_finding_that_counts_and_no_other(tmp_path: Path) -> None:
    expected = make_case(findings=(make_finding(),))
    found = make_case("b", Status.FINDINGS, expected=None, outputs={}, findings=(make_finding(),))
    repository = Repository(root="/repo", current="/repo")
    text = render_sarif(make_report(expected, found), repository=repository, exit_code=1)
    (tmp_path / "ligerdiag.sarif").write_text(text)
    words = shlex.split(read_runs()[FILTER])
    assert words[0] == "python"
    subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, check=True, timeout=600)
    log = json.loads((tmp_path / "counted.sarif").read_text())
    assert list(jsonschema.Draft202012Validator(json.loads(SARIF.read_text())).iter_errors(log)) == []
    assert [result["properties"]["case"] for result in log["runs"][0]["results"]] == ["b"]
    assert {**log["runs"][0], "results": []} == {**json.loads(text)["runs"][0], "results": []}


def test_the_hook_runs_the_check_for_files_that_can_change_a_verdict() -> None:
    (hook,) = yaml.safe_load(HOOKS.read_text())
    assert (hook["id"], hook["entry"], hook["pass_filenames"]) == ("ligerdiag-check", "ligerdiag check", False)
    matched = [
        name
        for name in ("cases/a.py", "pyproject.toml", "a/pyproject.toml", "known.json", "README.md", "mypyproject.toml")
        if re.search(hook["files"], name)
    ]
    assert matched == ["cases/a.py", "pyproject.toml", "a/pyproject.toml", "known.json"]
    local = re.search(r"entry: uv run (.+)\n", PAGE.read_text())
    assert local is not None
    assert local[1] == hook["entry"]


def test_the_published_schema_is_the_one_that_reports_follow() -> None:
    text = (ROOT / "ligerdiag" / "report" / "schema.json").read_text()
    version = json.loads(text)["properties"]["schema"]["const"]
    published = ROOT / "docs" / "schema" / f"ligerdiag-{version}.json"
    assert published.read_text() == text
    assert f"schema/{published.name}" in (ROOT / "docs" / "json.md").read_text()
