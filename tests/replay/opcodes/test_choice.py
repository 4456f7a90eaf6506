"""Compares comparisons and choices with XLA:CPU."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jax import lax

from ligerdiag.errors import ArtifactError
from tests.replay.opcodes.edge_values import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    PRED,
    WIDE_FLOATS,
    build_edge_values,
    build_pairs,
)
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text

XLA_NAMES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, PRED], ids=str)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_of_numbers_equal_xla_s(name: str, dtype: Any) -> None:
    compare_with_xla_cpu(getattr(lax, name), *build_pairs(dtype), x64=True)


@pytest.mark.parametrize("name", ["eq", "ne"])
def test_complex_numbers_are_equal_in_both_parts(name: str) -> None:
    compare_with_xla_cpu(getattr(lax, name), *build_pairs(COMPLEX))


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("dtype", XLA_NAMES)
def test_the_total_order_places_nan_and_negative_zero(dtype: str, direction: str) -> None:
    values = build_edge_values(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    values = np.concatenate([values, -values])  # with the negative NaN
    left, right = [m.copy() for m in np.broadcast_arrays(values[:, None], values)]
    shape = f"[{len(values)},{len(values)}]"
    name = XLA_NAMES[dtype] + shape
    text = f"""HloModule m
    ENTRY e {{
      a = {name} parameter(0)
      b = {name} parameter(1)
      ROOT r = pred{shape} compare(a, b), direction={direction}, type=TOTALORDER
    }}"""
    compare_text_with_xla_cpu(text, left, right)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, PRED], ids=str)
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_larger_and_the_smaller_of_two_numbers_equal_xla_s(name: str, dtype: Any) -> None:
    left, right = build_pairs(dtype)
    if dtype.kind not in "biu":  # either of two zeros may come out
        left, right = left + dtype.type(0), right + dtype.type(0)
    compare_with_xla_cpu(getattr(lax, name), left, right, x64=True)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_clamp_takes_scalar_bounds_and_arrays_and_propagates_nan(dtype: Any) -> None:
    values = build_edge_values(dtype)
    values = values + dtype.type(0)  # no negative zero
    low, high = dtype.type(1), dtype.type(2)
    compare_with_xla_cpu(lambda x, a, b: lax.clamp(a, x, b), values, low, high, x64=True)
    compare_with_xla_cpu(lambda x, a, b: lax.clamp(a, x, b), values, values[::-1].copy(), values, x64=True)
    compare_with_xla_cpu(lambda x, a, b: lax.clamp(a, x, b), values, high, low, x64=True)


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_clamp_to_nan_is_nan(dtype: Any) -> None:
    values, nan, one = build_edge_values(dtype), dtype.type(np.nan), dtype.type(1)
    compare_with_xla_cpu(lambda x, a, b: (lax.clamp(a, x, b), lax.clamp(b, x, a)), values, nan, one, x64=True)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, PRED, COMPLEX], ids=str)
def test_select_takes_a_predicate_for_each_element_or_one_for_all(dtype: Any) -> None:
    left, right = build_pairs(dtype)
    mask = np.arange(left.size).reshape(left.shape) % 3 == 0
    compare_with_xla_cpu(lax.select, mask, left, right, x64=True)
    for one in (True, False):
        compare_with_xla_cpu(lax.select, np.array(one), left, right, x64=True)


@pytest.mark.parametrize("predicate", [True, False])
def test_select_of_scalars_takes_one_predicate_and_arrays(predicate: bool) -> None:
    text = """HloModule m
    ENTRY e {
      p = pred[] parameter(0)
      a = f32[] parameter(1)
      b = f32[] parameter(2)
      ROOT r = f32[] select(p, a, b)
    }"""
    one, two = np.float32(1), np.float32(2)
    compare_text_with_xla_cpu(text, np.array(predicate), one, two)
    many = np.arange(6, dtype=np.float32).reshape(2, 3)
    for left, right in [(many, -many), (many, two), (two, many)]:
        found = evaluate_module(parse_text(text), [np.array(predicate), left, right])
        expected = np.broadcast_to(left if predicate else right, many.shape)
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinities_and_nan_are_not_finite(dtype: Any) -> None:
    compare_with_xla_cpu(lax.is_finite, build_edge_values(dtype), x64=True)


def test_an_unknown_direction_is_an_artifact_error() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[] parameter(0)
      ROOT r = pred[] compare(a, a), direction=LT
    }"""
    module = parse_text(text)
    module.entry.root.proto.comparison_direction = "SIDEWAYS"
    with pytest.raises(ArtifactError, match="SIDEWAYS"):
        evaluate_module(module, [np.float32(1)])
