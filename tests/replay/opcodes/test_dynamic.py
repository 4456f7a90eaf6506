"""Compares dynamic slices with XLA:CPU, including start indices outside the operand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from ligerdiag.errors import ArtifactError
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.opcodes.edge_values import INTEGERS
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text

OPERAND = np.arange(35, dtype=np.float32).reshape(5, 7)
SLICE = """HloModule m
ENTRY e {
  a = f32[5,7] parameter(0)
  i = INDEX[] parameter(1)
  j = INDEX[] parameter(2)
  u = f32[2,3] parameter(3)
  s = f32[2,3] dynamic-slice(a, i, j), dynamic_slice_sizes={2,3}
  v = f32[5,7] dynamic-update-slice(a, u, i, j)
  ROOT r = (f32[2,3], f32[5,7]) tuple(s, v)
}"""


@settings(max_examples=40, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9))
def test_a_start_index_is_moved_so_that_the_slice_lies_inside(i: int, j: int) -> None:
    def both(x: Any, update: Any, a: Any, b: Any) -> Any:
        return lax.dynamic_slice(x, (a, b), (2, 3)), lax.dynamic_update_slice(x, update, (a, b))

    compare_with_xla_cpu(both, OPERAND, -OPERAND[:2, :3], np.int32(i), np.int32(j))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("end", ["min", "max"])
def test_the_first_and_last_integers_are_start_indices_too(dtype: Any, end: str) -> None:
    name = f"{'s' if dtype.kind == 'i' else 'u'}{8 * dtype.itemsize}"
    start = dtype.type(getattr(np.iinfo(dtype), end))
    compare_text_with_xla_cpu(SLICE.replace("INDEX", name), OPERAND, start, start, -OPERAND[:2, :3])


def test_an_update_leaves_its_operand_unchanged() -> None:
    operand = OPERAND.copy()
    evaluate_module(parse_text(SLICE.replace("INDEX", "s32")), [operand, np.int32(0), np.int32(0), -OPERAND[:2, :3]])
    np.testing.assert_array_equal(operand, OPERAND)


def test_a_start_index_that_is_an_array_is_not_covered() -> None:
    start = np.zeros(4, np.int32)
    with pytest.raises(NotCoveredError, match="arrays instead of scalars as start indices"):
        evaluate_module(parse_text(SLICE.replace("INDEX", "s32")), [OPERAND, start, start, OPERAND[:2, :3]])


def test_a_missing_start_index_is_an_artifact_error() -> None:
    module = parse_text(SLICE.replace("INDEX", "s32"))
    (instruction,) = [i for i in module.entry.instructions if i.opcode == "dynamic-slice"]
    instruction.proto.dynamic_slice_sizes.pop()
    with pytest.raises(ArtifactError, match="2 start indices and 1 slice sizes for an operand of 2 dimensions"):
        evaluate_module(module, [OPERAND, np.int32(0), np.int32(0), OPERAND[:2, :3]])
