"""Which buffers of one kernel call stand in the same bytes.

(1) What `output_to_operand_aliasing` declares, wherever the call stands.
(2) What has one slice of the buffer assignment: an output in the place of an operand that is dead, or one value that is
    handed over twice. Buffers that overlap in part are left alone, and so is a call inside of a fusion, whose buffers
    have no slices of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.shape import iterate_leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBytes:
    """An operand and another buffer of the same call, in the same bytes from the first to the last."""

    operand: int
    buffer: int
    """Number of the other one: the call's operands, then its outputs."""
    declared: bool
    """(1), not (2)."""


def find_shared_bytes(call: HloInstruction, positions: Positions) -> Iterator[SharedBytes]:
    """In the order of the operands; what is declared first."""
    count = len(call.operands)
    leaves = list(iterate_leaves(call.shape))
    aliases = call.operand_output_aliases
    slices = [_find_slice(value, positions) for value in call.operands]
    slices += [positions.find(call, leaf) for leaf in leaves]
    for operand in range(count):
        declared = count + leaves.index(aliases[operand]) if aliases.get(operand) in leaves else None
        if declared is not None:
            yield SharedBytes(operand=operand, buffer=declared, declared=True)
        for buffer, number in enumerate(slices):
            if number is not None and number == slices[operand] and buffer not in (operand, declared):
                yield SharedBytes(operand=operand, buffer=buffer, declared=False)


def _find_slice(value: HloInstruction, positions: Positions) -> int | None:
    leaves = list(iterate_leaves(value.shape))
    return positions.find(value, leaves[0]) if len(leaves) == 1 else None
