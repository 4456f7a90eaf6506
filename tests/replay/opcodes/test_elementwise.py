"""Compares arithmetic with XLA:CPU, including edge values."""

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.replay.opcodes.edge_values import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NARROW,
    PRED,
    SIGNED,
    build_edge_values,
    build_pairs,
    get_rtol,
)
from tests.replay.xla_cpu import (
    compare_text_with_xla_cpu,
    compare_with_xla_cpu,
    evaluate_module,
    lower_to_module,
    parse_text,
)

ROUNDINGS = {
    "round_half_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_half_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
}
REAL = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "exp", "expm1"),
    *("floor", "log", "log1p", "logistic", "neg", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh"),
    *ROUNDINGS,
)
COMPLEX_TOO = (
    *("abs", "neg", "exp", "log", "sin", "cos", "tan", "tanh", "sqrt", "rsqrt", "sign", "logistic", "expm1", "log1p"),
)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", REAL)
def test_a_function_of_floats_equals_xla_s(name: str, dtype: Any) -> None:
    compare_with_xla_cpu(
        ROUNDINGS.get(name) or getattr(lax, name), build_edge_values(dtype), rtol=get_rtol(dtype), x64=True
    )


@pytest.mark.parametrize(
    "name",
    ["abs", "neg", "exp", "log", "sin", "cos", "tan", "tanh", "sqrt", "rsqrt", "sign", "logistic", "expm1", "log1p"],
)
def test_a_function_of_complex_numbers_equals_xla_s(name: str) -> None:
    compare_with_xla_cpu(
        getattr(lax, name), build_edge_values(COMPLEX), rtol=2e-5
    )  # cancellation inside XLA's own implementation


def test_the_sign_of_a_complex_zero_is_zero() -> None:
    compare_with_xla_cpu(lax.sign, np.array([0, 3 - 4j, -2j], np.complex64), rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "rem", "pow", "atan2"])
def test_arithmetic_of_floats_equals_xla_s(name: str, dtype: Any) -> None:
    compare_with_xla_cpu(getattr(lax, name), *build_pairs(dtype), rtol=get_rtol(dtype), x64=True)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_of_complex_numbers_equals_xla_s(name: str) -> None:
    compare_with_xla_cpu(getattr(lax, name), *build_pairs(COMPLEX), rtol=1e-6, by_norm=True)  # sums cancel


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "rem", "mulhi"])
def test_integer_arithmetic_wraps_and_divides_like_xla_s(name: str, dtype: Any) -> None:
    compare_with_xla_cpu(getattr(lax, name), *build_pairs(dtype), x64=True)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=4, max_size=4))
def test_division_of_any_integers_equals_xla_s(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs, np.int64).T

    def divide(a: Any, b: Any) -> Any:
        return lax.div(a, b), lax.rem(a, b), lax.mulhi(a, b), lax.div(a, b & 7), lax.rem(a, b & 7)

    compare_with_xla_cpu(divide, left, right, x64=True)


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_abs_sign_and_negation_of_integers_wrap(dtype: Any) -> None:
    compare_with_xla_cpu(lambda x: (lax.abs(x), lax.sign(x), lax.neg(x)), build_edge_values(dtype), x64=True)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_powers_wrap_and_truncate_negative_exponents(dtype: Any) -> None:
    name = f"{'s' if dtype.kind == 'i' else 'u'}{8 * dtype.itemsize}"
    left, right = build_pairs(dtype)
    rows = len(left)
    text = f"""HloModule m
    ENTRY e {{
      a = {name}[{rows},{rows}] parameter(0)
      b = {name}[{rows},{rows}] parameter(1)
      ROOT r = {name}[{rows},{rows}] power(a, b)
    }}"""
    compare_text_with_xla_cpu(text, left, right)


def test_predicates_add_to_or_and_multiply_to_and() -> None:
    left, right = build_pairs(PRED)
    text = """HloModule m
    ENTRY e {
      a = pred[2,2] parameter(0)
      b = pred[2,2] parameter(1)
      s = pred[2,2] add(a, b)
      p = pred[2,2] multiply(a, b)
      ROOT r = (pred[2,2], pred[2,2]) tuple(s, p)
    }"""
    compare_text_with_xla_cpu(text, left, right)


def test_complex_numbers_are_built_and_split_without_arithmetic() -> None:
    parts = np.array([0.0, -0.0, np.inf, np.nan, 2.0], np.float32)
    real, imaginary = [m.copy() for m in np.broadcast_arrays(parts[:, None], parts)]
    compare_with_xla_cpu(lax.complex, real, imaginary)
    compare_with_xla_cpu(lambda x: (lax.real(x), lax.imag(x)), build_edge_values(COMPLEX))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_floats_round_once_at_the_end_of_an_operation(dtype: Any) -> None:
    left, right = build_pairs(dtype)
    sums = np.asarray(evaluate_module(lower_to_module(lax.add, left, right), [left, right]))
    with np.errstate(all="ignore"):
        wide = left.astype(np.float64) + right.astype(np.float64)  # exact
        np.testing.assert_array_equal(sums.astype(np.float64), wide.astype(np.float32).astype(dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_subnormal_numbers_are_kept(dtype: Any) -> None:
    smallest = np.array([float(ml_dtypes.finfo(dtype).tiny)]).astype(dtype)
    with jax.enable_x64(True):
        module = lower_to_module(lambda x: x * 0.5, smallest)
    half = np.asarray(evaluate_module(module, [smallest]))
    assert half.astype(np.float64) == smallest.astype(np.float64) / 2


UNARY_IN_HLO = ["acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "tan", "erf", "cbrt", "logistic"]


@pytest.mark.parametrize("opcode", UNARY_IN_HLO)
def test_functions_that_are_hlo_opcodes_equal_numpy_s(opcode: str) -> None:
    text = f"""HloModule m
    ENTRY e {{
      a = f64[5] parameter(0)
      ROOT r = f64[5] {opcode}(a)
    }}"""
    values = np.array([0.25, 0.5, 0.75, 0.9, -0.3])
    if opcode == "acosh":
        values = np.abs(values) + 1
    expected = getattr(lax, opcode)
    found = evaluate_module(parse_text(text), [values])
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected(values)), rtol=1e-6)  # expected is f32


def test_a_computation_of_scalars_takes_arrays_element_by_element() -> None:
    module = lower_to_module(lambda a, b: lax.max(a * 2.0 + b, lax.exp(b)) // 3.0, np.float32(1), np.float32(2))
    left, right = np.linspace(-3, 3, 12, dtype=np.float32).reshape(2, 1, 3, 2, 1)[:, 0, :, :, 0], np.float32(1.5)
    lifted = np.asarray(evaluate_module(module, [left, right]))
    one_by_one = [np.asarray(evaluate_module(module, [x, right])) for x in left.ravel()]
    assert lifted.dtype == np.float32
    np.testing.assert_array_equal(lifted, np.array(one_by_one).reshape(left.shape))
