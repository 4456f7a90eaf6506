"""Combines the verdicts of several programs that one schedule may belong to."""

from ligerdiag.analysis.verdict.comparison import join_outputs, join_read
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import ReadKind

FRESH, LATENT, UNKNOWN, CLOBBERED, STALE = Verdict


def test_an_output_on_which_programs_disagree_is_unknown() -> None:
    assert join_outputs([{"a": STALE, "b": FRESH, "c": FRESH}, {"a": STALE, "b": LATENT}]) == {
        "a": STALE,
        "b": UNKNOWN,
        "c": UNKNOWN,
    }


def test_a_read_is_unknown_if_programs_disagree_or_its_output_is_unknown() -> None:
    assert join_read(ReadKind.STALE, [ReadKind.STALE], reaches_unknown=False) is ReadKind.STALE
    assert join_read(ReadKind.STALE, [ReadKind.STALE], reaches_unknown=True) is ReadKind.UNKNOWN
    assert join_read(ReadKind.STALE, [ReadKind.STALE, ReadKind.FRESH], reaches_unknown=False) is ReadKind.UNKNOWN
    assert join_read(ReadKind.FRESH, [None], reaches_unknown=False) is ReadKind.UNKNOWN
