"""Finds updates that replace exactly the elements that a kernel has overwritten behind XLA's back.

XLA lets a kernel work on a slice of a larger array in place, by fusing the call with `dynamic-slice`. The author meant a
copy: the array itself stays unchanged, and a later `dynamic-update-slice` puts new contents into the same elements. For that
update the array is as the author means it, because all other elements are untouched. Both slices have the same elements if

- they belong to the same array and have the same size; a bitcast of the array to another layout is another array;
- each start index is the same number: the same constant, the same value of the computation that contains both, or the same
  integer operation on such numbers.

A start index that is too large is clamped alike for both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.dataflow import look_through
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having

_UPDATES = frozenset({"dynamic-update-slice"})
_BITCASTS = frozenset({"bitcast"})
_NUMBERS = having(Trait.ELEMENTWISE, Trait.SAME_ELEMENTS) - having(Trait.COLLECTIVE) - {"reduce-precision"}
"""Opcodes by which a start index is computed from other numbers, and from nothing else."""
_MOST_STEPS = 32


def find_replacing(
    module: HloModule, actual: Iterable[ActualWrite], writes: Mapping[int, Sequence[HiddenWrite]]
) -> dict[int, list[ActualWrite]]:
    """Maps the id of each `dynamic-update-slice`, scheduled or fused, to the hidden writes of which it replaces every
    element, provided that it updates the array that the kernel overwrites. It runs after the kernel in the same computation.

    writes: maps the id of a custom call to its hidden writes.
    """
    found: dict[int, list[ActualWrite]] = {}
    for write in actual:
        if len(write.frames) < 2 or write.frames[-2].instruction.opcode != "fusion":
            continue
        fusion, computation = write.frames[-2].instruction, write.frames[-2].computation
        operand = next((own.operand for own in writes.get(write.call.id, ()) if own.index == write.write), None)
        taken = None if operand is None else look_through(write.call.operands[operand], _BITCASTS)
        if (
            taken is None
            or taken.opcode != "dynamic-slice"
            or module.homes[taken.id].id not in fusion.called_computations
        ):
            continue
        for update, around in _iterate_updates(module, computation, fusion):
            if _have_same_elements(module, (taken, fusion), (update, around)):
                found.setdefault(update.id, []).append(write)
    return found


def _iterate_updates(
    module: HloModule, computation: HloComputation, after: HloInstruction
) -> Iterator[tuple[HloInstruction, HloInstruction | None]]:
    """Yields each update that the computation runs after `after`, with the fusion that contains it, or None if it is in no
    fusion.
    """
    listed = computation.sequence or computation.instructions
    for one in listed[next((n + 1 for n, one in enumerate(listed) if one is after), len(listed)) :]:
        if one.opcode in _UPDATES:
            yield one, None
        elif one.opcode == "fusion":
            for called in one.called_computations:
                yield from (
                    (inner, one) for inner in module.computations[called].instructions if inner.opcode in _UPDATES
                )


type _Placed = tuple[HloInstruction, HloInstruction | None]
"""An instruction, and the fusion that contains it, or None if it is in no fusion."""


def _have_same_elements(module: HloModule, taken: _Placed, update: _Placed) -> bool:
    slice_, put = taken[0], update[0]
    array, target, piece = slice_.operands[0].shape, put.operands[0].shape, put.operands[1].shape
    if tuple(array.dimensions) != tuple(target.dimensions) or array.element_type != target.element_type:
        return False
    if tuple(array.layout.minor_to_major) != tuple(target.layout.minor_to_major):
        return False  # one is a bitcast of the other: the same bytes, but other elements
    if tuple(slice_.proto.dynamic_slice_sizes) != tuple(piece.dimensions):
        return False
    starts, places = slice_.operands[1:], put.operands[2:]
    left = [_MOST_STEPS]

    def are_same(one: _Placed, other: _Placed) -> bool:
        (mine, around), (theirs, beyond) = _leave_fusion(module, one), _leave_fusion(module, other)
        left[0] -= 1
        if mine is theirs:
            return True
        if left[0] < 0 or mine.opcode != theirs.opcode or mine.shape.element_type != theirs.shape.element_type:
            return False
        if mine.opcode == "constant":
            return mine.proto.literal == theirs.proto.literal
        return (
            mine.opcode in _NUMBERS
            and mine.proto.comparison_direction == theirs.proto.comparison_direction
            and len(mine.operands) == len(theirs.operands)
            and all(are_same((a, around), (b, beyond)) for a, b in zip(mine.operands, theirs.operands, strict=True))
        )

    return len(starts) == len(places) and all(
        are_same((a, taken[1]), (b, update[1])) for a, b in zip(starts, places, strict=True)
    )


def _leave_fusion(module: HloModule, placed: _Placed) -> _Placed:
    """Returns the operand of the fusion in place of a parameter of its computation."""
    one, fusion = placed
    if fusion is not None and one.opcode == "parameter" and module.homes[one.id].id in fusion.called_computations:
        return fusion.operands[one.proto.parameter_number], None
    return placed
