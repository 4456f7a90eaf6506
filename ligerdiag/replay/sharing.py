"""Buffers that share their bytes: told by their addresses, and copied so that the copies share in the same way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ligerdiag.replay.opcodes.scope import Array

ALIGNMENT = 64
"""Bytes; also NumPy's own allocations are aligned less or as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The place of each buffer in one block of bytes that holds them all."""

    offsets: tuple[int, ...]
    size: int
    """Bytes of the block."""


def do_share(one: Array, other: Array) -> bool:
    """Returns whether two flat, contiguous arrays have a byte in common."""
    start, begin = one.ctypes.data, other.ctypes.data
    return start < begin + other.nbytes and begin < start + one.nbytes


def compute_layout(buffers: Sequence[Array]) -> Layout:
    """Returns a block in which the buffers overlap as they do where they are, and only so."""
    order = sorted(range(len(buffers)), key=lambda number: buffers[number].ctypes.data)
    offsets, base, end, size = [0] * len(buffers), 0, 0, 0
    for number in order:
        start = buffers[number].ctypes.data
        if start >= end:
            base = -(-size // ALIGNMENT) * ALIGNMENT - start
        end = max(end, start + buffers[number].nbytes)
        offsets[number] = base + start
        size = max(size, offsets[number] + buffers[number].nbytes)
    return Layout(offsets=tuple(offsets), size=size)


def view_block(block: Array, layout: Layout, buffers: Sequence[Array]) -> tuple[Array, ...]:
    """Arrays like the buffers in the block, u8[size]."""
    return tuple(
        block[offset : offset + buffer.nbytes].view(buffer.dtype)
        for offset, buffer in zip(layout.offsets, buffers, strict=True)
    )


def copy_buffers(buffers: Sequence[Array], allocate: Callable[[int], Array] | None = None) -> tuple[Array, ...]:
    """Copies that share their bytes as the buffers do; `allocate` gives a u8 array of that many bytes."""
    layout = compute_layout(buffers)
    block = np.empty(layout.size, np.uint8) if allocate is None else allocate(layout.size)
    copies = view_block(block, layout, buffers)
    for copy, buffer in zip(copies, buffers, strict=True):
        copy[...] = buffer
    return copies
