"""Lists the copies of a schedule: the results that hold a whole value in other bytes and change nothing in it.

A copy is one of these: a `copy`; its asynchronous form; a result of a fusion that is made from a parameter by copies,
bitcasts and transpositions alone; or an update whose result is not in the bytes of the array that it updates, because
XLA then copies the array, too. A result in the same bytes as its operand is not a copy. Nor is a transposition that the
author wrote, unless its result must lie in the bytes of the array that it transposes. Nor is a transfer between the
memories of host and device, which the author asks for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.hlo.buffers import Slice
from ligerdiag.hlo.counters import find_trips
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.shape import HOST_SPACE, ShapeIndex, iterate_leaf_shapes
from ligerdiag.memory.value_uses import ValueUses, find_updates
from ligerdiag.model.memory import SMALLEST_BYTES

_MOVES_ORDER = frozenset({"transpose", "copy"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Move:
    """A copy in the schedule: a result that repeats all of a value in other bytes."""

    instruction: HloInstruction
    index: ShapeIndex
    """The leaf of the instruction's result that is the copy."""
    source: Position
    """The operand that is copied, and which leaf of the operand."""
    source_place: Slice
    target_place: Slice
    computation: HloComputation
    trips: int | None
    in_branch: bool
    is_transposed: bool
    is_update: bool
    """Whether the instruction is an update whose result lies in other bytes than the updated array."""

    @property
    def bytes(self) -> int:
        return self.target_place.size


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How often a computation runs in one call of the program, and whether it is in a branch."""

    trips: int | None
    in_branch: bool


def list_moves(uses: ValueUses, smallest: int = SMALLEST_BYTES) -> tuple[Move, ...]:
    """Returns the copies of at least `smallest` bytes, in the order of the schedule."""
    around = find_surroundings(uses)
    found: list[Move] = []
    for computation in uses.computations:
        here = around[computation.id]
        for one in computation.sequence or computation.instructions:
            for index, source, is_transposed, is_update in _list_copied(uses, one):
                origin, target = uses.find_slice(*source), uses.find_slice(one, index)
                if origin is None or target is None or origin == target or target.size < smallest:
                    continue
                if _is_on_host(one, index) != _is_on_host(*source):
                    continue
                found.append(
                    Move(
                        instruction=one,
                        index=index,
                        source=source,
                        source_place=origin,
                        target_place=target,
                        computation=computation,
                        trips=here.trips,
                        in_branch=here.in_branch,
                        is_transposed=is_transposed,
                        is_update=is_update,
                    )
                )
    return tuple(found)


def find_surroundings(uses: ValueUses) -> Mapping[int, Surroundings]:
    """Returns how often each computation runs, and whether it is in a branch, by the computation's id.

    Has the computations in `ValueUses.computations`, and all computations that these call.
    """
    counted = find_trips(uses.module)
    found = {uses.module.entry.id: Surroundings(1, False)}
    for computation in uses.computations:
        here = found.setdefault(computation.id, Surroundings(None, True))
        for one in computation.instructions:
            for callee in one.called_computations:
                trips, in_branch = here.trips, here.in_branch or one.opcode == "conditional"
                if one.opcode == "while":
                    count = counted.get(one.id)
                    trips = None if trips is None or count is None else trips * count
                found.setdefault(callee, Surroundings(trips, in_branch))
    return found


def _list_copied(uses: ValueUses, one: HloInstruction) -> Iterator[tuple[ShapeIndex, Position, bool, bool]]:
    """Yields, for each copy that an instruction makes: (leaf of the result, operand's leaf, whether elements change
    their order, whether it is an update).
    """
    match one.opcode:
        case "copy":
            yield (), (one.operands[0], ()), _reorders(one), False
        case "copy-start":
            yield (0,), (one.operands[0], ()), False, False
        case "fusion":
            yield from _list_fused(uses, one)
        case "dynamic-update-slice" | "scatter":
            yield from ((index, given, False, True) for index, given in find_updates(uses.module, one))
        case _:
            pass


def _list_fused(uses: ValueUses, fusion: HloInstruction) -> Iterator[tuple[ShapeIndex, Position, bool, bool]]:
    fused = uses.module.computations[fusion.called_computations[0]]
    flow = Dataflow(uses.module, PassThrough(bitcasts=True, tuples=True))
    for index, _ in iterate_leaf_shapes(fused.root.shape):
        value, rest = flow.find_definition(fused.root, index)
        is_transposed = False
        while value.opcode in _MOVES_ORDER and not rest:
            is_transposed |= _reorders(value)
            value, rest = flow.find_definition(value.operands[0])
        if value.opcode == "parameter" and uses.module.homes[value.id] is fused:
            yield index, (fusion.operands[value.proto.parameter_number], rest), is_transposed, False
    for index, given in find_updates(uses.module, fusion):
        yield index, given, False, True


def _is_on_host(value: HloInstruction, index: ShapeIndex) -> bool:
    return any(shape.layout.memory_space == HOST_SPACE for at, shape in iterate_leaf_shapes(value.shape) if at == index)


def _reorders(one: HloInstruction) -> bool:
    """Returns whether the elements of the result of `one`, a `copy` or `transpose`, have another order in memory than the
    elements of its operand: whether its layout differs from the operand's, dimensions of size 1 aside.
    """
    sizes, given = one.shape.dimensions, one.operands[0].shape
    order = [number for number in one.shape.layout.minor_to_major if sizes[number] > 1]
    if one.opcode == "transpose":
        order = [one.proto.dimensions[number] for number in order]
    return order != [number for number in given.layout.minor_to_major if given.dimensions[number] > 1]
