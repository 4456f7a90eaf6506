"""The number of iterations of a loop, as far as the module gives it."""

import json
from typing import cast

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple

_SAME_VALUE = having(Trait.KEEPS_SCALAR)


def find_trip_count(module: HloModule, loop: HloInstruction) -> int | None:
    """Iterations of a `while`: XLA's own count, or that of `i < constant` when i counts by 1; None when neither."""
    known = _parse_known_count(loop.proto.backend_config)
    return known if known is not None else _read_condition(module, loop)


def find_longest_loop(module: HloModule) -> int:
    """Returns the largest known number of iterations of a loop of the module; 1 when there is none."""
    loops = [i for c in module.computations.values() for i in c.instructions if i.opcode == "while"]
    return max([find_trip_count(module, loop) or 1 for loop in loops], default=1)


def _parse_known_count(config: bytes) -> int | None:
    """From the loop's backend_config, a JSON object."""
    try:
        fields: object = json.loads(config)
        for name in ("known_trip_count", "n"):
            fields = cast(dict[str, object], fields)[name]
        count = int(cast(str, fields))
    except (ValueError, KeyError, TypeError):
        return None
    return max(count, 0)


def _read_condition(module: HloModule, loop: HloInstruction) -> int | None:
    condition = module.computations[loop.called_computations[1]]
    compare = _see_through(condition.root)
    if compare.opcode != "compare" or compare.proto.comparison_direction != "LT" or len(compare.operands) != 2:
        return None
    counter, limit = (_see_through(operand) for operand in compare.operands)
    last = _read_constant(limit)
    if counter.opcode != "get-tuple-element" or counter.operands[0].opcode != "parameter" or last is None:
        return None
    start = _see_through(loop.operands[0])
    if start.opcode != "tuple" or counter.proto.tuple_index >= len(start.operands):
        return None
    first = _read_constant(_see_through(start.operands[counter.proto.tuple_index]))
    return None if first is None else max(last - first, 0)


def _see_through(instruction: HloInstruction) -> HloInstruction:
    """Returns the instruction that made the value: barriers and changes of form give it on."""
    while True:
        if instruction.opcode in _SAME_VALUE:
            instruction = instruction.operands[0]
        elif instruction.opcode == "get-tuple-element":
            whole = _see_through(instruction.operands[0])
            if whole.opcode != "tuple" or instruction.proto.tuple_index >= len(whole.operands):
                return instruction
            instruction = whole.operands[instruction.proto.tuple_index]
        else:
            return instruction


def _read_constant(instruction: HloInstruction) -> int | None:
    """Returns the value of an integer scalar."""
    literal = instruction.proto.literal
    if instruction.opcode != "constant" or is_tuple(instruction.shape) or instruction.shape.dimensions:
        return None
    for values in (literal.s32s, literal.s64s, literal.u32s, literal.u64s):
        if len(values) == 1:
            return values[0]
    return None
