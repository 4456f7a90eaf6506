"""Computes integer arithmetic of Triton IR on index values, and the addresses that memory operations access.

*Index values* are the integers, booleans and addresses of a kernel for all programs of a launch (see `index_values`). A
result is Unknown if the operation is unknown, or if its result is undefined in some program, for example because of a
division by zero.

Sources: the `arith` dialect's definitions in MLIR (two's complement, division that rounds to zero); Triton 3.6's
TritonOps.td for the order of operands; triton/runtime/interpreter.py for the bounds of descriptors (always checked) and
block pointers (checked in the dimensions of `boundaryCheck`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from ligerdiag.effects.launches.index_masks import (
    add,
    broadcast,
    ceil_divide,
    compare,
    compute_logic,
    expand_dims,
    splat,
)
from ligerdiag.effects.launches.index_values import (
    LARGEST,
    UNKNOWN,
    AbstractBlockPointer,
    Budget,
    Dense,
    Elements,
    IndexArray,
    IndexValue,
    Linear,
    Mask,
    MaskBox,
    Pointer,
    Unknown,
    compute_bounds,
    forget,
    make_dense,
    make_range,
    make_truth,
    wrap,
)


def _divide(a: IndexArray, b: IndexArray) -> IndexArray:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


_ELEMENTWISE: dict[str, Callable[[IndexArray, IndexArray], IndexArray]] = {
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _divide,
    "arith.remsi": lambda a, b: a - _divide(a, b) * b,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.ceildivsi": ceil_divide,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": np.minimum,
    "arith.maxui": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": np.right_shift,
}
_DIVISIONS = frozenset(
    {"arith.divsi", "arith.remsi", "arith.divui", "arith.remui", "arith.ceildivsi", "arith.floordivsi"}
)
_UNSIGNED = frozenset({"arith.divui", "arith.remui", "arith.minui", "arith.maxui", "arith.shrui"})
_SHIFTS = frozenset({"arith.shli", "arith.shrsi", "arith.shrui"})
BINARY = frozenset({"arith.addi", "arith.subi", *_ELEMENTWISE})


def compute_binary(  # noqa: PLR0917
    name: str, left: IndexValue, right: IndexValue, bits: int, budget: Budget, active: Mask | None = None
) -> IndexValue:
    """Returns the result of an operation on two integers of `bits` bits. One bit means booleans.

    name: the operation's name, such as `arith.addi`. active: bool[programs], the programs that execute the operation. The
    result may be undefined in a program that does not execute it.
    """
    if bits == 1:
        return compute_logic(name, left, right, budget)
    if not isinstance(left, Linear | Dense) or not isinstance(right, Linear | Dense) or left.shape != right.shape:
        return UNKNOWN
    if isinstance(left, Linear) and isinstance(right, Linear):
        if name in ("arith.addi", "arith.subi"):
            budget.spend(max(left.base.size, right.base.size))
            return wrap(add(left, right, 1 if name == "arith.addi" else -1), bits, budget)
        if name == "arith.muli":
            product = _multiply(left, right, budget)
            if product is not None:
                return wrap(product, bits, budget) if isinstance(product, Linear) else product
        if left.is_uniform and right.is_uniform:
            found = _compute_elements(name, left.base, right.base, bits, budget, active)
            if found is None:
                return UNKNOWN
            return wrap(Linear(base=found, steps=left.steps, shape=left.shape), bits, budget)
    one, other = make_dense(left, budget), make_dense(right, budget)
    found = _compute_elements(name, one.data, other.data, bits, budget, active)
    return UNKNOWN if found is None else wrap(Dense(data=found, shape=left.shape), bits, budget)


def _compute_elements(  # noqa: PLR0917
    name: str, left: Elements, right: Elements, bits: int, budget: Budget, active: Mask | None
) -> IndexArray | None:
    a, b = left.astype(np.int64), right.astype(np.int64)
    budget.spend(int(np.prod(np.broadcast_shapes(a.shape, b.shape))))
    if name in ("arith.addi", "arith.subi"):
        return a + b if name == "arith.addi" else a - b
    x, y = _take_active(a, active), _take_active(b, active)
    if not x.size or not y.size:
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.int64)
    if name in _UNSIGNED and (x.min() < 0 or y.min() < 0):
        return None
    if name in _DIVISIONS:
        if (y == 0).any():
            return None
        b = np.where(b == 0, 1, b)
    if name in _SHIFTS:
        if y.min() < 0 or y.max() >= min(bits, 62):
            return None
        b = np.clip(b, 0, 62)
    largest = int(max(abs(int(x.min())), abs(int(x.max()))))
    factor = int(max(abs(int(y.min())), abs(int(y.max()))))
    if name == "arith.muli" and largest * factor > LARGEST:
        return None
    if name == "arith.shli" and largest << factor > LARGEST:
        return None
    return _ELEMENTWISE[name](a, b)


def _take_active(array: IndexArray, active: Mask | None) -> IndexArray:
    return array if active is None or array.shape[0] != active.size or active.size == 1 else array[active]


def _multiply(left: Linear, right: Linear, budget: Budget) -> Linear | Unknown | None:
    """Returns the product, Unknown if it may be too large to represent. Returns None if both factors vary among the
    elements of a program: the product is then no `Linear`.
    """
    if not right.is_uniform:
        left, right = right, left
    if not right.is_uniform:
        return None
    low, high = compute_bounds(left)
    factor = max(map(abs, compute_bounds(right)))
    if max(abs(low), abs(high)) * factor > LARGEST:
        return UNKNOWN
    budget.spend(max(left.base.size, right.base.size))
    steps = [None if step is None else step * right.base for step in left.steps]
    steps = [step if step is not None and step.any() else None for step in steps]
    return Linear(base=left.base * right.base, steps=tuple(steps), shape=left.shape)


def convert(value: IndexValue, name: str, source_bits: int, target_bits: int, budget: Budget) -> IndexValue:
    """Returns an integer with a different width, as `arith.extsi`, `extui`, `trunci` and `index_cast` make it.

    name: the operation's name, such as `arith.extsi`. source_bits: the width before, in bits. target_bits: the width
    afterwards.
    """
    if source_bits == 1:
        if target_bits == 1 or not isinstance(value, MaskBox | Dense):
            return value if target_bits == 1 else UNKNOWN
        sign = -1 if name == "arith.extsi" else 1
        data = sign * make_dense(value, budget).data.astype(np.int64)
        if isinstance(value, MaskBox) and value.is_uniform:
            return Linear(base=data.reshape(-1), steps=(None,) * len(value.shape), shape=value.shape)
        return Dense(data=data, shape=value.shape)
    if not isinstance(value, Linear | Dense):
        return UNKNOWN
    if name == "arith.extui" and compute_bounds(value)[0] < 0:
        return UNKNOWN
    if target_bits != 1:
        return wrap(value, target_bits, budget)
    data = make_dense(value, budget).data % 2 != 0
    if isinstance(value, Linear) and value.is_uniform:
        return MaskBox(gate=data.reshape(-1), intervals=(None,) * len(value.shape), shape=value.shape)
    return Dense(data=data, shape=value.shape)


type Reach = tuple[Pointer, MaskBox | Dense | Unknown | None]
"""Addresses of elements, and a mask of those that are accessed: None for all of them, Unknown if that is unknown."""


def scale(offset: IndexValue, width: int, budget: Budget) -> Linear | Dense | None:
    """Returns an offset in bytes, computed from an offset in elements of `width` bytes. Returns None if it is unknown."""
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


def add_to_pointer(pointer: IndexValue, offset: IndexValue, width: int | None, budget: Budget) -> IndexValue:
    """Returns a pointer moved by an offset in elements of `width` bytes, as `tt.addptr` does. The result is Unknown if the
    offset or `width` is unknown.
    """
    scaled = scale(offset, width, budget) if width is not None else None
    if not isinstance(pointer, Pointer) or scaled is None:
        return forget(pointer)
    total = compute_binary("arith.addi", pointer.offset, scaled, 64, budget)
    return Pointer(root=pointer.root, offset=total) if isinstance(total, Linear | Dense) else forget(pointer)


def advance(pointer: IndexValue, offsets: Sequence[IndexValue], budget: Budget) -> IndexValue:
    """Returns a block pointer moved by an offset in each dimension, as `tt.advance` does. offsets: in elements."""
    if not isinstance(pointer, AbstractBlockPointer) or len(offsets) != len(pointer.offsets):
        return forget(pointer)
    moved = [compute_binary("arith.addi", a, b, 64, budget) for a, b in zip(pointer.offsets, offsets, strict=True)]
    linear = tuple(value for value in moved if isinstance(value, Linear))
    if len(linear) != len(moved):
        return forget(pointer)
    return AbstractBlockPointer(
        base=pointer.base,
        sizes=pointer.sizes,
        strides=pointer.strides,
        offsets=linear,
        block=pointer.block,
    )


def make_block_pointer(
    base: IndexValue, numbers: Sequence[IndexValue], block: tuple[int, ...], groups: int
) -> IndexValue:
    """Returns the result of a `tt.make_tensor_descriptor` or a `tt.make_tensor_ptr`.

    numbers: the sizes, then the strides and, for a block pointer, the offsets. Each is one number per dimension. groups: 2
    for a descriptor (sizes and strides), 3 for a block pointer.
    """
    rank = len(block)
    scalars = [value for value in numbers if isinstance(value, Linear) and not value.shape]
    if not isinstance(base, Pointer) or len(scalars) != groups * rank or len(numbers) != len(scalars):
        return forget(base, *numbers)
    return AbstractBlockPointer(
        base=base,
        sizes=tuple(scalars[:rank]),
        strides=tuple(scalars[rank : 2 * rank]),
        offsets=tuple(scalars[2 * rank :]),
        block=block,
    )


def reach_block(
    pointer: IndexValue, offsets: Sequence[IndexValue], checked: Sequence[int], width: int | None, budget: Budget
) -> Reach | None:
    """Returns the addresses of a block's elements, and the mask of the elements that an access uses. The mask is Unknown if
    it cannot be computed. Returns None if the addresses are unknown.

    pointer: a block pointer or a descriptor. offsets: the block's position, per dimension. checked: dimensions in which
    elements outside the tensor are skipped. width: bytes of an element; None if unknown (the addresses then are unknown
    too).
    """
    if not isinstance(pointer, AbstractBlockPointer) or len(offsets) != len(pointer.block):
        return None
    address: IndexValue = pointer.base
    mask: IndexValue = make_truth(True, pointer.block)
    address = Pointer(root=pointer.base.root, offset=pointer.base.offset)
    total: IndexValue = splat(pointer.base.offset, pointer.block)
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
    return address, mask if isinstance(mask, MaskBox | Dense) else Unknown()


def _spread(offset: IndexValue, axis: int, block: tuple[int, ...], budget: Budget) -> IndexValue:
    """Returns the coordinates of a block's elements along `axis`: offset, offset + 1, ...; an offset that is a vector
    already holds these coordinates.
    """
    if isinstance(offset, Linear | Dense) and offset.shape:
        vector: IndexValue = offset
    else:
        vector = compute_binary("arith.addi", splat(offset, (block[axis],)), make_range(0, block[axis]), 64, budget)
    for dimension in range(len(block)):
        if dimension != axis:
            vector = expand_dims(vector, dimension)
    return broadcast(vector, block)
