"""Templates ask for what a fault needs, workflows have few rights and no tokens, and the package says where it is."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.documents import ROOT, parse_blocks

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_PINNED = re.compile(r"(actions/[\w-]+|pypa/gh-action-pypi-publish)@[0-9a-f]{40}")


def load(path: Path) -> Any:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found | {"on": found.pop(True)} if True in found else found  # YAML 1.1 reads `on` as true


def list_steps(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_are_a_workflow_for_changes_and_one_for_releases() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_rights_are_minimal(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for step in list_steps(workflow):
        assert "uses" not in step or _PINNED.fullmatch(step["uses"]), step
        assert "${{" not in step.get("run", ""), step
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_an_auditor_of_workflows_finds_nothing() -> None:
    words = [
        Path(sys.executable).parent / "zizmor",
        "--offline",
        "--no-progress",
        ".github",
        "docs/workflows",
        "action.yml",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_changes_run_what_a_developer_runs() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "ci.yml")
    assert [step["run"] for step in list_steps(workflow) if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").is_file()


def test_only_the_job_that_publishes_may_ask_for_an_identity_and_it_waits_for_the_tests() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    extra = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert extra == {
        "publish": {"id-token": "write", "attestations": "write"},
        "announce": {"contents": "write"},
        "site": {"contents": "write"},
    }
    publish = workflow["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert set(publish["needs"]) == {"test", "light"}
    assert not any("run" in step for step in publish["steps"])
    tested = {one["versions"] for one in workflow["jobs"]["test"]["strategy"]["matrix"]["include"]}
    written = {name for name in ("oldest", "newest") if f"versions/{name}.txt" in str(workflow["jobs"]["build"])}
    assert tested == written == {"oldest", "newest"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_steps_are_shell_that_can_be_read(path: Path) -> None:
    for step in list_steps(load(path)):
        if "run" in step:
            done = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr


def test_there_is_a_form_for_each_kind_of_fault() -> None:
    assert [path.stem for path in FORMS] == ["crash", "missed-hazard", "wrong-verdict"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_the_report_the_dump_and_the_versions(path: Path) -> None:
    form = load(path)
    assert form["name"]
    assert form["description"]
    fields = {one["id"]: one for one in form["body"] if "id" in one}
    assert {"report", "dump", "versions"} <= set(fields)
    assert "--format json" in fields["report"]["attributes"]["description"]
    assert "ligerdiag --version" in fields["versions"]["attributes"]["description"]
    assert fields["versions"]["validations"]["required"] is True
    assert all(one["type"] in {"markdown", "input", "textarea", "dropdown"} for one in form["body"])
    assert all(one["attributes"].get("label") for one in fields.values())


def test_pages_link_to_the_policy_of_security() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "SECURITY.md" in (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_package_names_its_addresses_in_one_file() -> None:
    urls = PROJECT["urls"]
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} == set(urls)
    assert all(one.startswith(urls["Source"]) for name, one in urls.items() if name != "Documentation")
    for address in (urls["Source"], urls["Documentation"].rstrip("/")):
        words = ["git", "grep", "-lIF", "--untracked", address]
        named = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
        assert named == ["pyproject.toml"]


@pytest.mark.parametrize("page", ["README.md", "docs/package-index.md"])
def test_a_page_names_the_platform_and_the_python(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f"Linux on x86_64, Python {oldest} or later" in text
    assert f"Programming Language :: Python :: {oldest}" in PROJECT["classifiers"]


def test_the_page_about_ci_names_a_tag_of_this_version_for_the_hook_and_the_image() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert f"    rev: v{PROJECT['version']} " in page
    assert f"git clone --depth 1 --branch v{PROJECT['version']} " in page


def test_the_example_of_the_action_has_inputs_and_outputs_of_the_action() -> None:
    action = load(ROOT / "action.yml")
    (block,) = (one for one in parse_blocks(ROOT / "docs" / "ci.md") if "uses: ligerdiag/ligerdiag@" in one.text)
    (step,) = (one for one in list_steps(yaml.safe_load(block.text)) if one.get("id") == "ligerdiag")
    assert set(step["with"]) <= set(action["inputs"])
    assert set(re.findall(r"steps\.ligerdiag\.outputs\.([\w-]+)", block.text)) <= set(action["outputs"])
    assert "${{" not in "".join(one.get("run", "") for one in list_steps(yaml.safe_load(block.text)))
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    rows = page.partition("| input | meaning |")[2].partition("\n\n")[0]
    assert set(action["inputs"]) - {"token"} == set(
        re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE)))
    )
