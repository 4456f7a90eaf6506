"""Compares the rules that have findings with those that a case expects.

1. The expectation is None (nothing is compared) or exactly the rules that fire: one more is as wrong as one less.
2. A rule that is not settled, because it needs a replay or a device and there was none, is not compared either way; nor
   is one with a question mark after its id, which fires in some runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.errors import InputError
from ligerdiag.findings import Finding
from ligerdiag.hazards.registry import RULES, get_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContradictions:
    """One line for each kind of contradiction; empty lines where there is none."""

    extra: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRules:
    """Ids of rules."""

    wanted: frozenset[str]
    """Those that fire."""
    possible: frozenset[str] = frozenset()
    """Those that may fire, and may not."""


def parse_expected_rules(expected_rules: Sequence[str] | None, *, beside: object) -> ExpectedRules | None:
    """Returns the rules, or None. `beside` is what is expected of the verdicts.

    Raises InputError for an id that no rule has, and for rules without an expectation of the verdicts.
    """
    if expected_rules is None:
        return None
    if beside is None:
        raise InputError("expected `expected` beside `expected_rules`, which says nothing of the verdicts")
    for name in (rule.removesuffix("?") for rule in expected_rules):
        if get_rule(name).id != name:
            raise InputError(f"expected the rule's id {get_rule(name).id} in `expected_rules` but got `{name}`")
    return ExpectedRules(
        wanted=frozenset(rule for rule in expected_rules if not rule.endswith("?")),
        possible=frozenset(rule.removesuffix("?") for rule in expected_rules if rule.endswith("?")),
    )


def compare_rules(
    findings: Sequence[Finding], expected: ExpectedRules | None, unsettled: frozenset[str]
) -> RuleContradictions:
    """Returns the rules that fire and are not expected, and those that are expected and do not fire."""
    if expected is None:
        return RuleContradictions()
    wanted, ignored = expected.wanted, unsettled | expected.possible
    found = {finding.rule for finding in findings}
    extra = [rule.id for rule in RULES if rule.id in found - wanted - ignored]
    missing = [rule.id for rule in RULES if rule.id in wanted - found - ignored]
    return RuleContradictions(
        extra=f"expected no finding of {', '.join(extra)}" if extra else "",
        missing=f"expected a finding of {', '.join(missing)}" if missing else "",
    )
