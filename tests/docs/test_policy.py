"""Public names, exit codes, the schema's number and the version are those that docs/policy.md and CHANGELOG.md promise."""

import json
import re
import tomllib
from importlib import import_module

import pytest

import ligerdiag
from ligerdiag import pytest_plugin
from ligerdiag.cli.exit_codes import ExitCode
from tools.documents import ROOT

POLICY = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(?P<module>ligerdiag[\w.]*)` \| (?P<names>.*) \|$", re.MULTILINE)
PUBLIC = {row["module"]: re.findall(r"`(\w+)`", row["names"]) for row in _ROW.finditer(POLICY)}


def test_the_policy_lists_modules() -> None:
    assert list(PUBLIC) == ["ligerdiag", "ligerdiag.in_place", "ligerdiag.pytest_plugin"]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names])
def test_a_public_name_exists_and_has_a_docstring(module: str, name: str) -> None:
    found = getattr(import_module(module), name)
    assert found.__doc__


def test_the_public_names_are_those_that_the_package_exports() -> None:
    assert sorted(PUBLIC["ligerdiag"]) == sorted(ligerdiag.__all__)


def test_the_fixture_is_a_fixture() -> None:
    assert type(pytest_plugin.schedule).__name__ == "FixtureFunctionDefinition"


def test_the_policy_lists_every_exit_code() -> None:
    section = POLICY.partition("| exit code | meaning |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([\d, ]+) \|", section, re.MULTILINE)
    assert [int(number) for row in rows for number in row.split(",")] == [code.value for code in ExitCode]


def test_the_policy_has_the_number_of_the_schema() -> None:
    schema = json.loads((ROOT / "ligerdiag" / "report" / "schema.json").read_text(encoding="utf-8"))
    number = schema["properties"]["schema"]["const"]
    assert f"`schema` is a number of its own, now {number}." in POLICY
    assert (ROOT / "docs" / "schema" / f"ligerdiag-{number}.json").is_file()


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    headings = re.findall(r"^## (.*)$", CHANGES, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in headings[1:])
    kinds = set(re.findall(r"^### (.*)$", CHANGES, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_a_version_that_is_released_has_an_entry() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## [{version}]" in CHANGES or "No version has been released yet." in CHANGES
