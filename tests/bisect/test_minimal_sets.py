"""Compares the search for minimal sets with trying every set."""

from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ligerdiag.bisect.search import (
    EXHAUSTIVE,
    Completeness,
    Knobs,
    MinimalSets,
    MinimalSetSearch,
    compute_hitting_sets,
    iterate_confirmations,
)

type Predicate = Callable[[Knobs], bool | None]


def _search(
    count: int, holds: Predicate, *, limit: int = 10_000, width: int = 1, tried: dict[Knobs, bool | None] | None = None
) -> tuple[MinimalSets, MinimalSetSearch, list[Knobs]]:
    asked: list[Knobs] = []

    def judge(sets: Sequence[Knobs]) -> list[bool | None]:
        asked.extend(sets)
        return [holds(knobs) for knobs in sets]

    search = MinimalSetSearch(count=count, judge=judge, limit=limit, width=width, tried=dict(tried or {}))
    found = search.run()
    assert len(asked) == len(set(asked)), "a set was judged twice"
    return found, search, asked


def _power_set(count: int) -> list[Knobs]:
    return [frozenset(chosen) for size in range(count + 1) for chosen in combinations(range(count), size)]


def _list_minimal(count: int, holds: Predicate) -> set[Knobs]:
    held = [knobs for knobs in _power_set(count) if holds(knobs)]
    return {knobs for knobs in held if not any(other < knobs for other in held)}


def _contains_one_of(sets: Sequence[Knobs]) -> Predicate:
    return lambda knobs: any(one <= knobs for one in sets)


def _families(count: int) -> st.SearchStrategy[list[Knobs]]:
    return st.lists(st.frozensets(st.integers(0, count - 1), max_size=count), max_size=5)


@given(st.integers(0, EXHAUSTIVE).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, 63)))))
def test_few_knobs_are_certain_whatever_the_predicate(drawn: tuple[int, set[int]]) -> None:
    count, chosen = drawn
    held = {knobs for number, knobs in enumerate(_power_set(count)) if number in chosen}
    found, _, asked = _search(count, lambda knobs: knobs in held)
    assert set(found.sets) == _list_minimal(count, lambda knobs: knobs in held)
    assert found.completeness is Completeness.CERTAIN
    every = frozenset(range(count))
    assert not any(minimal < knobs for minimal in found.sets for knobs in asked if knobs != every)


@given(_families(9), st.integers(1, 4))
def test_many_knobs_of_a_monotone_predicate_give_all_sets(sets: list[Knobs], width: int) -> None:
    holds = _contains_one_of(sets)
    found, _, asked = _search(9, holds, width=width)
    assert set(found.sets) == _list_minimal(9, holds)
    assert found.is_monotone
    assert len(asked) < 2**9


@given(st.integers(7, 8).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, 255)))))
def test_many_knobs_of_any_predicate_give_confirmed_sets(drawn: tuple[int, set[int]]) -> None:
    count, chosen = drawn
    held = {knobs for number, knobs in enumerate(_power_set(count)) if number in chosen}
    found, search, _ = _search(count, lambda knobs: knobs in held)
    assert found.sets or not search.best
    for knobs in found.sets:
        assert search.tried[knobs]
        assert not any(search.tried[less] for _, less in iterate_confirmations(knobs))
    assert found.completeness in (Completeness.CERTAIN, Completeness.IF_MONOTONE)


def test_a_harmful_knob_is_noticed_and_does_not_hide_the_others() -> None:
    def holds(knobs: Knobs) -> bool:
        return {0, 1} <= knobs and 7 not in knobs

    found, _, _ = _search(8, holds)
    assert found.sets == (frozenset({0, 1}),)
    assert not found.is_monotone


def test_the_limit_keeps_the_results_so_far() -> None:
    holds = _contains_one_of([frozenset({0, 1}), frozenset({2, 3, 4})])
    whole, _, asked = _search(10, holds)
    assert len(whole.sets) == 2
    found, search, fewer = _search(10, holds, limit=len(asked) // 2)
    assert len(fewer) == len(asked) // 2
    assert found.completeness is Completeness.LIMITED
    assert set(found.sets) <= set(whole.sets)
    assert search.best is not None


@given(_families(8), st.integers(0, 60))
def test_a_search_continues_from_the_record_of_an_interrupted_one(sets: list[Knobs], interrupted: int) -> None:
    holds = _contains_one_of(sets)
    whole, _, asked = _search(8, holds)
    _, search, first = _search(8, holds, limit=interrupted)
    found, _, second = _search(8, holds, tried=search.tried)
    assert found == whole
    assert first == asked[:interrupted]
    assert set(first).isdisjoint(second)


def test_ctrl_c_keeps_the_tried_sets() -> None:
    judged: list[Knobs] = []

    def judge(sets: Sequence[Knobs]) -> list[bool | None]:
        if len(judged) > 4:
            raise KeyboardInterrupt
        judged.extend(sets)
        return [{1, 2} <= knobs for knobs in sets]

    search = MinimalSetSearch(count=8, judge=judge, limit=100)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert list(search.tried) == judged
    assert search.best == frozenset(range(8))


def test_a_set_that_could_not_be_judged_is_listed_and_does_not_hold() -> None:
    found, _, _ = _search(2, lambda knobs: None if knobs == {0} else knobs == {0, 1})
    assert found.sets == (frozenset({0, 1}),)
    assert found.undecided == (frozenset({0}),)


def test_each_better_set_is_reported_once() -> None:
    answered: list[Knobs] = []

    def judge(sets: Sequence[Knobs]) -> list[bool | None]:
        return [{3, 5} <= knobs for knobs in sets]

    MinimalSetSearch(count=8, judge=judge, limit=100, on_best=answered.append).run()
    assert answered[0] == frozenset(range(8))
    assert answered[-1] == frozenset({3, 5})
    assert [len(knobs) for knobs in answered] == sorted({len(knobs) for knobs in answered}, reverse=True)


@given(_families(6))
def test_all_minimal_hitting_sets_are_found(sets: list[Knobs]) -> None:
    hitting = compute_hitting_sets(sets)
    expected = _list_minimal(6, lambda knobs: all(knobs & one for one in sets))
    assert set(hitting) == expected
    assert len(hitting) == len(set(hitting))
