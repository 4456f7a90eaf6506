"""Compares operations on numbers, masks and runs of bytes with the same operations done element by element."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ligerdiag.effects.launches.byte_runs import (
    ByteRuns,
    concatenate,
    contains,
    covers,
    intersect,
    is_disjoint,
    make_runs,
    merge,
)
from ligerdiag.effects.launches.index_arithmetic import BINARY, compute_binary, convert
from ligerdiag.effects.launches.index_masks import (
    COMPARISONS,
    broadcast,
    compare,
    expand_dims,
    reshape,
    select,
    splat,
    transpose,
)
from ligerdiag.effects.launches.index_values import (
    Budget,
    Dense,
    Linear,
    MaskBox,
    TooLargeError,
    TooManyElementsError,
    Unknown,
    choose,
    make_dense,
    make_range,
    make_scalar,
    make_splat,
)

PROGRAMS = 3
SMALL = st.integers(-9, 9)


def make_budget() -> Budget:
    return Budget(elements=10**7, operations=10**5, array=10**5)


def spread(value: Any) -> np.ndarray:
    """Returns every element of every program."""
    data = make_dense(value, make_budget()).data
    return np.broadcast_to(data, (PROGRAMS, *value.shape))


@st.composite
def numbers(draw: Any, shape: tuple[int, ...] = (4, 3)) -> Linear | Dense:
    per_program = st.lists(SMALL, min_size=PROGRAMS, max_size=PROGRAMS)
    base = np.array(draw(st.one_of(per_program, st.lists(SMALL, min_size=1, max_size=1))), np.int64)
    if draw(st.booleans()):
        data = np.array(draw(st.lists(SMALL, min_size=12, max_size=12)), np.int64).reshape(1, *shape)
        return Dense(data=data + base.reshape(-1, 1, 1), shape=shape)
    steps = tuple(
        None
        if draw(st.booleans())
        else np.array([draw(SMALL.filter(bool)) for _ in range(draw(st.sampled_from((1, PROGRAMS))))])
        for _ in shape
    )
    return Linear(base=base, steps=steps, shape=shape)


def wrap_to(values: Any, bits: int) -> Any:
    return (values.astype(object) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def apply(name: str, a: int, b: int) -> int | None:
    """Applies an operation with MLIR's semantics in Python integers; None if the result is undefined or concerns
    unsigned numbers.
    """
    unsigned = name.endswith("ui")
    if unsigned and min(a, b) < 0:
        return None
    if ("div" in name or "rem" in name) and b == 0:
        return None
    if ".sh" in name and not 0 <= b < 8:
        return None
    match name.split(".")[1]:
        case "addi":
            return a + b
        case "subi":
            return a - b
        case "muli":
            return a * b
        case "divsi" | "divui":
            return int(a / b)
        case "remsi" | "remui":
            return a - int(a / b) * b
        case "ceildivsi":
            return -(-a // b)
        case "floordivsi":
            return a // b
        case "minsi" | "minui":
            return min(a, b)
        case "maxsi" | "maxui":
            return max(a, b)
        case "andi":
            return a & b
        case "ori":
            return a | b
        case "xori":
            return a ^ b
        case "shli":
            return a << b
        case _:
            return a >> b if name == "arith.shrsi" or a >= 0 else None


@pytest.mark.parametrize("name", sorted(BINARY))
@settings(max_examples=30, deadline=None)
@given(left=numbers(), right=numbers())
def test_an_operation_equals_its_elementwise_result(name: str, left: Any, right: Any) -> None:
    found = compute_binary(name, left, right, 8, make_budget())
    if isinstance(found, Unknown):
        values = [apply(name, int(a), int(b)) for a, b in zip(spread(left).flat, spread(right).flat, strict=True)]
        assert None in values, "everything is defined"
        return
    for a, b, c in zip(spread(left).flat, spread(right).flat, spread(found).flat, strict=True):
        value = apply(name, int(a), int(b))
        assert value is not None
        assert (value + 128) % 256 - 128 == c


@pytest.mark.parametrize("predicate", sorted(COMPARISONS))
@settings(max_examples=30, deadline=None)
@given(left=numbers(), right=numbers())
def test_a_comparison_equals_its_elementwise_result(predicate: str, left: Any, right: Any) -> None:
    found = compare(predicate, left, right, make_budget())
    a, b = spread(left), spread(right)
    if isinstance(found, Unknown):
        assert predicate[0] == "u"
        return
    if predicate[0] == "u":
        predicate = "s" + predicate[1:]
    expected = {"eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b}[predicate]
    np.testing.assert_array_equal(spread(found), expected)


@settings(max_examples=50, deadline=None)
@given(one=numbers(), other=numbers(), third=numbers(), fourth=numbers(), name=st.sampled_from(("andi", "ori", "xori")))
def test_masks_combine_element_by_element(one: Any, other: Any, third: Any, fourth: Any, name: str) -> None:
    budget = make_budget()
    a, b = compare("slt", one, other, budget), compare("sge", third, fourth, budget)
    found = compute_binary(f"arith.{name}", a, b, 1, budget)
    operation = {"andi": np.logical_and, "ori": np.logical_or, "xori": np.logical_xor}[name]
    np.testing.assert_array_equal(spread(found), operation(spread(a), spread(b)))
    chosen = select(a, one, third, budget)
    np.testing.assert_array_equal(spread(chosen), np.where(spread(a), spread(one), spread(third)))


@settings(max_examples=30, deadline=None)
@given(value=numbers(), taken=st.lists(st.booleans(), min_size=PROGRAMS, max_size=PROGRAMS), old=numbers())
def test_each_program_keeps_its_own_value(value: Any, taken: list[bool], old: Any) -> None:
    gate = np.array(taken)
    found = choose(gate, value, old, make_budget())
    expected = np.where(gate[:, None, None], spread(value), spread(old))
    np.testing.assert_array_equal(spread(found), expected)


@settings(max_examples=40, deadline=None)
@given(value=numbers(), other=numbers())
def test_shapes_change_as_in_numpy(value: Any, other: Any) -> None:
    budget = make_budget()
    for item in (value, compare("slt", value, other, budget)):
        full = spread(item)
        np.testing.assert_array_equal(spread(transpose(item, (1, 0))), full.transpose(0, 2, 1))
        np.testing.assert_array_equal(spread(reshape(item, (2, 6), budget)), full.reshape(PROGRAMS, 2, 6))
        grown = broadcast(expand_dims(item, 1), (4, 5, 3))
        np.testing.assert_array_equal(spread(grown), np.broadcast_to(full[:, :, None, :], (PROGRAMS, 4, 5, 3)))


def test_integer_overflow_wraps_around() -> None:
    budget = make_budget()
    top = make_splat(2**31 - 1, (4,))
    total = compute_binary("arith.addi", top, make_range(0, 4), 32, budget)
    np.testing.assert_array_equal(spread(total)[0], [2**31 - 1, -(2**31), -(2**31) + 1, -(2**31) + 2])
    wide = convert(total, "arith.extsi", 32, 64, budget)
    np.testing.assert_array_equal(spread(wide), spread(total))
    assert isinstance(convert(total, "arith.extui", 32, 64, budget), Unknown)
    assert isinstance(compute_binary("arith.muli", make_scalar(2**40), make_scalar(2**40), 64, budget), Unknown)


def test_only_active_programs_can_make_a_result_undefined() -> None:
    zero_in_the_last = make_scalar(np.array([2, 3, 0]))
    ten = make_scalar(10)
    assert isinstance(compute_binary("arith.divsi", ten, zero_in_the_last, 32, make_budget()), Unknown)
    active = np.array([True, True, False])
    found = compute_binary("arith.divsi", ten, zero_in_the_last, 32, make_budget(), active)
    assert spread(found)[:2].tolist() == [5, 3]


def test_the_budget_ends() -> None:
    with pytest.raises(TooManyElementsError):
        make_dense(make_range(0, 101), Budget(elements=10**6, operations=10, array=100))
    budget = Budget(elements=250, operations=10, array=100)
    budget.spend(100)
    budget.spend(100)
    with pytest.raises(TooLargeError):
        budget.spend(100)


def bytes_of(runs: ByteRuns) -> set[tuple[int, int]]:
    return {
        (int(program), byte)
        for program, start, stop in zip(runs.program, runs.start, runs.stop, strict=True)
        for byte in range(start, stop)
    }


@settings(max_examples=150, deadline=None)
@given(offset=numbers(), one=numbers(), other=numbers(), width=st.sampled_from((1, 2, 4)), kind=st.sampled_from("nbdu"))
def test_runs_are_the_bytes_of_the_elements(offset: Any, one: Any, other: Any, width: int, kind: str) -> None:
    budget = make_budget()
    mask: Any = {
        "n": None,
        "b": MaskBox(
            gate=np.array([True, False, True]),
            intervals=((np.array([1]), np.array([3, 4, 2])), None),
            shape=(4, 3),
        ),
        "d": compare("slt", one, other, budget),
        "u": Unknown(),
    }[kind]
    active = np.array([True, True, False])
    runs = make_runs(offset, width, mask, active, budget)
    places = spread(offset)
    truth = spread(mask) if isinstance(mask, MaskBox | Dense) else np.ones_like(places, bool)
    expected = {
        (program, int(place) + byte)
        for program in range(2)
        for place, here in zip(places[program].flat, truth[program].flat, strict=True)
        if here
        for byte in range(width)
    }
    assert bytes_of(runs) == expected


def make_some(items: list[tuple[int, int, int]]) -> ByteRuns:
    array = np.array(items, np.int64).reshape(-1, 3)
    return ByteRuns(program=array[:, 0], start=array[:, 1], stop=array[:, 1] + array[:, 2])


SOME = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 5)), max_size=8).map(make_some)


@settings(max_examples=300, deadline=None)
@given(one=SOME, other=SOME)
def test_byte_runs_behave_like_sets_of_bytes(one: ByteRuns, other: ByteRuns) -> None:
    budget = make_budget()
    a, b = bytes_of(one), bytes_of(other)
    merged = merge(one, budget)
    assert bytes_of(merged) == a
    assert (
        len(
            set(zip(merged.program.tolist(), merged.stop.tolist(), strict=True))
            & set(zip(merged.program.tolist(), merged.start.tolist(), strict=True))
        )
        == 0
    ), "runs that touch are one"
    assert bytes_of(concatenate([one, other])) == a | b
    assert bytes_of(intersect(merged, merge(other, budget), budget)) == a & b
    assert contains(merged, other) == (b <= a)
    assert bytes_of(one.clip(3, 9)) == {(program, byte) for program, byte in a if 3 <= byte < 9}
    flat = merge(one.clip(0, 7), budget, by_program=False)
    assert covers(flat, 7) == ({byte for _, byte in a} >= set(range(7)))
    clash = any(p != q and x == y for p, x in a for q, y in a | b)
    assert is_disjoint(one, other, budget) == (not clash)


def test_a_scalar_fills_a_tensor() -> None:
    value = splat(make_scalar(np.array([1, 2, 3])), (2, 2))
    np.testing.assert_array_equal(spread(value)[:, 1, 1], [1, 2, 3])
