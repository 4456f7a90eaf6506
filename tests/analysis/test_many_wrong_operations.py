"""Finds the outputs that depend on wrong operations even if there are more of them than one evaluation can tell apart."""

import pytest

from ligerdiag.analysis.evaluation.ambiguities import Ambiguity, Reason
from ligerdiag.analysis.verdict import blame, output_reachability
from ligerdiag.analysis.verdict.blame import Blamed
from ligerdiag.analysis.verdict.comparison import Cause, OutputVerdict
from ligerdiag.analysis.verdict.verdicts import propagate
from ligerdiag.model.findings import Verdict
from tests.analysis.pair_files import judge_pair

CHAIN = "chain_of_stale_readers"
"""Several operations are wrong, and only the first one is where the wrong value is read."""


def test_operations_that_share_marks_are_split_until_one_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_reachability, "MARKS", 1)
    verdicts = judge_pair(CHAIN).verdicts
    assert verdicts.outputs["y"].verdict is Verdict.STALE
    assert [(read.reader.opcode, read.outputs) for read in verdicts.stale] == [("abs", ("y",))]


@pytest.mark.parametrize(("module", "limit", "value"), [(output_reachability, "ROUNDS", 0), (blame, "LIMIT", 3)])
def test_an_output_is_unknown_if_the_search_ends_early(
    module: object, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_reachability, "MARKS", 1)
    monkeypatch.setattr(module, limit, value)
    verdicts = judge_pair(CHAIN).verdicts
    assert verdicts.outputs["y"].verdict is Verdict.UNKNOWN
    assert {one.reason for one in verdicts.ambiguities["y"]} == {Reason.TOO_MANY}


def test_an_unknown_output_leaves_what_is_said_of_the_others() -> None:
    stale = OutputVerdict(Verdict.STALE, (Cause(0, Verdict.STALE),))
    found = propagate(
        Blamed({"mask": stale, "y": stale}, decided=frozenset({"mask"})),
        {"y": frozenset({Ambiguity(0, Reason.CONSTANT, 0)})},
    )
    assert {name: output.verdict for name, output in found.outputs.items()} == {
        "mask": Verdict.STALE,
        "y": Verdict.UNKNOWN,
    }
    assert found.decided == {"mask"}
