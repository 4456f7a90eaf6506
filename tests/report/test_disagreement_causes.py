"""The evidence for each cause of a contradiction; ligerdiag is the cause if no other one is left."""

from dataclasses import replace
from typing import Any

import pytest

from ligerdiag.model.findings import Attribution, Finding, Severity, Suppression, SuppressionKind, Verdict
from ligerdiag.report import disagreement_causes
from ligerdiag.report.agreement import Agreement, compute_disagreements, compute_replay_agreements, list_explained
from ligerdiag.report.disagreement_causes import (
    NOTHING_LEFT,
    SOMETHING_LEFT,
    CauseStanding,
    list_possible_causes,
    note_differences,
)
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Party
from tests.report.samples import make_finding, make_numbers, make_replay

WRONG = make_replay({"w": make_numbers(Attribution.NEITHER)})
PARTIES = (Party.JAX, Party.XLA, Party.KERNEL)


@pytest.fixture(params=PARTIES)
def party(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Party:
    """A party, and for each one rule that looks for its mistakes."""
    rules = [
        replace(RULES[number], id=f"LD9{number}0", name=one.value, party=one) for number, one in enumerate(PARTIES)
    ]
    monkeypatch.setattr(disagreement_causes, "RULES", tuple(rules))
    return request.param


def find_mistake(party: Party, **changes: Any) -> Finding:
    rule = f"LD9{PARTIES.index(party)}0"
    return replace(make_finding(outputs=("w",), rule=rule), **{"severity": Severity.ERROR, **changes})


def compare(*findings: Finding, failed: tuple[str, ...] = ()) -> dict[str, str]:
    """Label to sentence of the one disagreement; empty if there is none."""
    found = compute_disagreements({"w": Verdict.FRESH}, findings, WRONG, None, failed)
    return {**dict(found[0].evidence), "help": found[0].help} if found else {}


def test_without_a_finding_only_ligerdiag_is_left(party: Party) -> None:
    said = compare()
    assert said["help"] == NOTHING_LEFT
    assert said["ligerdiag"] == "possible: all others are ruled out"
    assert said[party.value].startswith("ruled out: LD9")


def test_an_error_about_the_output_is_the_explanation(party: Party) -> None:
    finding = find_mistake(party)
    assert compare(finding) == {}
    assert compute_replay_agreements({"w": Verdict.FRESH}, WRONG, (finding,)) == {"w": Agreement.SILENT}
    explained = list_explained({"w": Verdict.FRESH}, (finding,), WRONG, None)
    (noted,) = note_differences((finding,), explained)
    assert noted.evidence[-1] == (
        "note",
        "this is why `w` is fresh according to its schedule, but neither when it is replayed",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"severity": Severity.WARNING},
        {"outputs": ()},
        {"suppressed": Suppression(kind=SuppressionKind.IN_CODE, where="a.py:1", reason="known")},
    ],
    ids=["a warning", "about no output", "allowed"],
)
def test_a_finding_that_does_not_reach_the_output_leaves_the_cause_possible(
    party: Party, changes: dict[str, Any]
) -> None:
    said = compare(find_mistake(party, **changes))
    assert said["help"] == SOMETHING_LEFT
    assert said[party.value].startswith("possible: ")
    assert said["ligerdiag"] == f"possible: {party.value} may be wrong as well"
    assert [label for label in ("JAX", "XLA", "kernel") if said[label].startswith("ruled out")] == [
        one.value for one in PARTIES if one is not party
    ]


def test_a_finding_about_another_output_explains_nothing(party: Party) -> None:
    assert compare(find_mistake(party, outputs=("b",)))["help"] == NOTHING_LEFT


def test_a_rule_that_failed_rules_nothing_out(party: Party) -> None:
    said = compare(failed=(find_mistake(party).rule,))
    assert said[party.value].endswith(" failed")
    assert said["help"] == SOMETHING_LEFT


def test_a_party_without_rules_stays_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disagreement_causes, "RULES", ())
    standings = [one.standing for one in list_possible_causes("w", ())]
    assert standings == [CauseStanding.POSSIBLE] * 4
