"""Compares slices by index with XLA:CPU, bit for bit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.replay.opcodes.index_numbers import IndexNumbers, draw_numbers
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu


@settings(max_examples=25, deadline=None)
@given(draw_numbers(), st.sampled_from(["int32", "uint8", "int8"]))
def test_any_dimension_numbers_give_xla_s_result(numbers: IndexNumbers, dtype: str) -> None:
    operand = np.arange(np.prod(numbers.operand), dtype=np.float32).reshape(numbers.operand)
    dimension_numbers = lax.GatherDimensionNumbers(
        offset_dims=numbers.window_dims,
        collapsed_slice_dims=numbers.dropped,
        start_index_map=numbers.index_map,
        operand_batching_dims=numbers.operand_batching,
        start_indices_batching_dims=numbers.indices_batching,
    )

    def gather(x: Any, indices: Any) -> Any:
        return lax.gather(x, indices, dimension_numbers, numbers.sizes, mode=lax.GatherScatterMode.CLIP)

    compare_with_xla_cpu(gather, operand, numbers.draw_indices(dtype))


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 3, 4, 100, 2**31 - 1])
def test_a_start_index_is_clamped_so_that_the_slice_fits(index: int) -> None:
    text = """HloModule m
ENTRY e { x = f32[6,5] parameter(0)
i = s32[1,1] parameter(1)
ROOT r = f32[1,3,5] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1,
  slice_sizes={3,5} }"""
    x = np.arange(30, dtype=np.float32).reshape(6, 5)
    compare_text_with_xla_cpu(text, x, np.array([[index]], np.int32))


@pytest.mark.parametrize("vector_dimension", [0, 1, 2])
def test_the_index_vector_may_lie_along_any_dimension_or_none(vector_dimension: int) -> None:
    indices = {0: "2,4,3", 1: "4,2,3", 2: "4,3,2"}[vector_dimension]
    text = f"""HloModule m
ENTRY e {{ x = f32[6,5,2] parameter(0)
i = s32[{indices}] parameter(1)
ROOT r = f32[4,2,3] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0,1}}, start_index_map={{1,0}},
  index_vector_dim={vector_dimension}, slice_sizes={{1,1,2}} }}"""
    x = np.arange(60, dtype=np.float32).reshape(6, 5, 2)
    shape = tuple(int(n) for n in indices.split(","))
    compare_text_with_xla_cpu(text, x, np.random.default_rng(0).integers(-1, 7, shape).astype(np.int32))


def test_batching_dimensions_are_counted_without_the_index_vector() -> None:
    text = """HloModule m
ENTRY e { x = f32[4,6,2] parameter(0)
i = s32[1,3,2,4] parameter(1)
ROOT r = f32[3,2,4] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=0,
  operand_batching_dims={0,2}, start_indices_batching_dims={3,2}, slice_sizes={1,1,1} }"""
    x = np.arange(48, dtype=np.float32).reshape(4, 6, 2)
    compare_text_with_xla_cpu(text, x, np.random.default_rng(0).integers(-1, 7, (1, 3, 2, 4)).astype(np.int32))


def test_an_index_vector_dimension_past_the_last_means_scalar_indices() -> None:
    text = """HloModule m
ENTRY e { x = f32[6,5] parameter(0)
i = s32[4] parameter(1)
ROOT r = f32[4,5] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
  slice_sizes={1,5} }"""
    compare_text_with_xla_cpu(text, np.arange(30, dtype=np.float32).reshape(6, 5), np.array([3, 0, 9, -4], np.int32))


def test_usual_forms_of_indexing_give_xla_s_result() -> None:
    logits = np.random.default_rng(0).normal(size=(6, 11)).astype(np.float32)
    targets = np.array([0, 10, 3, 3, 7, 1], np.int32)
    compare_with_xla_cpu(lambda x, t: jnp.take_along_axis(x, t[:, None], axis=1), logits, targets)
    compare_with_xla_cpu(lambda x, t: (x[t], x[:, t], x[1:3][:, t, None], x[t, t]), logits, targets)
    compare_with_xla_cpu(jax.vmap(lambda row, t: lax.dynamic_slice(row, (t,), (4,))), logits, targets)
