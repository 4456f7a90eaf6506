"""Computes the results of one operation without regions for all programs of a launch: numbers, masks and addresses."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ligerdiag.effects.launches.index_arithmetic import (
    BINARY,
    add_to_pointer,
    advance,
    compute_binary,
    convert,
    make_block_pointer,
    reach_block,
)
from ligerdiag.effects.launches.index_masks import broadcast, compare, expand_dims, reshape, select, splat, transpose
from ligerdiag.effects.launches.index_values import (
    ELSEWHERE,
    UNKNOWN,
    AbstractBlockPointer,
    Budget,
    Dense,
    IndexValue,
    Linear,
    MaskBox,
    Pointer,
    Unknown,
    forget,
    get_roots,
    make_range,
    make_scalar,
    make_splat,
    make_truth,
)
from ligerdiag.effects.libtriton import (
    parse_bits,
    parse_constant,
    parse_element,
    parse_integer,
    parse_integers,
    parse_pointee,
    parse_shape,
    parse_width,
    parse_word,
)
from ligerdiag.effects.ttir_module import Function, Operation

_CASTS = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui"})
_POINTED = frozenset({"tt.splat", "tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape"})
_BLOCK_ACCESSES = frozenset(
    {
        "tt.descriptor_load",
        "tt.descriptor_store",
        "tt.descriptor_reduce",
        "tt.descriptor_gather",
        "tt.descriptor_scatter",
    }
)
_MASKS = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
"""The position of the mask among an operation's operands; an operation with fewer operands has no mask."""


class LaunchSite:
    """The grid of a launch, and the programs (kernel instances) in the grid that the evaluation follows."""

    def __init__(self, grid: tuple[int, int, int], budget: Budget, *, ends_only: bool = False) -> None:
        """Lists the programs to follow. ends_only: whether these are only the grid's first and last program."""
        self.grid = grid
        self.budget = budget
        total = prod(grid)
        self.programs = min(total, 2) if ends_only else total
        self.active = np.ones(self.programs, bool)
        """bool[programs]: the programs that execute the operation that is being followed now."""
        budget.spend(4 * self.programs)
        numbers = np.array([0, total - 1])[: self.programs] if ends_only else np.arange(total, dtype=np.int64)
        width, height, _ = grid
        self._ids = (numbers % width, numbers // width % height, numbers // (width * height))

    def get_program_id(self, axis: int) -> Linear:
        """Returns the position of each program along one axis of the grid (0 is x)."""
        return make_scalar(0) if self.grid[axis] == 1 else make_scalar(self._ids[axis])

    def reach(
        self, op: Operation, values: Sequence[IndexValue], function: Function, budget: Budget
    ) -> tuple[Pointer, MaskBox | Dense | Unknown | None, int] | None:
        """Returns the addresses of a memory operation, its mask, and the bytes of an element. Returns None if the operation
        may access any address.

        The mask is None if the operation accesses all elements. It is Unknown if the accessed elements are unknown.
        """
        types = [function.types.get(operand, "") for operand in op.operands]
        if not types:
            return None
        width = parse_width(parse_pointee(types[0]))
        if op.name in _BLOCK_ACCESSES:
            rank = len(parse_shape(types[0]))
            numbers = [
                value
                for value, text in zip(values[1:], types[1:], strict=True)
                if parse_element(text) == "i32" and (text == "i32" or op.name.endswith(("gather", "scatter")))
            ][:rank]
            if op.name.endswith(("gather", "scatter")):
                shape = _get_gathered_shape(types)
                found = None if shape is None else _reach_rows(values[0], numbers, shape, width, budget)
            else:
                found = reach_block(values[0], numbers, range(rank), width, budget)
            return None if found is None or width is None else (*found, width)
        if op.name not in _MASKS and op.name != "tt.atomic_cas":
            return None
        if "tensor<" in parse_element(types[0]):
            offsets = getattr(values[0], "offsets", ())
            checked = parse_integers(op.text, "boundaryCheck") or ()
            found = reach_block(values[0], offsets, checked, width, budget)
            return None if found is None or width is None else (*found, width)
        pointer = values[0]
        if not isinstance(pointer, Pointer) or width is None:
            return None
        place = _MASKS.get(op.name, len(values))
        mask: IndexValue | None = values[place] if place < len(values) else None
        if mask is None or (isinstance(mask, MaskBox) and mask.is_uniform and bool(mask.gate.all())):
            return pointer, None, width
        return pointer, mask if isinstance(mask, MaskBox | Dense) else UNKNOWN, width


def _get_gathered_shape(types: Sequence[str]) -> tuple[int, ...] | None:
    """Returns the numbers of rows and columns that a gather or scatter accesses; None if its types do not fit.

    types: the types of its operands; the block of the descriptor, the first operand, is a single row.
    """
    block = parse_shape(types[0])
    rows = parse_shape(types[1])
    return (rows[0], block[1]) if len(block) == 2 and len(rows) == 1 else None


def _reach_rows(
    pointer: IndexValue, numbers: Sequence[IndexValue], shape: tuple[int, ...], width: int | None, budget: Budget
) -> tuple[Pointer, MaskBox | Dense | Unknown | None] | None:
    if not isinstance(pointer, AbstractBlockPointer):
        return None
    return reach_block(replace(pointer, block=shape), numbers, range(len(shape)), width, budget)


def compute_results(
    op: Operation, values: Sequence[IndexValue], function: Function, place: LaunchSite
) -> tuple[IndexValue, ...]:
    """Returns the results of an operation that accesses no memory and has no regions. values: its operands."""
    if len(op.results) != 1:
        return tuple(make_unknown(op, values, function) for _ in op.results)
    result = function.types.get(op.results[0], "")
    found = _compute(op, values, function, place, result)
    if found is UNKNOWN and op.results[0] in function.pointers:
        found = make_unknown(op, values, function)
    return (found,)


def make_unknown(op: Operation, values: Sequence[IndexValue], function: Function) -> Unknown:
    """Returns an `Unknown` for the results of an operation. values: its operands.

    A result that is a pointer may point into the buffers of the operands. If no operand is a pointer, it may point anywhere.
    """
    if not any(result in function.pointers for result in op.results):
        return UNKNOWN
    roots = frozenset[int]().union(*(get_roots(value) for value in values))
    pointers = [operand in function.pointers for operand in op.operands]
    known = any(pointers) and all(get_roots(v) for v, is_pointer in zip(values, pointers, strict=True) if is_pointer)
    return Unknown(roots=roots if known else roots | {ELSEWHERE})


def _compute(
    op: Operation, values: Sequence[IndexValue], function: Function, place: LaunchSite, result: str
) -> IndexValue:
    budget, name = place.budget, op.name
    shape, bits = parse_shape(result), parse_bits(parse_element(result))
    match name:
        case "arith.constant":
            return _make_constant(op.text, shape, bits)
        case "tt.get_program_id" | "tt.get_num_programs":
            axis = "xyz".find(parse_word(op.text, name) or "?")
            if axis < 0:
                return UNKNOWN
            return place.get_program_id(axis) if name == "tt.get_program_id" else make_scalar(place.grid[axis])
        case "tt.make_range":
            start, end = parse_integer(op.text, "start"), parse_integer(op.text, "end")
            return UNKNOWN if start is None or end is None else make_range(start, end)
        case "arith.cmpi":
            operand = parse_bits(parse_element(function.types.get(op.operands[0], "")))
            predicate = parse_word(op.text, name)
            return UNKNOWN if operand in (None, 1) else compare(predicate, values[0], values[1], budget)
        case "arith.select":
            return _select(values, budget)
        case _ if name in BINARY:
            return UNKNOWN if bits is None else compute_binary(name, values[0], values[1], bits, budget, place.active)
        case _ if name in _CASTS:
            source = parse_bits(parse_element(function.types.get(op.operands[0], "")))
            if source is None or bits is None:
                return UNKNOWN
            return convert(values[0], name, source, bits, budget)
        case "arith.bitcast":
            source = parse_bits(parse_element(function.types.get(op.operands[0], "")))
            return values[0] if bits is not None and source == bits else UNKNOWN
        case "tt.addptr":
            width = parse_width(parse_pointee(result))
            return add_to_pointer(values[0], values[1], width, budget)
        case "tt.bitcast":
            return values[0] if op.results[0] in function.pointers else UNKNOWN
        case "tt.advance":
            return advance(values[0], values[1:], budget)
        case "tt.make_tensor_descriptor" | "tt.make_tensor_ptr":
            groups = 2 if name == "tt.make_tensor_descriptor" else 3
            return make_block_pointer(values[0], values[1:], shape, groups)
        case _ if name in _POINTED:
            return _reshape(op, values[0], shape, budget)
        case _:
            return UNKNOWN


def _make_constant(text: str, shape: tuple[int, ...], bits: int | None) -> IndexValue:
    value = parse_constant(text)
    if value is None or bits is None:
        return UNKNOWN
    return make_truth(bool(value), shape) if bits == 1 else make_splat(value, shape)


def _select(values: Sequence[IndexValue], budget: Budget) -> IndexValue:
    condition, yes, no = values
    if isinstance(yes, Pointer) and isinstance(no, Pointer) and yes.root == no.root:
        offset = select(condition, yes.offset, no.offset, budget)
        if isinstance(offset, Linear | Dense):
            return Pointer(root=yes.root, offset=offset)
    if isinstance(yes, Linear | MaskBox | Dense) and isinstance(no, Linear | MaskBox | Dense):
        return select(condition, yes, no, budget)
    if isinstance(condition, MaskBox) and condition.is_uniform and condition.gate.all():
        return yes
    if isinstance(condition, MaskBox) and condition.is_uniform and not condition.gate.any():
        return no
    return forget(yes, no)


def _reshape(op: Operation, value: IndexValue, shape: tuple[int, ...], budget: Budget) -> IndexValue:
    if isinstance(value, Pointer):
        offset = _reshape(op, value.offset, shape, budget)
        return Pointer(root=value.root, offset=offset) if isinstance(offset, Linear | Dense) else forget(value)
    if not isinstance(value, Linear | MaskBox | Dense):
        return forget(value)
    match op.name:
        case "tt.splat":
            return splat(value, shape)
        case "tt.expand_dims":
            axis = parse_integer(op.text, "axis")
            return UNKNOWN if axis is None else expand_dims(value, axis)
        case "tt.broadcast":
            return broadcast(value, shape)
        case "tt.trans":
            order = parse_integers(op.text, "order")
            return UNKNOWN if order is None else transpose(value, order)
        case _:
            return UNKNOWN if "allow_reorder" in op.text else reshape(value, shape, budget)
