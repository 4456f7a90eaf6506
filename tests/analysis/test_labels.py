"""Properties of dependence sets, which are encoded as integers."""

from hypothesis import given
from hypothesis import strategies as st

from ligerdiag.analysis.evaluation.labels import LabelSpace


@st.composite
def spaces(draw: st.DrawFn) -> LabelSpace:
    return LabelSpace(draw(st.integers(1, 4)), draw(st.integers(0, 3)))


@st.composite
def spaces_and_sets(draw: st.DrawFn, count: int = 1) -> tuple[LabelSpace, list[int]]:
    space = draw(spaces())
    space.mark("first")
    space.mark("second")
    bits = 2 * space.classes * space.writes + 2
    return space, [draw(st.integers(0, (1 << bits) - 1)) for _ in range(count)]


def all_writes(space: LabelSpace) -> frozenset[int]:
    return frozenset(range(space.writes))


def fresh_in(space: LabelSpace, labels: int, write: int) -> set[int]:
    """Returns the iteration classes c with FRESH(write, c) in the set."""
    return {c for c in range(space.classes) if labels & fresh_of(space, write, c)}


def fresh_of(space: LabelSpace, write: int, iteration_class: int) -> int:
    """Returns FRESH(write, c): the write happened one iteration of the loop at level c ago."""
    if iteration_class == 0:
        return space.fresh(write)
    return space.advance(space.fresh(write), iteration_class, frozenset({write}))


@given(spaces())
def test_all_labels_have_different_bits(space: LabelSpace) -> None:
    found = [space.mark("a"), space.mark("b")]
    for write in range(space.writes):
        found += [fresh_of(space, write, c) for c in range(space.classes)]
        found += [space.original(write)]
    assert all(label.bit_count() == 1 for label in found)
    assert len(set(found)) == len(found)


@given(spaces())
def test_the_sets_of_all_classes_are_disjoint_and_complete(space: LabelSpace) -> None:
    union = 0
    for write in range(space.writes):
        for whole in (space.all_fresh(write), space.all_original(write)):
            assert whole.bit_count() == space.classes
            assert not union & whole
            union |= whole
        assert space.all_fresh(write) == sum(fresh_of(space, write, c) for c in range(space.classes))
        assert space.all_original(write) & space.original(write)
    assert not union & space.mark("a")


@given(spaces_and_sets(), st.integers(1, 3))
def test_advance_is_idempotent_at_one_level(given_: tuple[LabelSpace, list[int]], level: int) -> None:
    space, (labels,) = given_
    level = min(level, space.depth)
    if level:
        once = space.advance(labels, level, all_writes(space))
        assert space.advance(once, level, all_writes(space)) == once


@given(spaces_and_sets(count=2), st.integers(1, 3))
def test_advance_distributes_over_unions(given_: tuple[LabelSpace, list[int]], level: int) -> None:
    # so it is monotone, and fixpoint iterations over loops terminate
    space, (a, b) = given_
    level = min(level, space.depth)
    if level:
        inside = all_writes(space)
        assert space.advance(a | b, level, inside) == space.advance(a, level, inside) | space.advance(b, level, inside)


@given(spaces(), st.data())
def test_a_class_becomes_the_outermost_loop_that_advanced(space: LabelSpace, data: st.DataObject) -> None:
    if not space.depth:
        return
    write = data.draw(st.integers(0, space.writes - 1))
    start = data.draw(st.integers(0, space.depth))
    level = data.draw(st.integers(1, space.depth))
    after = space.advance(fresh_of(space, write, start), level, frozenset({write}))
    assert fresh_in(space, after, write) == {min(start, level) if start else level}


@given(spaces_and_sets(), st.integers(1, 3))
def test_advance_does_not_change_marks_or_writes_outside_the_loop(
    given_: tuple[LabelSpace, list[int]], level: int
) -> None:
    space, (labels,) = given_
    level = min(level, space.depth)
    if not level:
        return
    assert space.advance(labels, level, frozenset()) == labels
    after = space.advance(labels, level, frozenset({0}))
    touched = space.all_fresh(0) | space.all_original(0)
    assert after & ~touched == labels & ~touched


@given(spaces_and_sets(), st.integers(1, 3))
def test_advance_keeps_original_and_fresh_labels_separate(given_: tuple[LabelSpace, list[int]], level: int) -> None:
    space, (labels,) = given_
    level = min(level, space.depth)
    if not level:
        return
    after = space.advance(labels, level, all_writes(space))
    for write in range(space.writes):
        for whole in (space.all_fresh(write), space.all_original(write)):
            assert bool(after & whole) == bool(labels & whole)


@given(st.lists(st.tuples(st.text(max_size=2), st.integers(0, 9)), max_size=20), spaces())
def test_marks_are_found_again_and_do_not_collide(keys: list[tuple[str, int]], space: LabelSpace) -> None:
    marks = {key: space.mark(key) for key in keys}
    assert {key: space.mark(key) for key in keys} == marks
    assert len(set(marks.values())) == len(marks)
    chosen = keys[::2]
    labels = space.all_fresh(0) | space.all_original(space.writes - 1)
    for key in chosen:
        labels |= marks[key]
    assert set(space.marks_in(labels)) == set(chosen)
    assert space.marks_in(space.all_fresh(0)) == []
