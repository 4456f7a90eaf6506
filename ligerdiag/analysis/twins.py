"""Twins: operations that compute the same value, as common subexpression elimination sees it.

Value numbering, one pass in dependency order: two operations have one number when opcode, shape, attributes and the
numbers of their operands are the same. Reducers and other called computations are not compared: two reductions that
differ in nothing else count as twins. What gives its operand's elements as they are, by arithmetic (x * 1) or as one of the
barriers that only the program as written has, is its operand.
"""

from collections.abc import Mapping
from functools import lru_cache

from ligerdiag.analysis.identities import ARITHMETIC, find_same_elements
from ligerdiag.hlo.module import HloComputation, HloInstruction

_OURS = ("", "ligerdiag_snapshot")
"""Last part of the names of the barriers that only the program as written has."""
_IGNORED = ("name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids")


@lru_cache(maxsize=32)
def number_values(computation: HloComputation) -> Mapping[int, int]:
    """Instruction id to the number of its value: twins, and nothing else, have the same one."""
    known: dict[tuple[bytes, tuple[int, ...]], int] = {}
    numbers: dict[int, int] = {}
    for instruction in computation.instructions:
        same = find_one_value(instruction)
        if same is not None:
            numbers[instruction.id] = numbers[same.id]
            continue
        operands = tuple([numbers[operand.id] for operand in instruction.operands])
        numbers[instruction.id] = known.setdefault((_attributes(instruction), operands), len(known))
    return numbers


def find_one_value(instruction: HloInstruction) -> HloInstruction | None:
    """The operand that the instruction is to XLA; None where it is a value of its own."""
    if instruction.opcode == "opt-barrier":
        name = instruction.op_name.partition("#ld")[0].rpartition("/")[2]
        return instruction.operands[0] if name in _OURS else None
    if instruction.opcode in ARITHMETIC:
        return find_same_elements(instruction)
    return None


def _attributes(instruction: HloInstruction) -> bytes:
    stripped = type(instruction.proto)()
    stripped.CopyFrom(instruction.proto)
    for field in _IGNORED:
        stripped.ClearField(field)
    return stripped.SerializeToString(deterministic=True)
