"""Compares conversions with XLA:CPU, bit for bit."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from ligerdiag.replay.ops.dtypes import reduce_precision
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.opcodes.edge_values import COMPLEX, FLOATS, INTEGERS, PRED, build_edge_values
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text

ALL = [*FLOATS, *INTEGERS, PRED]
OTHER_F8 = [
    np.dtype(t)
    for t in (
        *(ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz),
        *(ml_dtypes.float8_e4m3, ml_dtypes.float8_e3m4),
    )
]


def _build_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns edge values, then bits from the whole range of the dtype, without subnormals."""
    values = build_edge_values(dtype)
    if dtype == PRED or dtype.kind == "c":
        return values
    words = np.random.default_rng(0).integers(0, 256, 2000 * dtype.itemsize, np.uint8)
    many = words.view(dtype)
    if dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            many = many[~(np.abs(many.astype(np.float64)) < float(ml_dtypes.finfo(dtype).tiny))]
            near = np.random.default_rng(1).normal(0, 300, 500).astype(dtype)
        return np.concatenate([values, many, near])
    return np.concatenate([values, many])


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_a_conversion_equals_xla_s(source: Any, target: Any) -> None:
    values = _build_values(source)
    if target.name in ("float32", "bfloat16"):  # subnormal results, which XLA:CPU flushes
        with np.errstate(all="ignore"):
            values = values[~(np.abs(values.astype(np.float64)) < 2.0**-125) | (values == 0)]
    compare_with_xla_cpu(lambda x: lax.convert_element_type(x, target), values, x64=True)


@pytest.mark.parametrize("source", ["f32", "f64", "bf16", "s32", "u8"])
def test_every_value_except_zero_is_true_even_nan(source: str) -> None:
    names = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "s32": "int32", "u8": "uint8"}
    values = build_edge_values(np.dtype(getattr(ml_dtypes, names[source], names[source])))
    text = f"""HloModule m
    ENTRY e {{
      a = {source}[{len(values)}] parameter(0)
      ROOT r = pred[{len(values)}] convert(a)
    }}"""
    compare_text_with_xla_cpu(text, values)


@pytest.mark.parametrize("target", OTHER_F8, ids=str)
def test_other_eight_bit_floats_convert_both_ways(target: Any) -> None:
    values = _build_values(np.dtype(np.float32))
    values = values[~(np.abs(values) < 2.0**-20)]

    def there_and_back(x: Any) -> Any:
        return lax.convert_element_type(x, target), lax.convert_element_type(lax.reduce_precision(x, 8, 23), target)

    compare_with_xla_cpu(there_and_back, values)
    every = np.arange(256, dtype=np.uint8).view(target)
    compare_with_xla_cpu(lambda x: lax.convert_element_type(x, jnp.float32), every)


def test_complex_numbers_keep_their_real_part_and_reals_get_an_imaginary_zero() -> None:
    values = build_edge_values(COMPLEX)
    compare_with_xla_cpu(lambda x: lax.real(x) + 0, values)
    compare_with_xla_cpu(lambda x: lax.convert_element_type(x, jnp.complex64), values.real.copy())
    text = """HloModule m
    ENTRY e {
      a = c64[2] parameter(0)
      ROOT r = f32[2] convert(a)
    }"""
    found = evaluate_module(parse_text(text), [np.array([1 + 2j, -3 + 4j], np.complex64)])
    np.testing.assert_array_equal(np.asarray(found), np.array([1, -3], np.float32))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *[(a, b) for a in ALL for b in ALL if a.itemsize == b.itemsize and PRED not in (a, b)],
        *[("uint32", "uint8"), ("float32", "int16"), ("float64", "uint32"), ("int64", "bfloat16")],
        *[("uint8", "uint32"), ("bfloat16", "float32"), ("uint32", "float64"), ("uint8", "float8_e5m2")],
    ],
    ids=str,
)
def test_bits_are_read_as_another_type(source: Any, target: Any) -> None:
    source = np.dtype(getattr(ml_dtypes, str(source), source))
    target = np.dtype(getattr(ml_dtypes, str(target), target))
    ratio = max(1, target.itemsize // source.itemsize)
    shape = (3, 5, ratio) if ratio > 1 else (3, 5)
    count = int(np.prod(shape)) * source.itemsize
    words = np.random.default_rng(2).integers(0, 256, count, np.uint8)
    words[words % 128 == 127] = 0  # no NaN, whose payload is unspecified
    values = words.view(source).reshape(shape)
    compare_with_xla_cpu(lambda x: lax.bitcast_convert_type(x, target), values, x64=True)


@pytest.mark.parametrize(
    ("exponent", "mantissa"), [(8, 7), (5, 10), (8, 23), (5, 2), (4, 3), (8, 10), (2, 5), (11, 52)]
)
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize > 1], ids=str)
def test_precision_is_reduced_as_xla_reduces_it(dtype: Any, exponent: int, mantissa: int) -> None:
    values = _build_values(dtype)
    compare_with_xla_cpu(lambda x: lax.reduce_precision(x, exponent, mantissa), values, x64=True)


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_subnormal=False))
def test_reducing_to_bfloat16_is_a_conversion_there_and_back(number: float) -> None:
    array = np.array([number], np.float32)
    with np.errstate(all="ignore"):
        expected = array.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(reduce_precision(array, 23, 8, 7), expected)


def test_subnormal_numbers_survive_a_conversion() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[] parameter(0)
      ROOT r = bf16[] convert(a)
    }"""
    found = evaluate_module(parse_text(text), [np.float32(2**-130)])
    assert np.asarray(found).astype(np.float64) == 2.0**-130


def test_stochastic_convert_is_not_covered() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[2] parameter(0)
      b = u32[2] parameter(1)
      ROOT r = s8[2] stochastic-convert(a, b)
    }"""
    with pytest.raises(NotCoveredError, match="stochastic-convert"):
        evaluate_module(parse_text(text), [np.zeros(2, np.float32), np.zeros(2, np.uint32)])
