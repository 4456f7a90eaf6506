"""Compares folds with XLA:CPU."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ligerdiag.replay.ops import reductions as reduction
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, lower_to_module

NAN, INF = float("nan"), float("inf")


def draw(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return generator.integers(-100 if np.dtype(dtype).kind == "i" else 0, 100, shape, dtype=dtype)
    return np.asarray(jnp.asarray(generator.normal(size=shape).astype("float32")).astype(dtype))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_sums_over_any_dimensions_give_xla_s_result(axes: tuple[int, ...], dtype: str) -> None:
    # XLA:CPU adds up to 210 elements in f32, one after the other: some ulp of the largest partial sum
    x = draw((6, 5, 7), dtype)
    compare_with_xla_cpu(lambda x: lax.reduce(x, np.dtype(dtype).type(3), lax.add, axes), x, rtol=1e-5, by_norm=True)


@pytest.mark.parametrize("combine", [lax.max, lax.min])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_maxima_and_minima_are_exact(combine: Any, dtype: str) -> None:
    x = draw((9, 33), dtype)
    compare_with_xla_cpu(lambda x: lax.reduce(x, jnp.zeros((), dtype), combine, (1,)), x)


def test_a_maximum_propagates_nan() -> None:
    x = np.array([[1, NAN, 3], [-INF, -INF, -INF]], np.float32)
    compare_with_xla_cpu(lambda x: jnp.max(x, axis=1), x)


@pytest.mark.parametrize("combine", [lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.mul])
@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_bitwise_folds_are_exact(combine: Any, dtype: str) -> None:
    if dtype == "bool" and combine is lax.mul:
        pytest.skip("JAX multiplies no predicates")
    compare_with_xla_cpu(lambda x: lax.reduce(x, np.dtype(dtype).type(1), combine, (0,)), draw((5, 8), dtype))


@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum"])
def test_predicates_are_added_as_or_and_multiplied_as_and(opcode: str) -> None:
    text = f"""HloModule m
f {{ a = pred[] parameter(0)
b = pred[] parameter(1)
ROOT r = pred[] {opcode}(a, b) }}
ENTRY e {{ x = pred[4,6] parameter(0)
i = pred[] constant({"false" if opcode in ("add", "maximum") else "true"})
ROOT r = pred[4] reduce(x, i), dimensions={{1}}, to_apply=f }}"""
    compare_text_with_xla_cpu(text, np.array([[0] * 6, [1] * 6, [0, 1] * 3, [1, 0, 0, 0, 0, 0]], bool))


def test_a_sum_of_f32_is_rounded_once() -> None:
    x = np.full((1 << 20, 2), 0.1, np.float32)
    found = np.asarray(evaluate_module(lower_to_module(lambda x: jnp.sum(x, axis=0), x), (x,)))
    np.testing.assert_array_equal(found, np.float32(np.float64(np.float32(0.1)) * (1 << 20)))


def test_a_sum_of_bf16_is_rounded_once_whether_or_not_the_reducer_widens() -> None:
    x = jnp.concatenate([jnp.ones(1), jnp.full(256, 2.0**-9)]).astype(jnp.bfloat16)
    module = lower_to_module(lambda x: lax.reduce(x, jnp.zeros((), x.dtype), lax.add, (0,)), x)
    assert float(np.asarray(evaluate_module(module, (x,)))) == 1.5

    def add_wide(a: Any, b: Any) -> Any:
        return (a.astype(jnp.float32) + b.astype(jnp.float32)).astype(jnp.bfloat16)

    module = lower_to_module(lambda x: lax.reduce(x, jnp.zeros((), x.dtype), add_wide, (0,)), x)
    assert float(np.asarray(evaluate_module(module, (x,)))) == 1.5


def test_a_reducer_that_rounds_below_its_operands_precision_is_not_a_plain_sum() -> None:
    def add_narrow(a: Any, b: Any) -> Any:
        return (a.astype(jnp.bfloat16) + b.astype(jnp.bfloat16)).astype(jnp.float32)

    x = np.array([256, 1], np.float32)  # 257 is no bf16; XLA:CPU keeps it all the same, by excess precision
    module = lower_to_module(lambda x: lax.reduce(x, np.float32(0), add_narrow, (0,)), x)
    assert float(np.asarray(evaluate_module(module, (x,)))) == 256


@pytest.mark.parametrize("find", [jnp.argmax, jnp.argmin])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_argmax_takes_the_first_of_equals_and_the_first_nan(find: Any, axis: int | None) -> None:
    x = np.array([[1, 3, 3, -INF, 2], [NAN, 3, 9, NAN, 1], [0.0, -0.0, 0, -0.0, 0], [-INF] * 5], np.float32)
    compare_with_xla_cpu(lambda x: find(x, axis=axis), x)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 1000])
def test_a_reducer_that_does_not_commute_sees_the_elements_in_order(length: int) -> None:
    def compose(first: Any, second: Any) -> Any:  # x -> a x + b, one after the other
        (a, b), (c, d) = first, second
        return a * c, b * c + d

    a, b = draw((length, 3), "int32"), draw((length, 3), "int32", seed=1)
    compare_with_xla_cpu(lambda a, b: lax.reduce((a, b), (np.int32(1), np.int32(0)), compose, (0,)), a, b)


def test_several_sums_in_one_reduce_are_each_a_plain_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "_reduce_by_tree", None)
    x = draw((4, 8))
    compare_with_xla_cpu(
        lambda x: lax.reduce(
            (x, x), (np.float32(0), np.float32(-9)), lambda p, q: (p[0] + q[0], lax.max(p[1], q[1])), (1,)
        ),
        x,
        rtol=1e-6,
        by_norm=True,
    )


def test_a_fold_over_no_elements_is_the_initial_value() -> None:
    x = np.zeros((3, 0), np.float32)
    compare_with_xla_cpu(lambda x: (jnp.sum(x, axis=1), jnp.sum(x, axis=0)), x)
    text = """HloModule m
f { a = f32[] parameter(0)
b = f32[] parameter(1)
c = f32[] abs(a)
ROOT r = f32[] add(c, b) }
ENTRY e { x = f32[3,0] parameter(0)
i = f32[] constant(-2)
ROOT r = f32[3] reduce(x, i), dimensions={1}, to_apply=f }"""
    compare_text_with_xla_cpu(text, x)


def test_a_logarithm_of_a_sum_is_as_in_xla() -> None:
    compare_with_xla_cpu(lambda x: jax.nn.logsumexp(x, axis=1), draw((4, 50)), rtol=1e-6)
