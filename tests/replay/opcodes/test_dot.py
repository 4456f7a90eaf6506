"""Compares products with XLA:CPU.

Both sum `k` products in f32, in different orders: the error of an element is a few ulp times sqrt(k), relative to the
largest element, because sums may cancel.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from ligerdiag.replay.ops import products as dot
from tests.replay.xla_cpu import compare_with_xla_cpu, evaluate_module, lower_to_module


def draw_array(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    generator = np.random.default_rng(seed)
    if dtype in ("int8", "uint8", "int32", "uint32"):
        limits = np.iinfo(dtype)
        return jnp.asarray(generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    if dtype == "bool":
        return jnp.asarray(generator.integers(0, 2, shape).astype(bool))
    if dtype == "complex64":
        values = generator.normal(size=shape) + 1j * generator.normal(size=shape)
        return jnp.asarray(values.astype(dtype))
    return jnp.asarray(generator.normal(size=shape).astype("float32")).astype(dtype)


def tolerance(k: int, dtype: str) -> float:
    """Returns 4 ulp times sqrt(k); for a narrow result one ulp of its own, since a sum near a tie may round either way."""
    return {"bfloat16": 2**-7, "float16": 2**-10}.get(dtype, 4 * 2**-23 * math.sqrt(max(k, 1)))


@st.composite
def draw_products(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Draws two shapes and dimension numbers with batch and contracting dimensions anywhere."""
    sizes = st.integers(0, 4)
    batch, contracted = draw(st.lists(sizes, max_size=2)), draw(st.lists(sizes, max_size=2))
    shapes: list[tuple[int, ...]] = []
    positions: list[tuple[list[int], list[int]]] = []
    for _ in range(2):
        kept = draw(st.lists(sizes, max_size=2))
        roles = [("b", i) for i in range(len(batch))] + [("c", i) for i in range(len(contracted))]
        roles += [("k", i) for i in range(len(kept))]
        roles = draw(st.permutations(roles))
        lengths = {"b": batch, "c": contracted, "k": kept}
        shapes.append(tuple(lengths[kind][i] for kind, i in roles))
        positions.append(
            (
                [roles.index(("b", i)) for i in range(len(batch))],
                [roles.index(("c", i)) for i in range(len(contracted))],
            )
        )
    (lhs_batch, lhs_contracted), (rhs_batch, rhs_contracted) = positions
    return shapes[0], shapes[1], ((lhs_contracted, rhs_contracted), (lhs_batch, rhs_batch))


@settings(max_examples=40, deadline=None)
@given(draw_products(), st.sampled_from(["float32", "bfloat16", "int8", "int32"]))
def test_any_dimension_numbers_give_xla_s_result(product: Any, dtype: str) -> None:
    lhs, rhs, numbers = product
    k = math.prod(lhs[d] for d in numbers[0][0])
    compare_with_xla_cpu(
        lambda a, b: lax.dot_general(a, b, numbers),
        draw_array(0, lhs, dtype),
        draw_array(1, rhs, dtype),
        rtol=tolerance(k, dtype),
        by_norm=True,
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ("bfloat16", "bfloat16", "float32"),
        ("float16", "float16", "float16"),
        ("bfloat16", "float32", "float32"),
        ("float8_e4m3fn", "float8_e4m3fn", "float32"),
        ("int8", "int8", "int32"),
        ("uint8", "uint8", "uint32"),
        ("int32", "int32", "int32"),
        ("uint32", "uint32", "uint32"),
        ("complex64", "complex64", "complex64"),
    ],
)
def test_operand_and_result_dtypes_may_differ(lhs: str, rhs: str, result: str) -> None:
    compare_with_xla_cpu(
        lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.dtype(result)),
        draw_array(0, (5, 33), lhs),
        draw_array(1, (33, 7), rhs),
        rtol=tolerance(33, result),
        by_norm=True,
    )


def test_a_product_in_f64_is_not_rounded_to_f32_on_its_way() -> None:
    a, b = (np.random.default_rng(s).normal(size=(6, 6)) for s in range(2))
    compare_with_xla_cpu(lambda a, b: a @ b, a, b, x64=True, rtol=1e-15, by_norm=True)


def test_integers_wrap_around_as_in_xla() -> None:
    a = np.full((3, 40), 2**30, np.int32)
    b = np.full((40, 3), 7, np.int32)
    compare_with_xla_cpu(lambda a, b: a @ b, a, b)


def test_a_product_of_predicates_is_an_or_of_ands() -> None:
    a, b = np.asarray(draw_array(0, (1, 4, 5), "bool")), np.asarray(draw_array(1, (1, 5, 6), "bool"))
    found = dot._multiply_integers(a, b, np.dtype(np.bool_))
    np.testing.assert_array_equal(found[0], (a[0].astype(int) @ b[0].astype(int)) > 0)


def test_the_same_product_written_with_other_dimension_orders_has_the_same_bits() -> None:
    a, b = draw_array(0, (37, 130), "float32"), draw_array(1, (130, 41), "float32")

    def evaluate(function: Any, *arguments: Any) -> Any:
        return np.asarray(evaluate_module(lower_to_module(function, *arguments), arguments))

    plain = evaluate(lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ()))), a, b)
    left = evaluate(lambda a, b: lax.dot_general(a, b, (((0,), (0,)), ((), ()))), a.T, b)
    right = evaluate(lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((), ()))), a, b.T)
    np.testing.assert_array_equal(plain, left)
    np.testing.assert_array_equal(plain, right)


def test_a_large_transposed_operand_is_not_copied_and_has_the_same_bits() -> None:
    a, b = draw_array(0, (64, 300), "float32"), np.asarray(draw_array(1, (500, 300), "float32"))
    numbers = (((1,), (1,)), ((), ()))
    module = lower_to_module(lambda a, b: lax.dot_general(a, b, numbers), a, b)
    copied = np.asarray(evaluate_module(module, (a, b)))
    laid_out = dot._lay_out(b.T[None], np.dtype(np.float32), transposed=True)
    assert np.shares_memory(laid_out, b)
    np.testing.assert_array_equal(np.asarray(evaluate_module(module, (a, b))), copied)


def test_a_narrow_product_is_rounded_once() -> None:
    # 1 + 256 * 2**-9 is 1.5; in bf16 after each addition it would stay 1
    a = jnp.concatenate([jnp.ones((1, 1)), jnp.full((1, 256), 2.0**-9)], axis=1).astype(jnp.bfloat16)
    b = jnp.ones((257, 1), jnp.bfloat16)
    found = evaluate_module(lower_to_module(lambda a, b: a @ b, a, b), (a, b))
    assert float(np.asarray(found)[0, 0]) == 1.5
