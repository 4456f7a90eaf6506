"""The rules that a case expects to have findings, compared both ways if they could have any."""

import pytest

from ligerdiag.errors import InputError
from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.report import Coverage, Status
from ligerdiag.report.status import Expectation, compute_status, parse_expected_rules
from ligerdiag.rules.registry import get_rule

COVERAGE = Coverage(instructions=10, kernels=1, hidden_writes=1)


def make_findings(*rules: str) -> tuple[Finding, ...]:
    return tuple(Finding(rule=rule, severity=get_rule(rule).severity, message="m") for rule in rules)


def judge(
    *fired: str,
    wanted: tuple[str, ...] | None,
    verdict: Verdict = Verdict.FRESH,
    expected: Expectation = "fresh",
    undecided_rules: frozenset[str] = frozenset(),
) -> tuple[Status, str]:
    return compute_status(
        {"a": verdict},
        make_findings(*fired),
        expected,
        COVERAGE,
        expected_rules=wanted,
        undecided_rules=undecided_rules,
    )


@pytest.mark.parametrize("fired", [(), ("LD006",), ("LD006", "LD009")])
def test_rules_are_compared_only_if_a_case_expects_some(fired: tuple[str, ...]) -> None:
    assert judge(*fired, wanted=None) == (Status.EXPECTED, "")


def test_exactly_the_expected_rules_are_as_expected_however_many_findings_they_have() -> None:
    assert judge("LD006", "LD009", "LD009", wanted=("LD009", "LD006")) == (Status.EXPECTED, "")


def test_a_rule_that_does_not_fire_is_a_contradiction() -> None:
    assert judge("LD006", wanted=("LD006", "LD009")) == (Status.UNEXPECTED, "expected a finding of LD009")


def test_a_question_may_come_unexpectedly_and_must_come_if_it_is_expected() -> None:
    assert judge("LD035", wanted=()) == (Status.EXPECTED, "")
    assert judge("LD035", wanted=("LD035",)) == (Status.EXPECTED, "")
    assert judge(wanted=("LD035",)) == (Status.UNEXPECTED, "expected a finding of LD035")


def test_a_rule_that_fires_unexpectedly_is_a_contradiction() -> None:
    assert judge("LD006", "LD009", wanted=("LD006",)) == (Status.UNEXPECTED, "expected no finding of LD009")


@pytest.mark.parametrize("fired", [(), ("LD017",)])
def test_a_rule_with_a_question_mark_may_or_may_not_fire(fired: tuple[str, ...]) -> None:
    assert judge("LD006", *fired, wanted=("LD006", "LD017?")) == (Status.EXPECTED, "")
    assert judge(*fired, wanted=("LD006", "LD017?")) == (Status.UNEXPECTED, "expected a finding of LD006")


def test_no_rules_at_all_can_be_expected() -> None:
    assert judge(wanted=()) == (Status.EXPECTED, "")
    assert judge("LD006", wanted=())[0] is Status.UNEXPECTED


def test_contradictions_of_verdicts_and_of_rules_are_both_shown() -> None:
    status, mismatch = judge("LD006", wanted=("LD009",), verdict=Verdict.STALE)
    assert status is Status.UNEXPECTED
    assert mismatch == ("expected `a` fresh but it is stale; expected a finding of LD009; expected no finding of LD006")


@pytest.mark.parametrize("fired", [(), ("LD016",)])
@pytest.mark.parametrize("wanted", [(), ("LD016",)])
def test_an_undecided_rule_is_not_compared_either_way(fired: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    assert judge(*fired, wanted=wanted, undecided_rules=frozenset({"LD016"})) == (Status.EXPECTED, "")


def test_an_inconclusive_case_stays_so_without_an_expected_rule_and_not_with_an_unexpected_one() -> None:
    assert judge(wanted=("LD009",), verdict=Verdict.UNKNOWN)[0] is Status.INCONCLUSIVE
    assert judge("LD009", wanted=(), verdict=Verdict.UNKNOWN)[0] is Status.UNEXPECTED


def test_an_unknown_rule_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="no rule `LD999`; known: LD001 stale-read"):
        parse_expected_rules(("LD999?",), beside="fresh")


def test_a_name_instead_of_an_id_is_refused_with_the_id() -> None:
    with pytest.raises(InputError, match="rule's id LD009 in `expected_rules` but got `caller-clobbered`"):
        parse_expected_rules(("caller-clobbered",), beside="fresh")


def test_rules_without_an_expectation_of_the_verdicts_are_refused() -> None:
    with pytest.raises(InputError, match="`expected_rules` needs `expected`"):
        parse_expected_rules(("LD009",), beside=None)
