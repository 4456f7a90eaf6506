"""The steps of the GitHub Action, run as GitHub runs them but for the interpreter, which is given; and what they write."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.documents import ROOT, parse_blocks

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SCRIPTS = sorted((ROOT / "action").glob("*.sh"))
_EXPRESSION = re.compile(r"\$\{\{ (?P<name>[\w.-]+) \}\}")
_INPUT = re.compile(r"inputs\.([\w-]+)")
_OUTPUT = re.compile(r"steps\.([\w-]+)\.outputs\.([\w-]+)")


@dataclass
class Runner:
    """Stands in for GitHub's: it evaluates the expressions of `env`, runs a step, and reads the file of its outputs."""

    folder: Path
    cache: Path
    inputs: Mapping[str, str]
    event: Mapping[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (step,) = (one for one in STEPS if one["name"] == name)
        assert step["shell"] == "bash"
        written = self.folder / "output"
        written.write_text("")
        environment = {
            **os.environ,
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(written),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_WORKSPACE": str(self.folder),
            "GITHUB_REPOSITORY": "owner/project",
            "LIGERDIAG_CACHE_DIR": str(self.cache),
            "RUNNER_TEMP": str(self.folder / "temp"),
            **{key: _EXPRESSION.sub(self._evaluate, str(value)) for key, value in step.get("env", {}).items()},
            **variables,
        }
        words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        lines = [line.partition("=") for line in written.read_text().splitlines()]
        self.outputs[step.get("id", name)] = {key: value for key, _, value in lines}
        return done

    def _evaluate(self, match: re.Match[str]) -> str:
        name = match["name"]
        if found := _INPUT.fullmatch(name):
            return self.inputs.get(found[1], str(ACTION["inputs"][found[1]]["default"]))
        if found := _OUTPUT.fullmatch(name):
            return self.outputs.get(found[1], {}).get(found[2], "")
        return self.event[name]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the case file of README.md, whose gradient is stale."""
    folder = tmp_path_factory.mktemp("project")
    (block,) = (one for one in parse_blocks(ROOT / "README.md") if one.file_name == "mine.py")
    (folder / "mine.py").write_text(block.text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checked(project: Path, shared_cache: Path) -> tuple[Runner, subprocess.CompletedProcess[str]]:
    inputs = {"python": sys.executable, "selectors": "mine.py\n", "args": "--no-replay --jobs '1'"}
    runner = Runner(project, shared_cache, inputs)
    (project / "temp").mkdir()
    assert runner.run("Install").returncode == 0
    return runner, runner.run("Check")


def test_the_install_step_takes_the_given_interpreter(checked: tuple[Runner, Any]) -> None:
    assert checked[0].outputs["install"] == {"python": sys.executable}


def test_an_interpreter_without_ligerdiag_ends_the_job_with_2(project: Path, shared_cache: Path) -> None:
    runner = Runner(project, shared_cache, {"python": "/bin/false"})
    done = runner.run("Install")
    assert done.returncode == 2
    assert "::error title=ligerdiag::" in done.stderr
    assert runner.outputs["install"] == {}


def test_the_check_step_ends_well_and_hands_on_the_exit_code_and_every_report(
    checked: tuple[Runner, subprocess.CompletedProcess[str]],
) -> None:
    runner, done = checked
    assert done.returncode == 0, done.stderr
    outputs = runner.outputs["check"]
    assert outputs["exit-code"] == "1"
    assert set(outputs) == {"exit-code", "json", "sarif", "junit", "markdown", "counted", "comment"}
    assert all(Path(path).is_file() for key, path in outputs.items() if key != "exit-code")
    report = json.loads(Path(outputs["json"]).read_text())
    assert report["cases"][0]["outputs"] == {"gradient": "stale", "total": "fresh"}
    assert report["cases"][0]["replay"] is None, "--no-replay of the input `args` did not arrive"


def test_annotations_and_the_page_of_the_job_are_written(
    checked: tuple[Runner, subprocess.CompletedProcess[str]],
) -> None:
    runner, done = checked
    assert re.search(r"^::error file=mine\.py,line=\d+,endLine=\d+,title=LD00", done.stdout, re.MULTILINE)
    assert (runner.folder / "summary.md").read_text().startswith("## ligerdiag\n")
    counted = json.loads(Path(runner.outputs["check"]["counted"]).read_text())
    assert counted["runs"][0]["results"]


def test_the_job_ends_with_the_exit_code_of_the_check(checked: tuple[Runner, Any]) -> None:
    assert checked[0].run("Exit code").returncode == 1


def test_without_a_baseline_the_comment_is_the_report(checked: tuple[Runner, Any]) -> None:
    outputs = checked[0].outputs["check"]
    comment = Path(outputs["comment"]).read_text()
    assert comment == "<!-- ligerdiag -->\n" + Path(outputs["markdown"]).read_text()


def test_with_a_baseline_the_comment_says_what_changed(checked: tuple[Runner, Any]) -> None:
    runner, _ = checked
    old = json.loads(Path(runner.outputs["check"]["json"]).read_text())
    old["cases"][0] |= {"outputs": {"gradient": "fresh", "total": "fresh"}, "status": "clean", "findings": []}
    baseline = runner.folder / "base of main.json"
    baseline.write_text(json.dumps(old))
    second = Runner(runner.folder, runner.cache, {**runner.inputs, "baseline": str(baseline)})
    second.outputs["install"] = runner.outputs["install"]
    assert second.run("Check").returncode == 0
    assert second.outputs["check"]["compare-exit-code"] == "1"
    comment = Path(second.outputs["check"]["comment"]).read_text()
    assert comment.startswith("<!-- ligerdiag -->\n")
    assert "worse" in comment
    assert "gradient" in comment


def test_a_selector_is_no_option_and_no_command(checked: tuple[Runner, Any]) -> None:
    runner, _ = checked
    hostile = "--help\n$(touch pwned)\n`touch pwned`; touch pwned\n"
    second = Runner(runner.folder, runner.cache, {**runner.inputs, "selectors": hostile, "args": "'; touch pwned'"})
    second.outputs["install"] = runner.outputs["install"]
    done = second.run("Check")
    assert done.returncode == 0
    assert second.outputs["check"]["exit-code"] == "2"
    report = json.loads(Path(second.outputs["check"]["json"]).read_text())
    errors = [case["error"] for case in report["cases"]]
    assert len(errors) == 1
    assert "cannot find `; touch pwned`" in errors[0]
    assert "Usage:" not in done.stdout
    assert second.run("Exit code").returncode == 2
    assert not list(runner.folder.rglob("pwned"))


GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$GH_LOG"
case "$*" in *--paginate*) printf '%s' "$GH_KNOWN"; exit "$GH_CODE" ;; esac
"""


@pytest.fixture
def commenting(tmp_path: Path, shared_cache: Path) -> tuple[Runner, dict[str, str]]:
    """Returns a runner with a comment to write, and variables that put a program which notes its calls before `gh`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "comment.md").write_text("<!-- ligerdiag -->\n" + "aä" * 40_000)
    event = {"github.event.pull_request.number": "7", "github.token": "none"}
    runner = Runner(tmp_path, shared_cache, {"token": "none"}, event)
    runner.outputs["check"] = {"comment": str(tmp_path / "comment.md")}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return runner, {"PATH": path, "GH_LOG": str(tmp_path / "log"), "GH_KNOWN": "", "GH_CODE": "0"}


def test_the_first_run_writes_a_comment_that_github_takes(commenting: tuple[Runner, dict[str, str]]) -> None:
    runner, variables = commenting
    assert runner.run("Comment", **variables).returncode == 0
    calls = (runner.folder / "log").read_text().splitlines()
    assert calls[-1].startswith("api --silent --method POST repos/owner/project/issues/7/comments -F body=@")
    body = Path(calls[-1].rpartition("@")[2]).read_text(encoding="utf-8")
    assert len(body) < 65536
    assert body.endswith("the page of the job has all of it\n")


def test_a_later_run_writes_over_its_comment(commenting: tuple[Runner, dict[str, str]]) -> None:
    runner, variables = commenting
    assert runner.run("Comment", **(variables | {"GH_KNOWN": "41\n42\n"})).returncode == 0
    calls = (runner.folder / "log").read_text().splitlines()
    assert calls[-1].startswith("api --silent --method PATCH repos/owner/project/issues/comments/41 -F body=@")


def test_a_fork_that_may_not_comment_gets_a_warning(commenting: tuple[Runner, dict[str, str]]) -> None:
    runner, variables = commenting
    done = runner.run("Comment", **(variables | {"GH_CODE": "1"}))
    assert done.returncode == 0
    assert "::warning title=ligerdiag::" in done.stdout
    assert len((runner.folder / "log").read_text().splitlines()) == 1


def test_inputs_reach_scripts_by_their_environment_alone() -> None:
    runs = [step for step in STEPS if "run" in step]
    assert [step["name"] for step in runs] == ["Install", "Check", "Comment", "Exit code"]
    for step in runs:
        assert re.fullmatch(r'bash "\$GITHUB_ACTION_PATH/action/\w+\.sh"', step["run"]), step
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        assert "${{" not in text
        assert not re.search(r"\beval\b", text), script
    used = {script.name for script in SCRIPTS}
    assert used == {step["run"].rpartition("/")[2].rstrip('"') for step in runs}


def test_every_input_is_used_and_described_and_every_output_comes_from_a_step() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8").partition("\nruns:")[2]
    for name, given in ACTION["inputs"].items():
        assert given["description"], name
        assert f"inputs.{name}" in text, name
    for name, given in ACTION["outputs"].items():
        assert given["value"] == f"${{{{ steps.check.outputs.{name} }}}}"


def test_other_actions_are_pinned() -> None:
    assert all(re.fullmatch(r"[\w-]+(/[\w-]+)+@v\d+", step["uses"]) for step in STEPS if "uses" in step)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_strict_and_can_be_run(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert "\nset -euo pipefail\n" in script.read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
