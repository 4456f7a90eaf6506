"""Twins: operations that compute the same value, as common subexpression elimination sees it.

Reducers and other called computations are not compared: two reductions that differ in nothing else count as twins.
"""

from ligerdiag.hlo.module import HloInstruction

MAX_DEPTH = 64
"""Past this depth two values are taken for equal: the cautious answer for whoever asks."""


def are_twins(a: HloInstruction, b: HloInstruction, depth: int = MAX_DEPTH) -> bool:
    """Whether opcode, shape, attributes and, down to `depth`, all operands are the same."""
    if a is b or depth == 0:
        return True
    if a.opcode != b.opcode or a.opcode == "parameter" or len(a.operands) != len(b.operands):
        return False
    if _attributes(a) != _attributes(b):
        return False
    return all(are_twins(x, y, depth - 1) for x, y in zip(a.operands, b.operands, strict=True))


def _attributes(instruction: HloInstruction) -> bytes:
    stripped = type(instruction.proto)()
    stripped.CopyFrom(instruction.proto)
    for field in ("name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids"):
        stripped.ClearField(field)
    return stripped.SerializeToString(deterministic=True)
