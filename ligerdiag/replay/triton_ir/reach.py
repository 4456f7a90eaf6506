"""Operations that reach beyond their operands: the grid, addresses, memory, and what a kernel prints."""

import re

import numpy as np

from ligerdiag.effects.libtriton import parse_width, parse_word
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir import block_pointers
from ligerdiag.replay.triton_ir.atomics import compare_and_swap, prepare_update
from ligerdiag.replay.triton_ir.code import Activation, Instruction, say_place
from ligerdiag.replay.triton_ir.memory import AccessSite, Memory
from ligerdiag.replay.triton_ir.values import Active, BlockPointer, Value, add_address, parse_type, to_array

MOST_PRINTED = 1000


def reach(
    frame: Activation, instruction: Instruction, numbers: Array, grid: tuple[int, int, int], active: Active
) -> list[Value]:
    """Returns the results of an operation on addresses, memory or the grid.

    numbers: of the programs, in the grid.
    """
    op, function = instruction.op, frame.code.function
    values = frame.take(op.operands)
    match op.name:
        case "tt.get_program_id" | "tt.get_num_programs":
            return [_get_grid_number(op, numbers, grid)]
        case "tt.addptr":
            width = parse_width(parse_type(function.types[op.results[0]]).pointee)
            if width is None or isinstance(values[0], BlockPointer) or isinstance(values[1], BlockPointer):
                raise NotCoveredError("tt.addptr of a type whose size is not known")
            return [add_address(values[0], values[1], width)]
        case "tt.make_tensor_ptr" | "tt.make_tensor_descriptor":
            return [block_pointers.make_pointer(op, function, values)]
        case "tt.advance":
            return [block_pointers.advance(values[0], values[1:])]
        case _:
            pass
    memory = frame.memory
    if memory is None:
        raise NotCoveredError(f"{op.name} in a combining function")
    return _access(memory, instruction, function, values, active)


def _get_grid_number(op: Operation, numbers: Array, grid: tuple[int, int, int]) -> Array:
    axis = "xyz".find(parse_word(op.text, op.name) or "?")
    if axis < 0:
        raise NotCoveredError(f"{op.name} without its axis")
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
            return [block_pointers.load_block(memory, op, function, pointer, active)]
        case "tt.load", [address, *rest]:
            dtype = parse_type(function.types[op.results[0]]).get_dtype()
            arrays = [to_array(value) for value in rest]
            mask, other = (*arrays, None, None)[:2]
            return [memory.load(_make_target(op, address, mask, active), other, dtype)]
        case "tt.store", [BlockPointer(), _, *_]:
            block_pointers.store_block(memory, op, function, values, active)
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
            found = block_pointers.access_descriptor(memory, op, function, values, active)
            return [] if found is None else [found]
        case "tt.print" | "tt.assert", _:
            _say(memory, op, function, values, active)
            return []
        case name, _:
            raise NotCoveredError(name)


def _say(memory: Memory, op: Operation, function: Function, values: list[Value], active: Active) -> None:
    """Evaluates `tt.print` and `tt.assert`, program by program."""
    match = re.search(r'"((?:[^"\\]|\\.)*)"', op.text)
    text = match[1] if match else ""
    programs = range(memory.numbers.size) if active is None else np.flatnonzero(active)
    arrays = [
        np.broadcast_to(array, (memory.numbers.size, *parse_type(function.types[operand]).shape))
        for array, operand in zip((to_array(value) for value in values), op.operands, strict=True)
    ]
    journal = memory.journal
    for program in programs:
        number = int(memory.numbers[int(program)])
        if op.name == "tt.assert":
            if not bool(arrays[0][program].all()):
                journal.failed.append((number, f"program {number}: {text}{say_place(op)}"))
        elif len(journal.printed) < MOST_PRINTED:
            parts = [np.array2string(np.asarray(array[program]), threshold=64) for array in arrays]
            journal.printed.append((number, f"program {number}:{text}{' '.join(parts)}"))


def _make_target(op: Operation, address: Value, mask: Array | None, active: Active) -> AccessSite:
    if isinstance(address, BlockPointer):
        raise NotCoveredError("an access through a block pointer")
    return AccessSite(operation=op, address=address, mask=mask, active=active)
