"""Other names of one value: what is followed to the instruction, and the leaf of its shape, that makes it.

  (1) bitcast: its operand. get-tuple-element: the element. tuple: the operand that the index names.
  (2) Parameter of a `call`, a `fusion` or a conditional's branch: the caller's operand.
A loop's parameter, an optimization barrier and a copy are values of their own.
"""

from ligerdiag.analysis.writes import Frames
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import ShapeIndex

type Name = tuple[int, ShapeIndex]
"""Instruction id, and which leaf of its shape."""


def resolve_name(frames: Frames, operand: int) -> Name:
    """What makes the operand of the last frame's instruction."""
    value, index = frames[-1].instruction.operands[operand], ()
    outer = frames[:-1]
    while True:
        if value.opcode == "bitcast":
            value = value.operands[0]
        elif value.opcode == "get-tuple-element":
            value, index = value.operands[0], (value.proto.tuple_index, *index)
        elif value.opcode == "tuple" and index:
            value, index = value.operands[index[0]], index[1:]
        elif value.opcode == "parameter" and outer:
            given = _find_argument(outer, frames[len(outer)].computation.id, value)
            if given is None:
                return value.id, index
            value, outer = given, outer[:-1]
        else:
            return value.id, index


def are_exclusive(a: Frames, b: Frames) -> bool:
    """Whether of two call paths only one can be run at a time: they part in the branches of one conditional."""
    for one, other in zip(a, b, strict=False):
        if one.computation is not other.computation:
            return True
        if one.instruction is not other.instruction:
            return False
    return False


def _find_argument(outer: Frames, callee: int, parameter: HloInstruction) -> HloInstruction | None:
    caller = outer[-1].instruction
    if caller.opcode in ("call", "fusion"):
        return caller.operands[parameter.proto.parameter_number]
    if caller.opcode == "conditional":
        return caller.operands[1 + caller.called_computations.index(callee)]
    return None
