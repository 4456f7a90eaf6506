"""Finds pairs `x + b` and `(x + b) - b'`: mathematically x, in floating point x rounded to the precision of `x + b`.

They are how a workaround makes readers of x wait for a kernel: b depends on the kernel's result.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ligerdiag.hlo.dataflow import list_operands, look_through, look_through_forward, search
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.opcodes import Trait, having

_LOOKED_THROUGH = having(Trait.KEEPS_SCALAR)

type AreEqual = Callable[[HloInstruction, HloInstruction], bool]
"""Whether two instructions of one computation surely have the same value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundingPair:
    """A term that is added to an operand of a kernel, and subtracted again."""

    addition: HloInstruction
    subtraction: HloInstruction
    term: HloInstruction
    """The term."""
    place: int
    """Number of the addition's operand that is x."""


def find_rounding_pairs(
    computation: HloComputation, call: HloInstruction, operand: int, are_one: AreEqual
) -> Iterator[RoundingPair]:
    """Yields the pairs around an operand of a call, in the call's computation, in which b depends on the call's result.

    The search looks through barriers, broadcasts, reshapes and converts.
    """
    users, value = computation.users, call.operands[operand]
    for addition in users[value.id]:
        if addition.opcode != "add" or len(addition.operands) != 2:
            continue
        place = 0 if addition.operands[0] is value else 1
        term = look_through(addition.operands[1 - place], _LOOKED_THROUGH)
        if call not in search([term], list_operands):
            continue
        for subtraction in look_through_forward(addition, _LOOKED_THROUGH, users):
            if subtraction.opcode != "subtract":
                continue
            less = look_through(subtraction.operands[1], _LOOKED_THROUGH)
            if are_one(less, term) and look_through(subtraction.operands[0], _LOOKED_THROUGH) is addition:
                yield RoundingPair(addition=addition, subtraction=subtraction, term=term, place=place)
