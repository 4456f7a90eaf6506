"""Twins: operations that compute the same value, as common subexpression elimination sees it.

Value numbering, one pass in dependency order: two operations have one number when opcode, shape, attributes and the
numbers of their operands are the same. Reducers and other called computations are not compared: two reductions that
differ in nothing else count as twins.
"""

from collections.abc import Mapping
from functools import lru_cache

from ligerdiag.hlo.module import HloComputation, HloInstruction

_IGNORED = ("name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids")


@lru_cache(maxsize=32)
def number_values(computation: HloComputation) -> Mapping[int, int]:
    """Instruction id to the number of its value: twins, and nothing else, have the same one."""
    known: dict[tuple[bytes, tuple[int, ...]], int] = {}
    numbers: dict[int, int] = {}
    for instruction in computation.instructions:
        operands = tuple([numbers[operand.id] for operand in instruction.operands])
        numbers[instruction.id] = known.setdefault((_attributes(instruction), operands), len(known))
    return numbers


def _attributes(instruction: HloInstruction) -> bytes:
    stripped = type(instruction.proto)()
    stripped.CopyFrom(instruction.proto)
    for field in _IGNORED:
        stripped.ClearField(field)
    return stripped.SerializeToString(deterministic=True)
