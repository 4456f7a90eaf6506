"""Evaluates operations on memory and the grid: loads, stores, atomics, block pointers, descriptors, program ids,
prints, asserts.

`tt.atomic_rmw` and `tt.atomic_cas` run program by program in order, and lane by lane within a program, whatever memory
ordering (`sem`) they ask for. A program's result is the value that it found at its turn; masked elements give zero.
Accesses through block pointers and tensor descriptors mask the elements outside the tensor.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ligerdiag.effects.libtriton import parse_integers, parse_width, parse_word
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.code import Activation, Instruction
from ligerdiag.replay.triton_ir.launch_memory import AccessSite, Memory
from ligerdiag.replay.triton_ir.operations.floats import narrow, widen
from ligerdiag.replay.triton_ir.operations.integers import view_unsigned
from ligerdiag.replay.triton_ir.values import (
    Active,
    BlockPointer,
    DType,
    Sum,
    Value,
    add_address,
    find_dtype,
    is_narrow,
    parse_type,
    to_array,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicOrder:
    """The atomic operations of a module whose effect depends on the order of the programs. Each is given by its `id()`.

    Other atomic updates commute: only the rounding of their sums depends on the order.
    """

    ordered: frozenset[int]
    """Ids of the atomic operations whose effect depends on the order of the programs: exchanges, compare-and-swaps, and
    every operation whose result is used. If the module has several kinds of updates, the ids of all its atomic
    operations.
    """
    updates: frozenset[int]
    """Ids of the atomic operations that read the bytes that they update: all of them, except exchanges whose result
    nobody uses.
    """


def find_atomic_order(module: TtirModule) -> AtomicOrder:
    """Finds the atomic operations of the module whose effect depends on the order of the programs."""
    atomics: list[tuple[Operation, str, bool]] = []
    for function in module.functions.values():
        used = {operand for op in function.operations for operand in op.operands}
        for op in function.operations:
            if op.name in ("tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce"):
                kind = "cas" if op.name == "tt.atomic_cas" else parse_word(op.text, op.name).removeprefix("f")
                atomics.append((op, kind, not used.isdisjoint(op.results)))
    mixed = len({kind for _, kind, _ in atomics}) > 1
    return AtomicOrder(
        ordered=frozenset(id(op) for op, kind, is_used in atomics if mixed or is_used or kind in ("exch", "cas")),
        updates=frozenset(id(op) for op, kind, is_used in atomics if is_used or kind != "exch"),
    )


def _exchange(old: Array, new: Array) -> Array:
    del old
    return new


_KINDS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "fadd": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": np.maximum,
    "umin": np.minimum,
    "exch": _exchange,
}


def prepare_update(op: Operation, kind: str = "") -> Callable[[Memory, AccessSite, Array], Array]:
    """Returns a function that evaluates an atomic update. The function takes the memory, the addresses and the values,
    and returns the old values.

    kind: the update, such as `fadd`. If it is empty, the text of `op`, a `tt.atomic_rmw`, names the update.
    """
    kind = kind or parse_word(op.text, "tt.atomic_rmw")
    function = _KINDS.get(kind)
    if function is None:
        raise NotCoveredError(f"tt.atomic_rmw with the operation {kind}")

    def compute(memory: Memory, target: AccessSite, value: Array) -> Array:
        def combine(old: Array, new: Array) -> Array:
            if kind.startswith("u"):
                return function(view_unsigned(old), view_unsigned(new)).view(old.dtype)
            if is_narrow(old.dtype):
                return narrow(function(widen(old), widen(new)), old.dtype)
            return function(old, new)

        return _update(memory, target, value, combine)

    return compute


def compare_and_swap(memory: Memory, target: AccessSite, expected: Array, value: Array) -> Array:
    """Evaluates a `tt.atomic_cas` and returns the old values. Where the old value equals `expected` bit by bit, `value`
    replaces it.
    """
    shape = target.get_shape(expected, value)
    joined: Any = np.empty(
        np.broadcast_shapes(shape, (memory.numbers.size, *(1,) * (len(shape) - 1))), _make_pair_dtype(value.dtype)
    )
    joined["expected"], joined["value"] = expected, value

    def combine(old: Array, new: Array) -> Array:
        bits = f"u{old.dtype.itemsize}"
        same = old.view(bits) == np.ascontiguousarray(new["expected"]).view(bits)
        return np.where(same, new["value"], old)

    return _update(memory, target, joined, combine)


def _make_pair_dtype(dtype: Any) -> Any:
    return np.dtype([("expected", dtype), ("value", dtype)])


def _update(memory: Memory, target: AccessSite, value: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """Applies an atomic operation to memory and returns the old values.

    Works in rounds, each with at most one update per address, in the order of programs and lanes. combine: returns the
    new values from the old values and `value`.
    """
    memory.journal.used_atomics = True
    dtype = value.dtype if value.dtype.names is None else value.dtype["value"]
    shape, parts = memory.locate_elements(target, "atomic", dtype.itemsize, value)
    result = np.zeros(shape, dtype)
    flat = result.reshape(-1)
    values = np.broadcast_to(value, shape).reshape(-1)
    for argument, lanes, offsets in parts:
        whole, places = memory.view_elements(argument, offsets, dtype)
        if places.ndim > 1:
            raise NotCoveredError("a misaligned atomic operation: its address is not a multiple of the element's size")
        if memory.keeps_overwritten:
            touched = np.unique(places)
            memory.journal.overwritten.append((whole, touched, whole[touched]))
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        turn = np.empty(places.size, np.int64)
        turn[order] = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
        by_turn = np.argsort(turn, kind="stable")
        bounds = np.searchsorted(turn[by_turn], np.arange(int(turn.max()) + 2))
        for first, last in pairwise(bounds):
            chosen = by_turn[first:last]
            old = whole[places[chosen]]
            flat[lanes[chosen]] = old
            whole[places[chosen]] = combine(old, values[lanes[chosen]])
    return result


def make_pointer(op: Operation, values: Sequence[Value]) -> BlockPointer:
    """Evaluates a `tt.make_tensor_ptr` or `tt.make_tensor_descriptor` with the operands `values`."""
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
    """Evaluates `tt.advance`: returns the block pointer, moved by an offset for each axis. The offsets count elements."""
    if not isinstance(pointer, BlockPointer):
        raise NotCoveredError("tt.advance of a value that is not a block pointer")
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
    """Returns the addresses and the mask of a block's elements, both [programs, *block]. The mask is None if it is true
    for all elements.

    starts: the block's position on each axis. checked: axes on which elements outside the tensor are masked. width:
    bytes of an element. rows: coordinates along the first axis, for a gather or scatter.
    """
    if not isinstance(pointer, BlockPointer):
        raise NotCoveredError("an access through a value that is not a block pointer")
    rank = len(block)
    address: Array | Sum = pointer.base.reshape(-1, *(1,) * rank)
    mask: Array | None = None
    skipped = len(pointer.shape) - rank
    if skipped:
        raise NotCoveredError("a block and a tensor of different ranks")
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
    """Returns the elements that a `tt.load` through a block pointer reads."""
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
    """Evaluates a `tt.descriptor_*` operation. Returns the loaded elements, or None if the operation stores.

    Elements outside the tensor are masked on all axes.
    """
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
        raise NotCoveredError(f"{op.name} with {len(starts)} coordinates for a descriptor of rank {len(block)}")
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
            raise NotCoveredError(f"tt.descriptor_reduce with the operation {word}")
        name = "add" if word == "add" and dtype.kind == "i" else _REDUCTIONS[word]
        if kind.pointee.startswith("ui") and word in ("min", "max"):
            name = f"u{word}"
        prepare_update(op, name)(memory, target, source)
        return None
    memory.store(target, source)
    return None


def _find_source(op: Operation, function: Function) -> int:
    """Returns the number, in the function, of the value that a store through a descriptor writes: the last operand that
    is a tensor (in a scatter, the row numbers come before it).
    """
    tensors = [operand for operand in op.operands[1:] if len(parse_type(function.types[operand]).shape) > 0]
    if not tensors:
        raise NotCoveredError(f"{op.name} without a tensor to store")
    return tensors[-1]


def _take_source(op: Operation, function: Function, rest: Sequence[Array]) -> Array:
    return rest[op.operands[1:].index(_find_source(op, function))]


def evaluate_memory_operation(
    frame: Activation, instruction: Instruction, numbers: Array, grid: tuple[int, int, int], active: Active
) -> list[Value]:
    """Evaluates an operation on addresses, memory or the grid, and returns its results.

    numbers: the number of each program of the batch; the programs of the grid are numbered consecutively.
    """
    op, function = instruction.op, frame.code.function
    values = frame.take(op.operands)
    match op.name:
        case "tt.get_program_id" | "tt.get_num_programs":
            return [_get_grid_number(op, numbers, grid)]
        case "tt.addptr":
            width = parse_width(parse_type(function.types[op.results[0]]).pointee)
            if width is None or isinstance(values[0], BlockPointer) or isinstance(values[1], BlockPointer):
                raise NotCoveredError("tt.addptr of a type of unknown size")
            return [add_address(values[0], values[1], width)]
        case "tt.make_tensor_ptr" | "tt.make_tensor_descriptor":
            return [make_pointer(op, values)]
        case "tt.advance":
            return [advance(values[0], values[1:])]
        case _:
            pass
    memory = frame.memory
    if memory is None:
        raise NotCoveredError(f"{op.name} in a combining function")
    return _access(memory, instruction, function, values, active)


def _get_grid_number(op: Operation, numbers: Array, grid: tuple[int, int, int]) -> Array:
    axis = "xyz".find(parse_word(op.text, op.name) or "?")
    if axis < 0:
        raise NotCoveredError(f"a {op.name} whose axis could not be read")
    width, height, _ = grid
    if op.name == "tt.get_num_programs" or grid[axis] == 1:
        return np.array([grid[axis] if op.name == "tt.get_num_programs" else 0], np.int32)
    return (
        (numbers, numbers // width, numbers // (width * height))[axis]
        .astype(np.int64)
        .__mod__(grid[axis])
        .astype(np.int32)
    )


def _access(
    memory: Memory, instruction: Instruction, function: Function, values: list[Value], active: Active
) -> list[Value]:
    op = instruction.op
    match op.name, values:
        case "tt.load", [BlockPointer() as pointer, *_]:
            return [load_block(memory, op, function, pointer, active)]
        case "tt.load", [address, *rest]:
            dtype = parse_type(function.types[op.results[0]]).get_dtype()
            arrays = [to_array(value) for value in rest]
            mask, other = (*arrays, None, None)[:2]
            return [memory.load(_make_target(op, address, mask, active), other, dtype)]
        case "tt.store", [BlockPointer(), _, *_]:
            store_block(memory, op, function, values, active)
            return []
        case "tt.store", [address, value, *rest]:
            mask = to_array(rest[0]) if rest else None
            memory.store(_make_target(op, address, mask, active), to_array(value))
            return []
        case "tt.atomic_rmw", [address, value, *rest]:
            if instruction.memo is None:
                instruction.memo = prepare_update(op)
            mask = to_array(rest[0]) if rest else None
            return [instruction.memo(memory, _make_target(op, address, mask, active), to_array(value))]
        case "tt.atomic_cas", [address, expected, value]:
            pair = to_array(expected), to_array(value)
            return [compare_and_swap(memory, _make_target(op, address, None, active), *pair)]
        case name, _ if name.startswith("tt.descriptor_"):
            found = access_descriptor(memory, op, function, values, active)
            return [] if found is None else [found]
        case "tt.print" | "tt.assert", _:
            return []  # no report shows prints and asserts
        case name, _:
            raise NotCoveredError(name)


def _make_target(op: Operation, address: Value, mask: Array | None, active: Active) -> AccessSite:
    if isinstance(address, BlockPointer):
        raise NotCoveredError(f"{op.name} through a block pointer")
    return AccessSite(operation=op, address=address, mask=mask, active=active)
