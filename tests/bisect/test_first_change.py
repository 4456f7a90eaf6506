"""Compares the search for the first change with asking every member."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ligerdiag.bisect.search import AnswerChange, find_changes


def _search(answers: Sequence[str | None], *, verify: bool = False) -> tuple[list[AnswerChange], list[int], bool]:
    asked: list[int] = []

    def ask(positions: Sequence[int]) -> list[str | None]:
        asked.extend(positions)
        return [answers[position] for position in positions]

    found = find_changes(len(answers), ask, verify=verify)
    assert len(asked) == len(set(asked)), "a member was asked twice"
    assert found.answers == {position: answers[position] for position in sorted(asked)}
    return list(found.changes), asked, found.is_whole


def _list_all(answers: Sequence[str | None]) -> list[AnswerChange]:
    answered = [position for position, answer in enumerate(answers) if answer is not None]
    return [AnswerChange(before=a, after=b) for a, b in pairwise(answered) if answers[a] != answers[b]]


def test_one_change_in_a_long_list_is_found_by_halving() -> None:
    changes, asked, is_whole = _search(["old"] * 700 + ["new"] * 324)
    assert changes == [AnswerChange(before=699, after=700)]
    assert len(asked) <= 12
    assert not is_whole


def test_equal_ends_mean_that_every_member_is_asked() -> None:
    changes, asked, is_whole = _search(["a", "a", "b", "a"])
    assert changes == [AnswerChange(before=1, after=2), AnswerChange(before=2, after=3)]
    assert sorted(asked) == [0, 1, 2, 3]
    assert is_whole


def test_verifying_finds_the_changes_that_halving_misses() -> None:
    answers = ["a", "b", "a", "b", "b", "b"]
    assert len(_search(answers)[0]) == 1
    assert _search(answers, verify=True)[0] == _list_all(answers)


def test_a_member_without_an_answer_is_skipped() -> None:
    assert _search(["a", None, None, "b"])[0] == [AnswerChange(before=0, after=3)]
    assert _search([None, "a", "b", None])[0] == [AnswerChange(before=1, after=2)]


def test_lists_of_at_most_one_member_have_no_change() -> None:
    assert _search([]) == ([], [], True)
    assert _search(["a"]) == ([], [0], True)
    assert _search([None, None])[0] == []


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=12), st.booleans())
def test_every_reported_change_exists_and_asking_all_misses_none(answers: list[str | None], verify: bool) -> None:
    changes, _, is_whole = _search(answers, verify=verify)
    everything = _list_all(answers)
    assert set(changes) <= set(everything)
    assert is_whole or not verify
    if verify or not changes:
        assert changes == everything
