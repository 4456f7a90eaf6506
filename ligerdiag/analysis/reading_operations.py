"""Which operations of a scheduled instruction read one of its operands.

(1) An instruction that is no fusion reads its operand itself.
(2) In a fusion, a use of the parameter is followed through what only moves or casts the value, down to the first operation
    that computes. What moves it and is a result of the fusion reads it, too: the fusion makes a copy.
"""

from collections.abc import Iterator

from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import ShapeIndex

NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT, Trait.MAKES_TUPLE)
MOVES = having(Trait.MOVES, Trait.CASTS)


def find_reading(
    module: HloModule, reader: HloInstruction, operand: int, index: ShapeIndex
) -> tuple[HloInstruction, ...]:
    """The operations that read this leaf of the reader's operand, in the order of their computation."""
    if reader.opcode != "fusion":
        return (reader,)
    fused = module.computations[reader.called_computations[0]]
    found = {leaf.id: leaf for leaf in _follow(fused, fused.parameters[operand], index, set())}
    return tuple([one for one in fused.instructions if one.id in found]) or (reader,)


def _follow(
    computation: HloComputation, value: HloInstruction, index: ShapeIndex, seen: set[int]
) -> Iterator[HloInstruction]:
    for user in computation.users[value.id]:
        if user.opcode == "get-tuple-element" and index:
            if user.proto.tuple_index == index[0]:
                yield from _follow(computation, user, index[1:], seen)
            continue
        if user.opcode == "tuple" or user.id in seen:
            continue  # the fusion's own results are not read here
        seen.add(user.id)
        if user.opcode not in NAMES and user.opcode not in MOVES:
            yield user
            continue
        if user.opcode in MOVES and _is_result(computation, user):
            yield user
        yield from _follow(computation, user, index, seen)


def _is_result(computation: HloComputation, value: HloInstruction) -> bool:
    """Whether the fusion gives this value away, under whatever name."""
    return value is computation.root or any(
        user.opcode in NAMES and _is_result(computation, user) for user in computation.users[value.id]
    )


def find_moves(module: HloModule, value: HloInstruction) -> tuple[str, ...]:
    """Opcodes by which the instruction only moves or casts its one operand; () when it computes something."""
    opcode = strip_phase(value.opcode)
    if opcode in MOVES:
        return (opcode,)
    if value.opcode != "fusion" or len(value.operands) != 1:
        return ()
    fused = module.computations[value.called_computations[0]].instructions
    opcodes = [one.opcode for one in fused if one.opcode != "parameter" and one.opcode not in NAMES]
    return tuple(opcodes) if opcodes and all(one in MOVES for one in opcodes) else ()
