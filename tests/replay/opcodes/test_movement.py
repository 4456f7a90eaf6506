"""Compares data movement with XLA:CPU bit for bit, including subnormals and NaN."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from ligerdiag.errors import ArtifactError
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.opcodes.edge_values import COMPLEX, FLOATS, INTEGERS, PRED
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text

ALL = [*FLOATS, *INTEGERS, PRED, COMPLEX]


def _count(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_is_moved_by_every_opcode(dtype: Any) -> None:
    def move(x: Any) -> Any:
        return (
            lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)),
            lax.reshape(x, (2, 6)),
            lax.transpose(x, (1, 0)),
            lax.slice(x, (0, 1), (3, 4), (2, 1)),
            lax.pad(x, x[0, 1], ((1, -1, 1), (0, 2, 0))),
            lax.concatenate([x, x[:1]], 0),
            lax.concatenate([x[:, 1:], x], 1),
            lax.rev(x, (0, 1)),
        )

    compare_with_xla_cpu(move, _count(3, 4, dtype=dtype), x64=True)


@pytest.mark.parametrize("dtype", [d for d in ALL if d != PRED], ids=str)
@pytest.mark.parametrize("along", [0, 1])
def test_iota_counts_along_one_dimension(dtype: Any, along: int) -> None:
    compare_with_xla_cpu(lambda: lax.broadcasted_iota(dtype, (7, 5), along), x64=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "uint16"])
def test_a_long_iota_rounds_and_wraps_like_xla_s(dtype: str) -> None:
    compare_with_xla_cpu(lambda: lax.iota(getattr(jnp, dtype), 3000))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_constant_has_its_traced_value(dtype: Any) -> None:
    values = np.random.default_rng(0).integers(0, 256, 24 * dtype.itemsize, np.uint8)
    constant = values.view(dtype).reshape(2, 3, 4) if dtype != PRED else (values % 2 == 1).reshape(2, 3, 4)
    compare_with_xla_cpu(lambda: (jnp.asarray(constant), jnp.asarray(constant[0, 0, 0])), x64=True)


def test_a_constant_is_read_in_the_order_of_its_layout() -> None:
    text = """HloModule m
    ENTRY e {
      ROOT c = s32[2,3]{0,1} constant({{1,2,3},{4,5,6}})
    }"""
    compare_text_with_xla_cpu(text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=2
    )
)
def test_any_padding_equals_xla_s(edges: list[tuple[int, int, int, int]]) -> None:
    shape = [extent for extent, _, _, _ in edges]
    config = [(low, high, interior) for _, low, high, interior in edges]
    extents = [n + (n - 1) * interior + low + high for n, low, high, interior in edges]
    if min(extents) < 0:
        return
    compare_with_xla_cpu(lambda x: lax.pad(x, np.float32(-1), config), _count(*shape) + 1)


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_any_transposition_equals_xla_s(order: list[int], shape: list[int]) -> None:
    compare_with_xla_cpu(lambda x: lax.transpose(x, order), _count(*shape))


def test_bits_of_subnormals_and_nan_are_moved_untouched() -> None:
    bits = np.array([1, 0x7FC00001, 0xFFC12345, 0x80000001], np.uint32)
    text = """HloModule m
    ENTRY e {
      a = f32[4] parameter(0)
      r = f32[4] reverse(a), dimensions={0}
      b = f32[2,4] broadcast(r), dimensions={1}
      s = f32[8] reshape(b)
      x = f32[1] slice(a), slice={[1:2]}
      c = f32[9] concatenate(s, x), dimensions={0}
      ROOT z = f32[9] copy(c)
    }"""
    found = np.asarray(evaluate_module(parse_text(text), [bits.view(np.float32)]))
    expected = np.concatenate([bits[::-1], bits[::-1], bits[1:2]])
    np.testing.assert_array_equal(found.view(np.uint32), expected)


def test_a_broadcast_may_exchange_dimensions() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[2,3] parameter(0)
      ROOT r = f32[3,4,2] broadcast(a), dimensions={2,0}
    }"""
    found = np.asarray(evaluate_module(parse_text(text), [_count(2, 3)]))
    np.testing.assert_array_equal(found, np.broadcast_to(_count(2, 3).T[:, None, :], (3, 4, 2)))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32[2,3]{1,0}", "f32[3,2]{0,1}"),
        ("f32[2,3]{0,1}", "f32[6]{0}"),
        ("f32[2,3,4]{2,0,1}", "f32[4,6]{0,1}"),
        ("f32[2,3,4]{1,2,0}", "f32[2,12]{1,0}"),
        ("f32[24]{0}", "f32[2,3,4]{1,0,2}"),
        ("f32[2,3]{0,1}", "u32[2,3]{1,0}"),
        ("f32[2,3]{0,1}", "bf16[2,3,2]{2,0,1}"),
        ("f32[4,2]{0,1}", "f64[4]{0}"),
        ("f32[1]{0}", "f32[]"),
        ("f32[]", "s32[1,1]{0,1}"),
    ],
)
def test_a_bitcast_keeps_the_bytes_and_not_the_elements(source: str, target: str) -> None:
    text = f"""HloModule m
    ENTRY e {{
      a = {source} parameter(0)
      ROOT r = {target} bitcast(a)
    }}"""
    module = parse_text(text)
    (parameter,) = module.entry.parameters
    values = _count(*parameter.shape.dimensions) * np.float32(1.1) + np.float32(0.3)
    found = np.asarray(evaluate_module(module, [values]))

    def store(array: Any, shape: Any) -> bytes:
        """The bytes of an array in memory: the dimensions from the outermost to the innermost."""
        order = list(reversed(shape.layout.minor_to_major))
        return np.ascontiguousarray(array.transpose(order)).tobytes()

    assert found.shape == tuple(module.entry.root.shape.dimensions)
    assert store(found, module.entry.root.shape) == store(values, parameter.shape)


def test_a_bitcast_without_layouts_is_row_major() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[2,3] parameter(0)
      ROOT r = s32[3,2] bitcast(a)
    }"""
    module = parse_text(text)
    for instruction in module.entry.instructions:
        instruction.shape.ClearField("layout")
    found = np.asarray(evaluate_module(module, [_count(2, 3)]))
    np.testing.assert_array_equal(found, _count(2, 3).view(np.int32).reshape(3, 2))


def test_scalars_that_stay_scalars_keep_an_array_in_a_computation_called_with_arrays() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[] parameter(0)
      b = f32[] broadcast(a), dimensions={}
      c = f32[] reshape(b)
      d = s32[] bitcast(c)
      e = s32[] transpose(d), dimensions={}
      ROOT r = s32[] copy(e)
    }"""
    values = _count(2, 3)
    found = np.asarray(evaluate_module(parse_text(text), [values]))
    np.testing.assert_array_equal(found, values.view(np.int32))


def test_a_scalar_that_grows_is_not_covered_in_a_computation_called_with_arrays() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[] parameter(0)
      ROOT b = f32[2] broadcast(a), dimensions={}
    }"""
    with pytest.raises(NotCoveredError, match="broadcast"):
        evaluate_module(parse_text(text), [_count(2)])


def test_a_slice_of_too_few_dimensions_is_an_artifact_error() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[2,3] parameter(0)
      ROOT r = f32[1,3] slice(a), slice={[0:1], [0:3]}
    }"""
    module = parse_text(text)
    module.entry.root.proto.slice_dimensions.pop()
    with pytest.raises(ArtifactError, match="has 1 slice ranges for 2 dimensions"):
        evaluate_module(module, [_count(2, 3)])


def test_dynamic_reshape_is_not_covered() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[4] parameter(0)
      n = s32[] parameter(1)
      ROOT r = f32[<=4] dynamic-reshape(a, n)
    }"""
    with pytest.raises(NotCoveredError, match="dynamic-reshape"):
        evaluate_module(parse_text(text), [np.zeros(4, np.float32), np.int32(2)])


def test_bfloat16_travels_through_a_bitcast_of_its_bits() -> None:
    values = np.array([1.5, -2.0, 3.0, 0.5], ml_dtypes.bfloat16)
    text = """HloModule m
    ENTRY e {
      a = bf16[4] parameter(0)
      ROOT r = u32[2] bitcast(a)
    }"""
    found = np.asarray(evaluate_module(parse_text(text), [values]))
    np.testing.assert_array_equal(found, values.view(np.uint32))
