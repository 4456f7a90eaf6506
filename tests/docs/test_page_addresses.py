"""Reports, `explain` and `--help` link to pages that the site has, at the address that pyproject.toml names once."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ligerdiag.cli.main import app
from ligerdiag.package_metadata import compute_page_address, compute_site_folder
from ligerdiag.report.case_places import Repository
from ligerdiag.report.html import render_case_html
from ligerdiag.report.rule_page import compute_page_name, compute_rule_address
from ligerdiag.report.sarif import render_sarif
from ligerdiag.rules.registry import RULES
from tests.report.samples import make_case, make_finding, make_report
from tools.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SITE = PROJECT["urls"]["Documentation"].rstrip("/") + "/" + ".".join(PROJECT["version"].split(".")[:2])
PUBLISHED = ROOT / "tests" / "docs" / "rule_pages.txt"
"""The pages that the site has, or had: lines are added here, and none is removed."""
PLACES = """
import sys
sys.path.insert(0, sys.argv[1])
from ligerdiag.package_metadata import compute_page_address, compute_version
print(compute_version(), compute_page_address("rules/README.md"))
"""


def find_page(site: Path, address: str) -> Path:
    """Returns the file that the address leads to, in the site as it is built here."""
    assert address.startswith(f"{SITE}/")
    assert address.endswith("/")
    return site / address.removeprefix(f"{SITE}/") / "index.html"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_explain_and_sarif_link_to_the_page_of_the_rule_on_the_site(rule, site: Path) -> None:
    address = compute_rule_address(rule)
    assert f"<title>{rule.id} {rule.name}" in find_page(site, address).read_text(encoding="utf-8")
    log = json.loads(render_sarif(make_report(), repository=Repository(root="/", current="/"), exit_code=0))
    driver = log["runs"][0]["tool"]["driver"]
    assert next(one for one in driver["rules"] if one["id"] == rule.id)["helpUri"] == address
    assert driver["informationUri"] == f"{SITE}/"
    words = CliRunner().invoke(app, ["explain", rule.id]).output.split()
    assert words.count(address) == 1


def test_the_address_that_reports_use_is_the_page_s_own(site: Path) -> None:
    assert compute_page_address("README.md") == f"{SITE}/"
    assert find_page(site, compute_page_address("README.md")).is_file()
    assert compute_page_address("rules/README.md") == f"{SITE}/rules/"
    assert compute_page_address("memory.md") == f"{SITE}/memory/"


def test_a_page_of_a_report_links_to_the_rule() -> None:
    case = make_case(findings=(make_finding(rule="LD002"),))
    (rule,) = (rule for rule in RULES if rule.id == "LD002")
    assert f'<a href="{compute_rule_address(rule)}" rel="noreferrer">' in render_case_html(case, make_report(case))


def test_a_page_of_a_report_about_an_unknown_rule_has_no_link() -> None:
    case = make_case(findings=(make_finding(rule="LD999"),))
    html = render_case_html(case, make_report(case))
    assert "ligerdiag explain LD999" in html
    assert SITE not in html


def test_the_help_ends_with_the_address() -> None:
    for words in ([], ["--help"]):
        assert CliRunner().invoke(app, words).output.endswith(f"\n\nDocumentation: {SITE}/\n")


@pytest.mark.parametrize(
    ("version", "folder"),
    [("0.1.0", "0.1"), ("1.12.3", "1.12"), ("2.0rc1", "2.0"), ("0.3.0.dev1+abc", "0.3"), ("unknown", "latest")],
)
def test_each_minor_version_has_a_folder(version: str, folder: str) -> None:
    assert compute_site_folder(version) == folder


def test_a_source_tree_that_is_not_installed_knows_its_version_and_address() -> None:
    assert run_without_packages(ROOT) == [PROJECT["version"], f"{SITE}/rules/"]


@pytest.mark.parametrize(
    "pyproject", ["", "[project", '[project]\nname = "theirs"\nurls.Documentation = "https://x"\n']
)
def test_a_copy_in_another_project_knows_neither(tmp_path: Path, pyproject: str) -> None:
    shutil.copytree(ROOT / "ligerdiag", tmp_path / "ligerdiag", ignore=shutil.ignore_patterns("__pycache__"))
    if pyproject:
        (tmp_path / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    assert run_without_packages(tmp_path) == ["unknown"]


def run_without_packages(folder: Path) -> list[str]:
    """Returns the words that `PLACES` prints where no package is installed."""
    words = [sys.executable, "-S", "-c", PLACES, str(folder)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def test_pages_of_rules_keep_their_names() -> None:
    """docs/policy.md promises that the address of a rule's page lasts: reports that were sent link to it."""
    pages = {compute_page_name(rule) for rule in RULES}
    assert pages >= set(PUBLISHED.read_text(encoding="utf-8").split())
    assert pages == {path.name for path in (ROOT / "docs" / "rules").glob("ld*.md")}
