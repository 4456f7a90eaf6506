"""The published JSON schema of `[tool.ligerdiag]` is up to date, and accepts what ligerdiag accepts."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ligerdiag import config
from ligerdiag.config import load_config
from ligerdiag.errors import InputError
from tests.config.test_config import GOOD
from tools.config_schema import main, make_schema, render_schema
from tools.documents import ROOT, parse_blocks

PUBLISHED = ROOT / "docs" / "schema" / "pyproject-ligerdiag.json"

ACCEPTED = (
    "",
    GOOD.partition("\n")[2],
    'memory_budget = "60G"\ncopy_budget = "1.5 GiB"',
    'memory_budget = 1\ncopy_budget = 0\nbaseline = "schedules.json"',
    'memory_budget = " 60 gb "',
    'autotune_results = "h100.pbtxt"',
    'fail_on = "note"\nstrict = false\ntargets = []',
    'suppress = []\neffects = {"my_*" = {writes = "aliased"}, k = {writes = [], reads = [0, 10000]}}',
    'suppress = [{rule = "stale-read", reason = "x", kernel = "k*"}]',
)
REFUSED = (
    "targts = []",
    "targets = [1]",
    'targets = [""]',
    'targets = "h100"',
    'fail_on = "always"',
    'strict = "yes"',
    'baseline = ""',
    "baseline = 1",
    'autotune_results = ""',
    "autotune_results = 1",
    "memory_budget = 0",
    "memory_budget = 1.5",
    "memory_budget = true",
    'memory_budget = "60P"',
    'copy_budget = "many"',
    "copy_budget = -1",
    "suppress = {}",
    'suppress = [{rule = "LD001"}]',
    'suppress = [{reason = "x"}]',
    'suppress = [{rule = "LD999", reason = "x"}]',
    'suppress = [{rule = "LD001", reason = " "}]',
    'suppress = [{rule = "LD001", reason = "x", file = "a.py"}]',
    'suppress = [{rule = "LD001", reason = "x", case = ""}]',
    "effects = []",
    "effects = {k = [0]}",
    "effects = {k = {reads = [0]}}",
    "effects = {k = {writes = [-1]}}",
    "effects = {k = {writes = [10001]}}",
    "effects = {k = {writes = [0, 0]}}",
    'effects = {k = {writes = "all"}}',
    'effects = {k = {writes = [0], reads = "aliased"}}',
    "effects = {k = {writes = [0], wirtes = [0]}}",
    'effects = {"" = {writes = [0]}}',
)


def list_mistakes(table: str) -> list[str]:
    schema: Any = make_schema()
    given = tomllib.loads(table)
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(given)]


def test_the_published_schema_is_up_to_date(tmp_path: Path) -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == render_schema(), "run `make docs`"
    assert main([str(PUBLISHED), "--check"]) == 0
    assert main([str(tmp_path / "none.json"), "--check"]) == 1


def test_it_is_a_schema_of_draft_7_with_a_description_of_each_key() -> None:
    schema = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    assert tuple(schema["properties"]) == config.KEYS
    assert schema["additionalProperties"] is False
    assert all(one["description"].endswith((".", ",")) for one in schema["properties"].values())


@pytest.mark.parametrize("table", ACCEPTED)
def test_both_accept(table: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ligerdiag]\n{table}\n", encoding="utf-8")
    load_config(None, tmp_path)
    assert list_mistakes(f"{table}\n".replace("tool.ligerdiag.", "")) == []


@pytest.mark.parametrize("table", REFUSED)
def test_both_refuse(table: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ligerdiag]\n{table}\n", encoding="utf-8")
    with pytest.raises(InputError):
        load_config(None, tmp_path)
    assert list_mistakes(table)


def test_a_new_key_without_a_description_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "KEYS", (*config.KEYS, "new"))
    with pytest.raises(KeyError, match="new"):
        make_schema()
    monkeypatch.setattr(config, "KEYS", ("suppress",))
    with pytest.raises(KeyError, match="described, and not read"):
        make_schema()


def test_the_tables_of_the_pages_follow_the_schema() -> None:
    tables = [
        tomllib.loads(block.text)["tool"]["ligerdiag"]
        for name in ("suppressions", "effects", "how-to-inspect-a-dump")
        for block in parse_blocks(ROOT / "docs" / f"{name}.md")
        if block.language == "toml"
    ]
    assert len(tables) >= 2
    schema: Any = make_schema()
    for table in tables:
        jsonschema.Draft7Validator(schema).validate(table)
