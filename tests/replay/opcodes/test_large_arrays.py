"""Large arrays are computed block by block, with the same bits as in one piece, whatever their shape."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from ligerdiag.replay.ops import dtypes
from tests.replay.xla_cpu import evaluate_module, lower_to_module

SHAPES = [(1000,), (7, 143), (1, 1001), (3, 1, 5, 67), (143, 7), (2, 500, 1), (1, 1, 1, 1003)]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "of one array": lambda x, y: jnp.tanh(x),
    "of two": lambda x, y: x * y + x,
    "of an array and a number": lambda x, y: jnp.maximum(x, jnp.asarray(0.25, x.dtype)) - jnp.asarray(3, x.dtype),
    "to predicates": lambda x, y: jnp.isfinite(x),
}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)], ids=str)
@pytest.mark.parametrize("compute", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_have_the_bits_of_the_whole(
    shape: tuple[int, ...], compute: Callable[..., Any], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    arguments = [draw.standard_normal(shape).astype(dtype) for _ in range(2)]
    module = lower_to_module(compute, *arguments)
    whole = evaluate_module(module, arguments)
    blocks: list[int] = []
    in_blocks = dtypes._compute_in_blocks  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(dtypes, "_compute_in_blocks", lambda *given: (blocks.append(1), in_blocks(*given))[1])
    monkeypatch.setattr(dtypes, "_BLOCK", 60)
    split = evaluate_module(module, arguments)
    assert blocks
    assert np.asarray(split).dtype == np.asarray(whole).dtype
    assert np.asarray(split).tobytes() == np.asarray(whole).tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_cover_every_element_once_within_the_size_limit(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dtypes, "_BLOCK", 60)
    count = np.zeros(shape, int)
    for block in dtypes._list_blocks(shape):  # pyright: ignore[reportPrivateUsage]
        assert count[block].size <= 60
        count[block] += 1
    assert (count == 1).all()
