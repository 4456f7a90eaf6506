"""Finds reads that only test a value for NaN or infinity.

`jnp.median`, `nanmax` or `nan_to_num` compare a value with itself to find its NaNs. If only such a comparison reads the
wrong version of a value, the result is wrong only where the kernel creates or removes a NaN or an infinity. A replay on
finite arguments does not show the mistake.
"""

from collections.abc import Sequence
from enum import StrEnum

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.hlo.dataflow import look_through
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import compute_byte_size, is_integer
from ligerdiag.rules.wording import begin_sentence

_FORMS = having(Trait.KEEPS_SCALAR, Trait.FORWARDS, Trait.BARRIER) | {"broadcast"}
_KEEPS = having(Trait.SAME_ELEMENTS, Trait.BROADCAST_IN_DIM) | {"abs", "negate"}
_MOST_STEPS = 6
_INFINITE = {"f32s": float("inf"), "f64s": float("inf")}
_BYTES = {"f16s": (b"\\x00\\x7c", b"\\x00\\xfc"), "bf16s": (b"\\x80\\x7f", b"\\x80\\xff")}
"""Maps a field of an HLO literal to the bytes of positive and of negative infinity in its type."""


class Special(StrEnum):
    """The special value, NaN or infinity, for which a read tests."""

    NOTHING = ""
    """The read uses the value itself rather than only testing it."""
    NAN = "a NaN"
    INFINITE = "an infinite value"
    NOT_FINITE = "a NaN or an infinite value"


def find_special(context: Context, read: ReadFinding) -> Special:
    """Returns the special value (NaN or infinity) for which a wrong read tests.

    Returns NOTHING if the read uses the value in any other way.
    """
    return Special.NOTHING if read.wrong is None else _find(context, read.wrong.occurrence.instruction, _MOST_STEPS)


def describe_special(outputs: Sequence[str], special: Special, value: str) -> str:
    """Returns a message such as "`median` only tests the old value of operand 0 of `kernel` for a NaN".

    value: a phrase for the value that is tested.
    """
    return f"{begin_sentence(outputs, 'only tests', 'only test')} {value} for {special.value}"


def _find(context: Context, one: HloInstruction, left: int) -> Special:
    """Returns the special value for which all uses of the instruction's value test; NOTHING if the uses test for
    different values, or use the value otherwise. left: largest number of steps from the instruction to its users, their
    users and so on.
    """
    if one.opcode == "is-finite":
        return Special.NOT_FINITE
    if one.opcode == "compare" and not is_integer(one.operands[0].shape):
        return _find_compared(one)
    users = context.optimized.homes[one.id].users[one.id] if _keeps(one) else ()
    found = {_find(context, user, left - 1) for user in users} if left else set[Special]()
    return found.pop() if len(found) == 1 else Special.NOTHING


def _keeps(one: HloInstruction) -> bool:
    """Returns whether the operation's result holds special values exactly if its operand does."""
    if one.opcode != "convert" or is_integer(one.shape) or is_integer(one.operands[0].shape):
        return one.opcode in _KEEPS
    size, before = compute_byte_size(one.shape), compute_byte_size(one.operands[0].shape)
    return size is not None and before is not None and size >= before


def _find_compared(comparison: HloInstruction) -> Special:
    left, right = comparison.operands
    if comparison.proto.comparison_direction not in ("EQ", "NE"):
        return Special.NOTHING
    if left is right:
        return Special.NAN
    return Special.INFINITE if _is_infinite(left) or _is_infinite(right) else Special.NOTHING


def _is_infinite(value: HloInstruction) -> bool:
    value = look_through(value, _FORMS)
    if value.opcode != "constant":
        return False
    literal = value.proto.literal
    for name, infinite in _INFINITE.items():
        if numbers := getattr(literal, name, None):
            return all(abs(number) == infinite for number in numbers)
    for name, both in _BYTES.items():
        if data := getattr(literal, name, None):
            return any(data == one * (len(data) // 2) for one in both)
    return False
