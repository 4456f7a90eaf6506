"""The bytes of the arguments' buffers that the memory operations of a kernel reach.

Sources: Triton 3.6's TritonOps.td for the order of operands; triton/runtime/interpreter.py for the bounds of descriptors
(always checked) and block pointers (checked in the dimensions of `boundaryCheck`).
"""

from collections.abc import Sequence

import numpy as np

from ligerdiag.effects.index_arithmetic import compute_binary
from ligerdiag.effects.index_masks import compare
from ligerdiag.effects.index_shapes import broadcast, expand_dims, splat
from ligerdiag.effects.index_values import (
    LARGEST,
    BlockPointer,
    Box,
    Budget,
    Dense,
    Linear,
    Pointer,
    Unknown,
    Value,
    compute_bounds,
    forget,
    make_range,
    make_truth,
)

type Reach = tuple[Pointer, Box | Dense | Unknown | None]
"""Addresses of elements, and where they are used: everywhere for None, unknown for Unknown."""


def scale(offset: Value, width: int, budget: Budget) -> Linear | Dense | None:
    """Elements to bytes; None where that is not known."""
    if not isinstance(offset, Linear | Dense):
        return None
    low, high = compute_bounds(offset)
    if max(abs(low), abs(high)) * width > LARGEST:
        return None
    if isinstance(offset, Dense):
        budget.spend(offset.data.size)
        return Dense(data=offset.data.astype(np.int64) * width, shape=offset.shape)
    steps = tuple(None if step is None else step * width for step in offset.steps)
    return Linear(base=offset.base * width, steps=steps, shape=offset.shape)


def add_to_pointer(pointer: Value, offset: Value, width: int | None, budget: Budget) -> Value:
    """`tt.addptr`: the offset counts elements of `width` bytes."""
    scaled = scale(offset, width, budget) if width is not None else None
    if not isinstance(pointer, Pointer) or scaled is None:
        return forget(pointer)
    total = compute_binary("arith.addi", pointer.offset, scaled, 64, budget)
    return Pointer(root=pointer.root, offset=total) if isinstance(total, Linear | Dense) else forget(pointer)


def advance(pointer: Value, offsets: Sequence[Value], budget: Budget) -> Value:
    """`tt.advance` of a block pointer."""
    if not isinstance(pointer, BlockPointer) or len(offsets) != len(pointer.offsets):
        return forget(pointer)
    moved = [compute_binary("arith.addi", a, b, 64, budget) for a, b in zip(pointer.offsets, offsets, strict=True)]
    linear = tuple(value for value in moved if isinstance(value, Linear))
    if len(linear) != len(moved):
        return forget(pointer)
    return BlockPointer(
        base=pointer.base,
        sizes=pointer.sizes,
        strides=pointer.strides,
        offsets=linear,
        block=pointer.block,
    )


def make_block_pointer(base: Value, numbers: Sequence[Value], block: tuple[int, ...], groups: int) -> Value:
    """`tt.make_tensor_descriptor` (groups 2: sizes, strides) and `tt.make_tensor_ptr` (groups 3: offsets too)."""
    rank = len(block)
    scalars = [value for value in numbers if isinstance(value, Linear) and not value.shape]
    if not isinstance(base, Pointer) or len(scalars) != groups * rank or len(numbers) != len(scalars):
        return forget(base, *numbers)
    return BlockPointer(
        base=base,
        sizes=tuple(scalars[:rank]),
        strides=tuple(scalars[rank : 2 * rank]),
        offsets=tuple(scalars[2 * rank :]),
        block=block,
    )


def reach_block(
    pointer: Value, offsets: Sequence[Value], checked: Sequence[int], width: int | None, budget: Budget
) -> Reach | None:
    """Returns the elements of a block at these offsets; `checked`: dimensions where what is out of bounds is left
    alone."""
    if not isinstance(pointer, BlockPointer) or len(offsets) != len(pointer.block):
        return None
    address: Value = pointer.base
    mask: Value = make_truth(True, pointer.block)
    address = Pointer(root=pointer.base.root, offset=pointer.base.offset)
    total: Value = splat(pointer.base.offset, pointer.block)
    for axis, (offset, stride, size) in enumerate(zip(offsets, pointer.strides, pointer.sizes, strict=True)):
        position = _spread(offset, axis, pointer.block, budget)
        step = scale(
            compute_binary("arith.muli", position, splat(stride, pointer.block), 64, budget), width or 1, budget
        )
        if step is None or width is None:
            return None
        total = compute_binary("arith.addi", total, step, 64, budget)
        if axis in checked:
            zero = splat(Linear(base=np.zeros(1, np.int64)), pointer.block)
            above = compare("sge", position, zero, budget)
            below = compare("slt", position, splat(size, pointer.block), budget)
            mask = compute_binary("arith.andi", mask, compute_binary("arith.andi", above, below, 1, budget), 1, budget)
    if not isinstance(total, Linear | Dense):
        return None
    address = Pointer(root=pointer.base.root, offset=total)
    return address, mask if isinstance(mask, Box | Dense) else Unknown()


def _spread(offset: Value, axis: int, block: tuple[int, ...], budget: Budget) -> Value:
    """offset + i along this dimension of the block; an offset that is a vector already says where each row is."""
    if isinstance(offset, Linear | Dense) and offset.shape:
        vector: Value = offset
    else:
        vector = compute_binary("arith.addi", splat(offset, (block[axis],)), make_range(0, block[axis]), 64, budget)
    for dimension in range(len(block)):
        if dimension != axis:
            vector = expand_dims(vector, dimension)
    return broadcast(vector, block)
