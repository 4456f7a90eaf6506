"""Compares sorting with XLA:CPU bit for bit, including the order of equal elements."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ligerdiag.replay.ops import sorting as sort_order
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text

NAN, INF = float("nan"), float("inf")
EDGES = np.array([3, NAN, -0.0, 0.0, -INF, 1e-30, INF, -NAN, 0.0, -0.0, -2, 3], np.float32)


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Returns few distinct values, so that there are ties."""
    values = np.random.default_rng(seed).integers(0 if dtype.startswith("u") else -5, 6, shape)
    return np.asarray(jnp.asarray(values).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sorting_and_its_permutation_are_as_in_xla(dtype: str, axis: int) -> None:
    x = draw((4, 7, 5), dtype)
    compare_with_xla_cpu(lambda x: (jnp.sort(x, axis=axis), jnp.argsort(x, axis=axis)), x)
    compare_with_xla_cpu(lambda x: jnp.argsort(x, axis=axis, descending=True), x)


def test_zeros_of_either_sign_are_equal_and_nan_comes_last() -> None:
    # JAX's comparator takes both zeros and all NaN as one; XLA:CPU, told so, keeps their order
    compare_with_xla_cpu(lambda x: jnp.argsort(x, stable=True), EDGES)
    compare_with_xla_cpu(lambda x: jnp.argsort(x, stable=True, descending=True), EDGES)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 16, 33, 1000])
def test_several_keys_sort_by_the_first_that_differs(length: int) -> None:
    keys = [draw((3, length), "int32", seed) for seed in range(2)]
    payload = np.arange(3 * length, dtype=np.float32).reshape(3, length)
    compare_with_xla_cpu(lambda a, b, c: lax.sort((a, b, c), num_keys=2), *keys, payload)


COMPARATOR = """HloModule m
f {{ a = f32[] parameter(0)
b = f32[] parameter(1)
c = s32[] parameter(2)
d = s32[] parameter(3)
{comparator} }}
ENTRY e {{ x = f32[2,{n}] parameter(0)
y = s32[2,{n}] parameter(1)
ROOT r = (f32[2,{n}], s32[2,{n}]) sort(x, y), dimensions={{1}}, is_stable=true, to_apply=f }}"""
BY_SECOND = "ROOT r = pred[] compare(c, d), direction=LT"
BY_MAGNITUDE = "g = f32[] abs(a)\nh = f32[] abs(b)\nROOT r = pred[] compare(g, h), direction=GT"
NEVER = "ROOT r = pred[] constant(false)"
TOTAL = "ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER"
TOTAL_DESCENDING = "ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER"


@pytest.mark.parametrize("comparator", [BY_SECOND, BY_MAGNITUDE, NEVER, TOTAL, TOTAL_DESCENDING])
@pytest.mark.parametrize("n", [1, 2, 5, 12, 31, 100])
def test_any_comparator_gives_xla_s_order(comparator: str, n: int) -> None:
    y = draw((2, n), "int32")
    x = draw((2, n), "float32", seed=1) if n != 12 else np.stack([EDGES, EDGES[::-1]])
    if n == 12 and comparator == BY_MAGNITUDE:
        x = np.nan_to_num(x)  # by magnitude, NaN has no place
    compare_text_with_xla_cpu(COMPARATOR.format(comparator=comparator, n=n), x, y)


def test_merging_gives_the_same_as_a_confirmed_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = draw((2, 100), "float32"), draw((2, 100), "int32")
    module = parse_text(COMPARATOR.format(comparator=TOTAL, n=100))
    guessed = evaluate_module(module, (x, y))
    monkeypatch.setattr(sort_order, "_guess", lambda rows: [])
    for found, expected in zip(evaluate_module(module, (x, y)), guessed, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_common_orders_are_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_order, "_merge_sort", None)
    test_several_keys_sort_by_the_first_that_differs(33)
    test_zeros_of_either_sign_are_equal_and_nan_comes_last()
    test_any_comparator_gives_xla_s_order(TOTAL_DESCENDING, 12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_top_k_takes_the_first_of_equals(dtype: str) -> None:
    compare_with_xla_cpu(lambda x: lax.top_k(x, 6), draw((5, 20), dtype))


def test_top_k_of_edge_values_is_as_in_xla() -> None:
    compare_with_xla_cpu(lambda x: lax.top_k(x, 12), EDGES)


TOPK = """HloModule m
ENTRY e {{ x = f32[3,9] parameter(0)
ROOT r = (f32[3,4], s32[3,4]) topk(x), k=4, largest={largest} }}"""


@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk_can_return_the_smallest(largest: str) -> None:
    x = draw((3, 9), "float32")
    values, positions = evaluate_module(parse_text(TOPK.format(largest=largest)), (x,))
    order = np.argsort(-x if largest == "true" else x, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
