"""Compares updates by index with XLA:CPU, which applies them in the order of the indices, as replay does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.opcodes.index_numbers import IndexNumbers, draw_numbers
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, lower_to_module

SCATTERS = {
    "add": lax.scatter_add,
    "replace": lax.scatter,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
    "multiply": lax.scatter_mul,
}


@settings(max_examples=80, deadline=None)
@given(
    draw_numbers().filter(lambda n: bool(n.index_map)),
    st.sampled_from(sorted(SCATTERS)),
    st.sampled_from(["int32", "uint8"]),
)
def test_any_dimension_numbers_and_combiner_give_xla_s_result(numbers: IndexNumbers, kind: str, dtype: str) -> None:
    generator = np.random.default_rng(1)
    operand = generator.integers(-9, 9, numbers.operand).astype(np.int32)
    updates = generator.integers(-9, 9, numbers.result).astype(np.int32)
    dimension_numbers = lax.ScatterDimensionNumbers(
        update_window_dims=numbers.window_dims,
        inserted_window_dims=numbers.dropped,
        scatter_dims_to_operand_dims=numbers.index_map,
        operand_batching_dims=numbers.operand_batching,
        scatter_indices_batching_dims=numbers.indices_batching,
    )

    def scatter(x: Any, indices: Any, updates: Any) -> Any:
        mode = lax.GatherScatterMode.FILL_OR_DROP
        return SCATTERS[kind](x, indices, updates, dimension_numbers, mode=mode)

    compare_with_xla_cpu(scatter, operand, numbers.draw_indices(dtype), updates)


COMBINER = """HloModule m
f {{ a = f32[] parameter(0)
b = f32[] parameter(1)
{combiner} }}
ENTRY e {{ x = f32[5,{columns}] parameter(0)
i = s32[9] parameter(1)
u = f32[9,{columns}] parameter(2)
ROOT r = f32[5,{columns}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
  scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f }}"""


@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize(
    "combiner",
    [
        "ROOT r = f32[] subtract(a, b)",
        "ROOT r = f32[] add(b, a)",
        "c = f32[] constant(7)\nd = f32[] multiply(a, c)\nROOT r = f32[] subtract(d, b)",
        "ROOT r = f32[] copy(a)",
        "ROOT r = f32[] constant(3)",
    ],
)
def test_updates_of_one_element_are_applied_in_order_by_any_combiner(combiner: str, columns: int) -> None:
    x = np.arange(5 * columns, dtype=np.float32).reshape(5, columns)
    updates = np.arange(9 * columns, dtype=np.float32).reshape(9, columns) ** 2
    indices = np.array([2, 2, 0, 2, -1, 5, 0, 2, 4], np.int32)
    compare_text_with_xla_cpu(COMBINER.format(combiner=combiner, columns=columns), x, indices, updates)


def test_an_update_that_crosses_the_edge_is_dropped_completely() -> None:
    text = """HloModule m
f { a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0)
i = s32[5,1] parameter(1)
u = f32[5,3] parameter(2)
ROOT r = f32[8] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0},
  index_vector_dim=1, to_apply=f }"""
    indices = np.array([[-1], [0], [5], [6], [4]], np.int32)
    compare_text_with_xla_cpu(text, np.zeros(8, np.float32), indices, np.ones((5, 3), np.float32))


def test_several_operands_are_combined_together() -> None:
    # keeps the larger value and its companion; the values are distinct
    text = """HloModule m
f { a = f32[] parameter(0)
b = s32[] parameter(1)
c = f32[] parameter(2)
d = s32[] parameter(3)
g = pred[] compare(c, a), direction=GT
v = f32[] select(g, c, a)
w = s32[] select(g, d, b)
ROOT r = (f32[], s32[]) tuple(v, w) }
ENTRY e { x = f32[4] parameter(0)
y = s32[4] parameter(1)
i = s32[7] parameter(2)
u = f32[7] parameter(3)
v = s32[7] parameter(4)
ROOT r = (f32[4], s32[4]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0},
  scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"""
    generator = np.random.default_rng(0)
    compare_text_with_xla_cpu(
        text,
        np.zeros(4, np.float32),
        np.full(4, -1, np.int32),
        np.array([1, 1, 3, 0, 1, 9, 3], np.int32),
        generator.normal(size=7).astype(np.float32),
        np.arange(7, dtype=np.int32),
    )


def test_the_gradient_of_an_embedding_is_as_in_xla() -> None:
    table = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    tokens = np.array([[0, 6, 6], [3, 6, 0]], np.int32)
    compare_with_xla_cpu(jax.grad(lambda t: jnp.sum(jnp.sin(t[tokens]) ** 2)), table, rtol=2e-6)


def test_updates_in_bf16_are_added_up_before_they_are_rounded() -> None:
    x, updates = jnp.ones((2, 1), jnp.bfloat16), jnp.full((256, 1), 2.0**-9, jnp.bfloat16)
    module = lower_to_module(lambda x, u: x.at[jnp.zeros(256, jnp.int32)].add(u), x, updates)
    found = np.asarray(evaluate_module(module, (x, updates))).astype(np.float32)
    np.testing.assert_array_equal(found, [[1.5], [1]])


def test_the_operand_is_not_changed() -> None:
    x, updates = np.zeros((3, 2), np.float32), np.ones((1, 2), np.float32)
    for method in ("add", "set"):
        module = lower_to_module(lambda x, u, method=method: getattr(x.at[np.array([1])], method)(u), x, updates)
        evaluate_module(module, (x, updates))
        assert not x.any()


def test_an_empty_index_vector_is_not_covered() -> None:
    numbers = lax.ScatterDimensionNumbers((0,), (), ())
    x, indices, updates = np.zeros(1, np.float32), np.zeros((3, 0), np.int32), np.ones((1, 3), np.float32)
    module = lower_to_module(lambda x, i, u: lax.scatter_add(x, i, u, numbers), x, indices, updates)
    with pytest.raises(NotCoveredError, match="empty index vector"):
        evaluate_module(module, (x, indices, updates))
