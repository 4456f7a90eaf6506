"""Compares bit operations with XLA:CPU, with shift amounts of every kind."""

from typing import Any

import numpy as np
import pytest
from jax import lax

from tests.replay.opcodes.edge_values import INTEGERS, PRED, build_edge_values, build_pairs
from tests.replay.xla_cpu import compare_with_xla_cpu


@pytest.mark.parametrize("dtype", [*INTEGERS, PRED], ids=str)
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise_operations_equal_xla_s(name: str, dtype: Any) -> None:
    compare_with_xla_cpu(getattr(lax, name), *build_pairs(dtype), x64=True)


@pytest.mark.parametrize("dtype", [*INTEGERS, PRED], ids=str)
def test_not_flips_every_bit_or_the_predicate(dtype: Any) -> None:
    compare_with_xla_cpu(lax.bitwise_not, build_edge_values(dtype), x64=True)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["population_count", "clz"])
def test_bits_are_counted(name: str, dtype: Any) -> None:
    compare_with_xla_cpu(getattr(lax, name), build_edge_values(dtype), x64=True)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["shift_left", "shift_right_logical", "shift_right_arithmetic"])
def test_shifts_by_any_amount_equal_xla_s(name: str, dtype: Any) -> None:
    width = 8 * dtype.itemsize
    values = build_edge_values(dtype)
    amounts = np.array([0, 1, width - 1, width, width + 1, 2 * width]).astype(dtype)
    amounts = np.concatenate([amounts, np.array([-1, -width]).astype(dtype)])
    left, right = [m.copy() for m in np.broadcast_arrays(values[:, None], amounts)]
    compare_with_xla_cpu(getattr(lax, name), left, right, x64=True)
