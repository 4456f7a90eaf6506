"""Each public report behind a rule names the case that reproduces it, or says that it was not reproduced."""

import importlib
import pkgutil

import pytest

import cases
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Reproduction

CASE_IDS = frozenset(
    case.id
    for module in pkgutil.iter_modules(cases.__path__, "cases.")
    for case in importlib.import_module(module.name).CASES
)
ENTRIES = tuple((rule.id, entry) for rule in RULES for entry in rule.reproduced)


@pytest.mark.parametrize(("rule", "entry"), ENTRIES, ids=[f"{rule}-{entry.report}" for rule, entry in ENTRIES])
def test_an_entry_names_an_existing_case_or_says_that_nothing_was_reproduced(rule: str, entry: Reproduction) -> None:
    assert entry.case in CASE_IDS if entry.case else entry.reproduced.startswith("nothing")


@pytest.mark.parametrize(("rule", "entry"), ENTRIES, ids=[f"{rule}-{entry.report}" for rule, entry in ENTRIES])
def test_an_entry_lists_the_reproduced_parts_and_the_others(rule: str, entry: Reproduction) -> None:
    for text in (entry.report, entry.reproduced, entry.missing):
        assert text.strip()
        assert not text.endswith(".")
