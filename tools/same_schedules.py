"""Compares two compiles of one program: whether XLA made the same schedule, on the same bytes.

A compile with lineage is a compile of its own. Its lineage holds for the schedule of the plain compile only if the two
are the same, instruction by instruction; names, ids and metadata do not count.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaf_shapes, render_index, render_shape
from ligerdiag.provenance.expression_table import list_attributes

type Scheduled = tuple[HloModule, BufferAssignment | None]
type Pairs = Mapping[int, HloInstruction]
"""Maps the id of each instruction of one schedule to the instruction in the same place of the other."""


def find_difference(one: Scheduled, other: Scheduled) -> str:
    """Returns where two schedules first differ, in structure, order or bytes, as a clause; empty if they do not."""
    pairs = _pair(one[0], other[0])
    if isinstance(pairs, str):
        return pairs
    return next(_list_moved(one, other, pairs), "")


def pair_instructions(one: Scheduled, other: Scheduled) -> Pairs | None:
    """Returns the instructions of two schedules in pairs; None unless the schedules are the same, on the same bytes."""
    pairs = _pair(one[0], other[0])
    return None if isinstance(pairs, str) or find_difference(one, other) else pairs


def _pair(one: HloModule, other: HloModule) -> Pairs | str:
    """Returns the pairs of instructions, or where the modules first differ."""
    found: dict[int, HloInstruction] = {}
    computations: dict[int, int] = {}
    for mine, theirs in zip_longest(one.computations.values(), other.computations.values()):
        if mine is None or theirs is None:
            return "one schedule has more computations"
        computations[mine.id] = theirs.id
        places = _list_places(mine), _list_places(theirs)
        for here, there in zip_longest(mine.instructions, theirs.instructions):
            if here is None or there is None:
                return f"`{mine.name}` has another number of instructions"
            callees = tuple([computations.get(callee) for callee in here.called_computations])
            if (
                _describe(here) != _describe(there)
                or [places[0][operand.id] for operand in here.operands]
                != [places[1][operand.id] for operand in there.operands]
                or callees != there.called_computations
            ):
                return f"`{here.name}` in `{mine.name}` is another instruction"
            found[here.id] = there
        if [found[here.id].id for here in mine.sequence] != [there.id for there in theirs.sequence]:
            return f"`{mine.name}` runs in another order"
    return found


def _list_places(computation: HloComputation) -> Mapping[int, int]:
    return {one.id: place for place, one in enumerate(computation.instructions)}


def _describe(instruction: HloInstruction) -> tuple[object, ...]:
    leaves = [
        (index, render_shape(shape), tuple(shape.layout.minor_to_major))
        for index, shape in iterate_leaf_shapes(instruction.shape)
    ]
    return instruction.opcode, leaves, list_attributes(instruction)


def _list_moved(one: Scheduled, other: Scheduled, pairs: Pairs) -> Iterator[str]:
    """Yields each array that lies in other bytes."""
    (module, mine), (_, theirs) = one, other
    if (mine is None) != (theirs is None):
        yield "one schedule has no buffer assignment"
    if mine is None or theirs is None:
        return
    for instruction in module.instructions:
        here, there = _list_bytes(mine, instruction), _list_bytes(theirs, pairs[instruction.id])
        for index in sorted({*here, *there}):
            if here.get(index) != there.get(index):
                yield f"`{instruction.name}`{render_index(index) if index else ''} lies in other bytes"


def _list_bytes(buffers: BufferAssignment, instruction: HloInstruction) -> Mapping[ShapeIndex, object]:
    return {index: buffers.slices[number] for index, number in buffers.definitions.get(instruction.id, ())}
