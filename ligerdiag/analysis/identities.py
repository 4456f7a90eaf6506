"""Operations that give their operand's elements as they are, in the same number: XLA may make operand and result one value.

  (1) copy, reshape, transpose, bitcast; convert to the element type that it is of.
  (2) x * 1, 1 * x, x / 1, x + 0, 0 + x, x - 0, with a constant, broadcast or not.
A kernel that overwrites the result then overwrites the operand, too.
"""

from ligerdiag.hlo.dataflow import look_through
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import LiteralProto

_FORMS = having(Trait.SAME_ELEMENTS)
_NEUTRAL = {"multiply": 1.0, "divide": 1.0, "add": 0.0, "subtract": 0.0}
ARITHMETIC = frozenset(_NEUTRAL)
_ONE_SIDED = frozenset({"divide", "subtract"})
_PASSED = having(Trait.KEEPS_SCALAR) - {"bitcast"}
"""A bitcast may read the bits of one as those of another element type."""
_NUMBERS = ("f32s", "f64s", "s32s", "s64s", "u32s", "u64s")
_BYTES = {"f16s": (b"\x00\x3c", b"\x00\x00"), "bf16s": (b"\x80\x3f", b"\x00\x00")}
"""Field to one and zero."""


def find_same_elements(instruction: HloInstruction) -> HloInstruction | None:
    """The operand whose elements the instruction gives as they are; None where it computes something."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in _FORMS and len(operands) == 1:
        return operands[0]
    if opcode == "convert" and operands[0].shape.element_type == instruction.shape.element_type:
        return operands[0]
    neutral = _NEUTRAL.get(opcode)
    if neutral is None or len(operands) != 2:
        return None
    if _is_constant(operands[1], neutral):
        return operands[0]
    return operands[1] if opcode not in _ONE_SIDED and _is_constant(operands[0], neutral) else None


def _is_constant(value: HloInstruction, number: float) -> bool:
    value = look_through(value, _PASSED)
    return value.opcode == "constant" and _holds_only(value.proto.literal, number)


def _holds_only(literal: LiteralProto, number: float) -> bool:
    for name in _NUMBERS:
        if values := getattr(literal, name, None):
            return all(value == number for value in values)
    for name, (one, zero) in _BYTES.items():
        if data := getattr(literal, name, None):
            wanted = one if number else zero
            return data == wanted * (len(data) // len(wanted))
    return False
