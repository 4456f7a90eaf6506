"""Lists the operations of a schedule that ask to work in place: their result has to lie in the bytes of an operand.

These are updates (dynamic-update-slice, scatter, alone or at the end of a fusion), custom calls that declare an alias,
loops (for the elements of their state that change), and conditionals that return an operand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.memory.moves import Move
from ligerdiag.memory.value_uses import UPDATES, UseRole, ValueUses, find_updates
from ligerdiag.model.memory import SMALLEST_BYTES, RequestKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InPlaceRequest:
    """An operation of the schedule that asks to work in place. Its result has to be in the bytes of an operand.
    `is_in_place` says whether XLA puts it there without a copy.
    """

    kind: RequestKind
    instruction: HloInstruction
    bytes: int
    is_in_place: bool


def list_requests(uses: ValueUses, paid: Sequence[Move]) -> Iterator[InPlaceRequest]:
    """Yields the operations that ask to work in place on at least `SMALLEST_BYTES`, in the order of the schedule.

    paid: the copies that XLA made although the program does not need them. An operation with such a copy does not work in
    place.
    """
    served = _list_served(uses, paid)
    for computation in uses.computations:
        for one in computation.sequence or computation.instructions:
            kind, size = _classify(uses, one)
            if kind is not None and size >= SMALLEST_BYTES:
                yield InPlaceRequest(kind=kind, instruction=one, bytes=size, is_in_place=one.id not in served)


def _list_served(uses: ValueUses, paid: Sequence[Move]) -> frozenset[int]:
    """Returns the ids of the operations that ask to work in place and for which XLA made a copy in `paid` instead."""
    found: set[int] = set()
    for move in paid:
        caller = uses.find_caller(move.computation)
        if move.is_update:
            found.add(move.instruction.id)
        for use in uses.list_uses(move.instruction, move.index):
            if use.needs_bytes:
                found.add(use.user.id)
            elif use.role is UseRole.RESULT and caller is not None:
                found.add(caller.id)
    return frozenset(found)


def _classify(uses: ValueUses, one: HloInstruction) -> tuple[RequestKind | None, int]:
    """Returns the kind of request that an instruction makes, and the bytes that it concerns; (None, 0) for one that
    asks for nothing in place.
    """
    match one.opcode:
        case "while":
            body = uses.module.computations[one.called_computations[0]]
            return RequestKind.CARRY, _measure(uses, one, body.kept_elements)
        case "conditional":
            given = {
                place
                for operand in one.operands[1:]
                for index in iterate_leaves(operand.shape)
                if (place := uses.find_slice(operand, index)) is not None
            }
            results = [uses.find_slice(one, index) for index in iterate_leaves(one.shape)]
            return RequestKind.BRANCH, sum(place.size for place in results if place is not None and place in given)
        case "custom-call":
            sizes = [uses.find_slice(one, index) for index in one.operand_output_aliases.values()]
            return RequestKind.CALL, sum(place.size for place in sizes if place is not None)
        case opcode if opcode in UPDATES or opcode == "fusion":
            updated = [uses.find_slice(one, index) for index, _ in find_updates(uses.module, one)]
            return RequestKind.UPDATE, sum(place.size for place in updated if place is not None)
        case _:
            return None, 0


def _measure(uses: ValueUses, loop: HloInstruction, kept: frozenset[int]) -> int:
    """Returns the bytes of those elements of a loop's state that change. kept: numbers of the elements that do not."""
    places = {uses.find_slice(loop, index) for index in iterate_leaves(loop.shape) if not index or index[0] not in kept}
    return sum(place.size for place in places if place is not None)
