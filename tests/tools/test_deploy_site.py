"""The site of each version lies beside those of the others, in a branch of a repository of its own here."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tools.deploy_site import BRANCH, deploy, is_newest
from tools.documents import ROOT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a repository with a site of two pages, in which the test runs."""
    (tmp_path / ".gitignore").write_text("/site/\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Start\n\nversion one\n")
    (tmp_path / "docs" / "page.md").write_text("# A page\n\n[start](README.md)\n")
    configuration = "site_name: x\nstrict: true\nplugins: []\ntheme: {name: material, font: false}\n"
    (tmp_path / "mkdocs.yml").write_text(f"{configuration}hooks: [{ROOT / 'tools' / 'site.py'}]\n")
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "a")
        monkeypatch.setenv(f"{name}_EMAIL", "a@example.org")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    run_git("init", "--quiet", "--initial-branch", "main")
    run_git("add", ".")
    run_git("commit", "--quiet", "-m", "one")
    return tmp_path


def run_git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
    )
    return done.stdout


def read_versions() -> dict[str, list[str]]:
    return {one["version"]: one["aliases"] for one in json.loads(run_git("show", f"{BRANCH}:versions.json"))}


def read_page(path: str) -> str:
    return run_git("show", f"{BRANCH}:{path}")


def test_versions_lie_beside_each_other_and_the_newest_is_latest(project: Path) -> None:
    deploy("0.1.0")
    assert read_versions() == {"0.1": ["latest"]}
    (project / "docs" / "README.md").write_text("# Start\n\nversion two\n")
    deploy("0.2.0")
    assert read_versions() == {"0.2": ["latest"], "0.1": []}
    (project / "docs" / "README.md").write_text("# Start\n\na late patch\n")
    deploy("0.1.1")
    assert read_versions() == {"0.2": ["latest"], "0.1": []}
    assert "a late patch" in read_page("0.1/index.html")
    assert "version two" in read_page("0.2/index.html")
    assert read_page("latest") == "0.2", "expected a symbolic link"
    assert "latest/" in read_page("index.html")
    assert run_git("status", "--porcelain") == " M docs/README.md\n"
    deploy("0.3.0rc1")
    assert read_versions() == {"0.3": [], "0.2": ["latest"], "0.1": []}


def test_search_engines_are_sent_to_the_newest_version_of_a_page(project: Path) -> None:
    deploy("0.1.0")
    assert 'rel="canonical" href="' in read_page("0.1/page/index.html")
    address = read_page("0.1/page/index.html").partition('rel="canonical" href="')[2].partition('"')[0]
    assert address.startswith("https://")
    assert address.endswith("/latest/page/")


@pytest.mark.parametrize(
    ("folder", "others", "newest"),
    [
        ("0.1", [], True),
        ("0.1", ["0.1"], True),
        ("0.10", ["0.9"], True),
        ("0.9", ["0.10"], False),
        ("0.2", ["1.0", "0.1"], False),
        ("0.2", ["dev"], True),
    ],
)
def test_the_newest_version_is_found_by_its_numbers(folder: str, others: list[str], newest: bool) -> None:
    assert is_newest(folder, others) is newest
