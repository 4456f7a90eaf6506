"""Ids and names of the rules are permanent, because people write them down."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.rules import registry
from ligerdiag.rules.registry import RULES, get_only_id, get_rule
from ligerdiag.rules.rule import Rule, RuleKind

ROOT = Path(__file__).parents[2]

RETIRED: frozenset[str] = frozenset()
"""Ids of removed rules. They are never reused."""


def test_an_id_is_never_given_to_a_second_rule() -> None:
    known = {rule.id for rule in RULES}
    assert not known & RETIRED
    assert sorted(known | RETIRED) == [f"LD{number:03}" for number in range(1, len(known | RETIRED) + 1)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_file_and_the_page_of_a_rule_have_its_id_and_name(rule: Rule) -> None:
    name = f"{rule.id.lower()}-{rule.name}"
    assert list((ROOT / "ligerdiag" / "rules").glob(f"*/{name.replace('-', '_')}.py"))
    assert (ROOT / "docs" / "rules" / f"{name}.md").is_file()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_ids_and_names_are_well_formed(rule: Rule) -> None:
    assert re.fullmatch(r"LD\d{3}", rule.id)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.name)


def test_no_two_rules_share_an_id_or_a_name() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


def test_a_rule_that_was_copied_with_its_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = replace(get_rule("LD003"), id="LD999")
    monkeypatch.setattr(registry, "RULES", (*RULES, copied))
    with pytest.raises(AssertionError, match=r"LUCKY_READ but got LD003 and LD999: .* must not keep `kind`"):
        get_only_id(RuleKind.LUCKY_READ)


def test_rules_are_in_the_order_of_their_ids() -> None:
    assert [rule.id for rule in RULES] == sorted(rule.id for rule in RULES)


@pytest.mark.parametrize("spelling", ["LD001", "ld001", "stale-read", "Stale-Read"])
def test_a_rule_is_found_by_id_and_by_name(spelling: str) -> None:
    assert get_rule(spelling).id == "LD001"


@pytest.mark.parametrize(
    ("said", "nearest"),
    [
        ("stale", r"LD001 `stale-read` or LD002 `stale-copy`"),
        ("stale-raed", r"LD001 `stale-read`.*"),
        ("LD1", "LD001 `stale-read`"),
        ("7", "LD007 `vanished-call`"),
        ("latent order", "LD003 `latent-order`"),
        ("Undeclared_Writes", "LD006 `undeclared-write`"),
    ],
)
def test_part_of_a_name_or_a_typo_suggests_the_intended_rule(said: str, nearest: str) -> None:
    with pytest.raises(InputError, match=rf"^no rule `{said}`, did you mean {nearest}$"):
        get_rule(said)


def test_an_unknown_rule_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no rule `LD999`; known: LD001 stale-read, .*LD014 unknown-effect"):
        get_rule("LD999")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_summary_is_one_lower_case_line(rule: Rule) -> None:
    assert "\n" not in rule.summary
    assert rule.summary[0].islower()
    assert not rule.summary.endswith(".")
