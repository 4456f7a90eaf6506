"""Copies of buffers that overlap."""

from collections.abc import Sequence

import numpy as np

from ligerdiag.replay.interpreter.scope import Array

ALIGNMENT = 64
"""Bytes; also NumPy's own allocations are aligned less or as much."""


def do_share(one: Array, other: Array) -> bool:
    """Returns whether two flat, contiguous arrays have a byte in common."""
    start, begin = one.ctypes.data, other.ctypes.data
    return start < begin + other.nbytes and begin < start + one.nbytes


def copy_buffers(buffers: Sequence[Array]) -> tuple[Array, ...]:
    """Returns copies that share their bytes as the buffers do."""
    order = sorted(range(len(buffers)), key=lambda number: buffers[number].ctypes.data)
    offsets, base, end, size = [0] * len(buffers), 0, 0, 0
    for number in order:
        start = buffers[number].ctypes.data
        if start >= end:
            base = -(-size // ALIGNMENT) * ALIGNMENT - start
        end = max(end, start + buffers[number].nbytes)
        offsets[number] = base + start
        size = max(size, offsets[number] + buffers[number].nbytes)
    block = np.empty(size, np.uint8)
    copies = tuple(
        block[offset : offset + buffer.nbytes].view(buffer.dtype)
        for offset, buffer in zip(offsets, buffers, strict=True)
    )
    for copy, buffer in zip(copies, buffers, strict=True):
        copy[...] = buffer
    return copies
