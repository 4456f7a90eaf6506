"""Which output of an instruction shares the buffer of which operand, as far as XLA would accept that it says so.

`output_to_operand_aliasing` comes from a file. An entry counts when, as XLA's verifier (hlo_verifier.cc) wants it:
  (1) the operand exists, and both ShapeIndices stand for a part of its shape and of the result's;
  (2) both parts have the same element type and dimensions; what has no shape of an array is no buffer;
  (3) no other entry names the same output or the same operand;
and, in a module with a buffer assignment, when
  (4) both really stand in the same bytes.
Any other entry is no alias: what the kernel writes there stays a hidden write.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.hlo.shape import ShapeIndex, render_shape
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, OutputOperandAliasing, ShapeProto


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidAlias:
    """An entry that is no alias."""

    instruction: int
    """Its id."""
    operand: int
    """operand_number that the entry names, which may not exist."""
    output: ShapeIndex
    reason: str
    """One clause: what is wrong."""


def take_invalid_aliases(proto: HloInstructionProto, operands: list[ShapeProto]) -> Iterator[InvalidAlias]:
    """Removes the entries that are no alias from the message, and yields them: (1) to (3)."""
    entries = list(proto.output_operand_aliasing)
    outputs = Counter(tuple(entry.output_shape_index) for entry in entries)
    sources = Counter((entry.operand_index, tuple(entry.operand_shape_index)) for entry in entries)
    for number in reversed(range(len(entries))):
        entry = entries[number]
        output = tuple(entry.output_shape_index)
        reason = _find_fault(entry, proto.shape, operands)
        if not reason and (outputs[output] > 1 or sources[entry.operand_index, tuple(entry.operand_shape_index)] > 1):
            reason = "another entry names the same buffer"
        if reason:
            yield InvalidAlias(instruction=proto.id, operand=entry.operand_index, output=output, reason=reason)
            del proto.output_operand_aliasing[number]


def render_index(index: ShapeIndex) -> str:
    """`{0,1}`, as XLA writes it."""
    return f"{{{','.join(map(str, index))}}}"


def _find_fault(entry: OutputOperandAliasing, result: ShapeProto, operands: list[ShapeProto]) -> str:
    if not 0 <= entry.operand_index < len(operands):
        return f"the call has {len(operands)} operands"
    output = _find_part(result, tuple(entry.output_shape_index))
    operand = _find_part(operands[entry.operand_index], tuple(entry.operand_shape_index))
    if output is None:
        return f"the result is `{render_shape(result)}` and has no such part"
    if operand is None:
        return f"the operand is `{render_shape(operands[entry.operand_index])}` and has no such part"
    if render_shape(output) != render_shape(operand):
        return f"the output is `{render_shape(output)}`, the operand `{render_shape(operand)}`"
    return ""


def _find_part(shape: ShapeProto, index: ShapeIndex) -> ShapeProto | None:
    for number in index:
        if not 0 <= number < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[number]
    return shape
