"""Random dimension numbers for gather and scatter, which share them under different names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNumbers:
    """One gather, or the scatter that undoes it. Indices have shape [batch.., len(index_map)]."""

    operand: tuple[int, ...]
    batch: tuple[int, ...]
    sizes: tuple[int, ...]
    """Of a slice, per dimension of the operand."""
    dropped: tuple[int, ...]
    """Dimensions of the operand that have no dimension in a window."""
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    index_map: tuple[int, ...]
    window_dims: tuple[int, ...]
    """Dimensions of the result (of the updates) that are a window's."""
    seed: int

    @property
    def result(self) -> tuple[int, ...]:
        """Shape of the result (of the updates)."""
        windows = iter([s for d, s in enumerate(self.sizes) if d not in (*self.dropped, *self.operand_batching)])
        batch = iter(self.batch)
        rank = len(self.batch) + len(self.window_dims)
        return tuple(next(windows) if d in self.window_dims else next(batch) for d in range(rank))

    def draw_indices(self, dtype: str) -> Any:
        """Indices, some of them out of bounds on both sides."""
        low = 0 if dtype.startswith("u") else -2
        generator = np.random.default_rng(self.seed)
        return generator.integers(low, 6, (*self.batch, len(self.index_map)), dtype=dtype)


@st.composite
def draw_numbers(draw: st.DrawFn) -> IndexNumbers:
    """Any dimension numbers that are well formed."""
    rank = draw(st.integers(1, 4))
    operand = draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    batch = draw(st.lists(st.integers(1, 4), max_size=2))
    dims = draw(st.permutations(range(rank)))
    pairs = draw(st.integers(0, min(len(batch), rank)))
    operand_batching = sorted(dims[:pairs])
    indices_batching = draw(st.permutations(range(len(batch))))[:pairs]
    for d, b in zip(operand_batching, indices_batching, strict=True):
        operand[d] = batch[b]
    free = dims[pairs:]
    index_map = free[: draw(st.integers(0, len(free)))]
    dropped = sorted(d for d in free if draw(st.booleans()))
    fixed = (*dropped, *operand_batching)
    sizes = [1 if d in fixed else draw(st.integers(1, size)) for d, size in enumerate(operand)]
    windows = rank - len(fixed)
    total = len(batch) + windows
    window_dims = sorted(draw(st.permutations(range(total)))[:windows])
    return IndexNumbers(
        operand=tuple(operand),
        batch=tuple(batch),
        sizes=tuple(sizes),
        dropped=tuple(dropped),
        operand_batching=tuple(operand_batching),
        indices_batching=tuple(indices_batching),
        index_map=tuple(index_map),
        window_dims=tuple(window_dims),
        seed=draw(st.integers(0, 1000)),
    )
