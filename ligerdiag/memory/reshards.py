"""Finds collectives that XLA's partitioner puts in front of a call or an update that works in place.

The operation then works on a gathered or exchanged array in other bytes, and its result is not in the bytes of the
array that the author donated. Collectives that the author writes (`all_gather`, `psum`, ...) do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position
from ligerdiag.hlo.module import HloInstruction, strip_tags
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import ShapeIndex, compute_byte_size, iterate_leaf_shapes, render_shape
from ligerdiag.memory.copy_sources import describe_instruction
from ligerdiag.memory.moves import find_surroundings
from ligerdiag.memory.value_uses import SLICES, UPDATES, ValueUses, find_updates
from ligerdiag.model.memory import SMALLEST_BYTES

_GATHERS = having(Trait.GATHERS)
_WRITERS = UPDATES | {"custom-call", "fusion"}
_PASSES = having(Trait.SAME_ELEMENTS, Trait.TAKES_ELEMENT, Trait.MAKES_TUPLE)
_OWN = ("all_gather", "all_to_all", "ppermute", "psum", "pshuffle", "pbroadcast", "reduce_scatter", "pvary")
_MOST_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reshard:
    """A collective that XLA's partitioner inserted before an operation that works in place. The operation (`writer`)
    works on the collective's result.
    """

    collective: HloInstruction
    writer: HloInstruction
    bytes: int
    """Bytes of the array that the collective brings to the operation. A combined collective may bring other arrays, too,
    which are not counted.
    """
    trips: int | None
    why: str
    """One clause that explains the collective, with names."""
    is_update: bool = False
    """Whether the operation is one of XLA's updates, such as a dynamic-update-slice, rather than a custom call."""


def find_reshards(uses: ValueUses) -> Iterator[Reshard]:
    """Yields the collectives that the partitioner inserted before operations that work in place. Collectives with a
    result of fewer than `SMALLEST_BYTES` do not count.
    """
    around, seen = find_surroundings(uses), set[Position]()
    for computation in uses.computations:
        trips = around[computation.id].trips
        for writer in computation.instructions:
            if writer.opcode not in _WRITERS:
                continue
            updated = [operand for _, operand in find_updates(uses.module, writer)]
            for operand, index in (*updated, *_list_cut_updates(uses, writer)):
                place = _find_collective(uses, operand, index)
                if place is None or place in seen:
                    continue
                collective, leaf = place
                size = compute_byte_size(dict(iterate_leaf_shapes(collective.shape))[leaf]) or 0
                if size < SMALLEST_BYTES:
                    continue
                seen.add(place)
                opcode = strip_phase(uses.find_started(collective).opcode)
                is_update = not _calls(uses, writer)
                work = "update" if is_update else "call"
                why = (
                    f"the partitioner moves the operand of `{describe_instruction(writer)}` between devices first"
                    f" ({opcode} to {render_shape(operand.shape)}), so the {work} does not work on the array that it was"
                    " given"
                )
                yield Reshard(
                    collective=collective, writer=writer, bytes=size, trips=trips, why=why, is_update=is_update
                )


def _calls(uses: ValueUses, writer: HloInstruction) -> bool:
    """Returns whether an operation is a custom call or a fusion around one."""
    inside = [one for number in writer.called_computations for one in uses.module.computations[number].instructions]
    return any(one.opcode == "custom-call" for one in (writer, *inside))


def _list_cut_updates(uses: ValueUses, fusion: HloInstruction) -> Iterator[Position]:
    """Yields the operands of a fusion of which it updates a part, to keep only a part of the result: each device updates
    the whole array, and cuts out its own part.
    """
    if fusion.opcode != "fusion":
        return
    fused = uses.module.computations[fusion.called_computations[0]]
    flow = Dataflow(uses.module, PassThrough(bitcasts=True, tuples=True))
    for one in fused.instructions:
        users = fused.users[one.id]
        if one.opcode not in UPDATES or not users or not all(user.opcode in SLICES for user in users):
            continue
        updated, inner = flow.find_definition(one.operands[0])
        if updated.opcode == "parameter" and uses.module.homes[updated.id] is fused:
            yield fusion.operands[updated.proto.parameter_number], inner


def _find_collective(uses: ValueUses, value: HloInstruction, index: ShapeIndex) -> Position | None:
    """Returns the result of the collective from which a value comes, looking through copies and transpositions; None if
    there is none, or the author wrote it.
    """
    for _ in range(_MOST_STEPS):
        value, index = uses.find_origin(value, index)
        collective = uses.find_started(value)
        if collective.opcode in _GATHERS:
            name = strip_tags(collective.op_name).rpartition("/")[2]
            return None if name.startswith(_OWN) else (value, index)
        is_moved = value.opcode in _PASSES or (value.opcode == "fusion" and _only_moves(uses, value))
        if not is_moved or not value.operands:
            return None
        value, index = value.operands[0], ()
    return None


def _only_moves(uses: ValueUses, fusion: HloInstruction) -> bool:
    """Returns whether a fusion only rearranges its only operand."""
    fused = uses.module.computations[fusion.called_computations[0]]
    return len(fusion.operands) == 1 and all(one.opcode in _PASSES | {"parameter"} for one in fused.instructions)
