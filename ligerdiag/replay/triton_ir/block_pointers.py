"""Block pointers and tensor descriptors: a block of a strided tensor, with what is outside of the tensor masked."""

import re
from collections.abc import Sequence

import numpy as np

from ligerdiag.effects.libtriton import parse_integers, parse_word
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.atomics import prepare_update
from ligerdiag.replay.triton_ir.memory import AccessSite, Memory
from ligerdiag.replay.triton_ir.values import (
    Active,
    BlockPointer,
    DType,
    Sum,
    Value,
    add_address,
    find_dtype,
    parse_type,
    to_array,
)


def make_pointer(op: Operation, function: Function, values: Sequence[Value]) -> BlockPointer:
    """Evaluates `tt.make_tensor_ptr` and `tt.make_tensor_descriptor`."""
    arrays = [to_array(value) for value in values]
    is_descriptor = op.name == "tt.make_tensor_descriptor"
    rank = (len(arrays) - 1) // (2 if is_descriptor else 3)
    zeros = (np.zeros(1, np.int32),) * rank
    return BlockPointer(
        base=arrays[0],
        shape=tuple(arrays[1 : 1 + rank]),
        strides=tuple(arrays[1 + rank : 1 + 2 * rank]),
        offsets=zeros if is_descriptor else tuple(arrays[1 + 2 * rank :]),
        pads_nan="padding = 2" in op.text or "pad_nan" in op.text.lower(),
    )


def advance(pointer: Value, steps: Sequence[Value]) -> BlockPointer:
    """Evaluates `tt.advance`."""
    if not isinstance(pointer, BlockPointer):
        raise NotCoveredError("tt.advance of something that is no block pointer")
    offsets = tuple(old + to_array(step) for old, step in zip(pointer.offsets, steps, strict=True))
    return BlockPointer(base=pointer.base, shape=pointer.shape, strides=pointer.strides, offsets=offsets)


def reach_block(
    pointer: Value,
    starts: Sequence[Array],
    block: Sequence[int],
    checked: Sequence[int],
    width: int,
    *,
    rows: Array | None = None,
) -> tuple[Array | Sum, Array | None]:
    """Returns addresses and mask, [programs, *block]; `rows` stands for the first axis' coordinates of a gather."""
    if not isinstance(pointer, BlockPointer):
        raise NotCoveredError("an access through something that is no block pointer")
    rank = len(block)
    address: Array | Sum = pointer.base.reshape(-1, *(1,) * rank)
    mask: Array | None = None
    skipped = len(pointer.shape) - rank
    if skipped:
        raise NotCoveredError("a block of another rank than its tensor")
    for axis, size in enumerate(block):
        ones = [1] * rank
        ones[axis] = size
        if axis == 0 and rows is not None:
            coordinates = rows.astype(np.int64).reshape(rows.shape[0], *ones)
        else:
            start = starts[axis].astype(np.int64).reshape(-1, *(1,) * rank)
            coordinates = start + np.arange(size, dtype=np.int64).reshape(1, *ones)
        stride = pointer.strides[axis].astype(np.int64).reshape(-1, *(1,) * rank)
        address = add_address(address, coordinates * stride, width)
        if axis in checked:
            limit = pointer.shape[axis].astype(np.int64).reshape(-1, *(1,) * rank)
            inside = (coordinates >= 0) & (coordinates < limit)
            if not bool(inside.all()):
                mask = inside if mask is None else mask & inside
    return address, mask


def _get_padding(dtype: DType, rank: int, pads_nan: bool) -> Array:
    return np.full((1,) * (rank + 1), np.nan if pads_nan else 0).astype(dtype)


def load_block(memory: Memory, op: Operation, function: Function, pointer: Value, active: Active) -> Array:
    """Evaluates a `tt.load` of a block pointer."""
    assert isinstance(pointer, BlockPointer)
    kind = parse_type(function.types[op.operands[0]])
    dtype = find_dtype(kind.pointee)
    checked = parse_integers(op.text, "boundaryCheck") or ()
    match = re.search(r"padding = (\d+)", op.text)
    address, mask = reach_block(pointer, pointer.offsets, kind.shape, checked, dtype.itemsize)
    other = _get_padding(dtype, len(kind.shape), match is not None and match[1] == "2")
    return memory.load(AccessSite(operation=op, address=address, mask=mask, active=active), other, dtype)


def store_block(memory: Memory, op: Operation, function: Function, values: Sequence[Value], active: Active) -> None:
    """Evaluates a `tt.store` through a block pointer."""
    pointer, value = values[0], to_array(values[1])
    assert isinstance(pointer, BlockPointer)
    kind = parse_type(function.types[op.operands[0]])
    checked = parse_integers(op.text, "boundaryCheck") or ()
    address, mask = reach_block(pointer, pointer.offsets, kind.shape, checked, value.dtype.itemsize)
    memory.store(AccessSite(operation=op, address=address, mask=mask, active=active), value)


_REDUCTIONS = {"add": "fadd", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}


def access_descriptor(
    memory: Memory, op: Operation, function: Function, values: Sequence[Value], active: Active
) -> Array | None:
    """Evaluates `tt.descriptor_*`: all axes are checked."""
    kind = parse_type(function.types[op.operands[0]])
    dtype, pointer, rest = find_dtype(kind.pointee), values[0], [to_array(value) for value in values[1:]]
    loads = op.name in ("tt.descriptor_load", "tt.descriptor_gather")
    source = None if loads else _take_source(op, function, rest)
    indices = rest if loads else [array for array in rest if array is not source]
    block, rows = kind.shape, None
    if op.name.endswith(("gather", "scatter")):
        rows = indices[0]
        row_shape = next(
            parse_type(function.types[o]).shape
            for o in op.operands[1:]
            if parse_type(function.types[o]).element == "i32" and parse_type(function.types[o]).shape
        )
        block = (row_shape[0], kind.shape[1])
        rows = np.broadcast_to(rows, (rows.shape[0], row_shape[0]))
        starts = [indices[1], indices[1]]
    else:
        starts = indices
    if len(starts) != len(block):
        raise NotCoveredError(f"{op.name} of another rank than its descriptor")
    address, mask = reach_block(pointer, starts, block, range(len(block)), dtype.itemsize, rows=rows)
    target = AccessSite(operation=op, address=address, mask=mask, active=active)
    pads = isinstance(pointer, BlockPointer) and pointer.pads_nan
    if loads:
        found = memory.load(target, _get_padding(dtype, len(block), pads), dtype)
        result = parse_type(function.types[op.results[0]]).shape
        full = np.broadcast_to(found, (found.shape[0], *block))
        return full.reshape(full.shape[0], *result)
    assert source is not None
    source = np.broadcast_to(source, (source.shape[0], *parse_type(function.types[_find_source(op, function)]).shape))
    source = source.reshape(source.shape[0], *block)
    if op.name == "tt.descriptor_reduce":
        word = parse_word(op.text, op.name)
        if word not in _REDUCTIONS:
            raise NotCoveredError(f"tt.descriptor_reduce {word}")
        name = "add" if word == "add" and dtype.kind == "i" else _REDUCTIONS[word]
        if kind.pointee.startswith("ui") and word in ("min", "max"):
            name = f"u{word}"
        prepare_update(op, name)(memory, target, source)
        return None
    memory.store(target, source)
    return None


def _find_source(op: Operation, function: Function) -> int:
    """The operand that is stored: the only tensor that is not the rows of a scatter; the last where both are."""
    tensors = [operand for operand in op.operands[1:] if len(parse_type(function.types[operand]).shape) > 0]
    if not tensors:
        raise NotCoveredError(f"{op.name} without a tensor")
    return tensors[-1]


def _take_source(op: Operation, function: Function, rest: Sequence[Array]) -> Array:
    return rest[op.operands[1:].index(_find_source(op, function))]
