"""Finds declared aliases of custom calls that break when XLA fuses the calls with the slices around them.

A dynamic-slice fusion copies nothing. It gives the call addresses. For the slices that the call reads, they lie in the
fusion's operands. For the call's results, they lie in the fusion's results or in the operand of a dynamic-update-slice. XLA
does not pass the call's `output_to_operand_aliasing` on to the fusion
(xla/service/gpu/transforms/dynamic_slice_fusion_rewriter.cc), so the buffer assignment may put an operand and the result
that aliases it into different bytes. A kernel that has one pointer for operand and result then overwrites the fusion's
operand, and the result's bytes keep their old contents.

The operand's address is the address of a parameter of the fusion, or of one slice of a parameter. The result's address is
the address of a result of the fusion, or of the part of such a result that a dynamic-update-slice fills. Operand and result
are the same bytes if they are the same part of one slice of the buffer assignment: all of it, or parts that begin at the
same indices and have the same number of elements. If an address is computed in any other way, operand and result may differ,
and `BrokenAlias.certain` is False.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.dataflow import Positions, look_through
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex, count_elements, iterate_leaves

_BITCASTS = frozenset({"bitcast"})

type Offsets = tuple[int | str, ...]
"""Where a part of an array starts, by dimension: a number, or the name of the instruction that computes the index."""


@dataclass(frozen=True, slots=True)
class BrokenAlias:
    """An operand and an output of a custom call that are declared to share their bytes, but have different bytes."""

    call: HloInstruction
    """The custom call, inside of the fusion."""
    operand: int
    """Number of the call's operand."""
    output: ShapeIndex
    """ShapeIndex of the call's output."""
    certain: bool
    """True if operand and output are known to lie in different bytes; False if the bytes of either are unknown, or come
    from a buffer assignment that is not XLA's own.
    """


@dataclass(frozen=True, slots=True)
class _Address:
    place: int | None
    """Number of the slice in the buffer assignment; None if unknown."""
    offsets: Offsets | None
    """Where in the slice the part starts; None if the address is that of the whole slice."""
    elements: int


def find_broken_aliases(
    module: HloModule, positions: Positions, *, is_assigned: bool = True
) -> tuple[BrokenAlias, ...]:
    """Returns the declared aliases of a scheduled module that fusions break.

    is_assigned: whether the slices in `positions` are those of XLA's own buffer assignment.
    """
    return tuple(
        [
            broken
            for computation in module.computations.values()
            for fusion in computation.instructions
            if fusion.opcode == "fusion"
            for broken in _check_fusion(
                module.computations[fusion.called_computations[0]], fusion, positions, is_assigned
            )
        ]
    )


def _check_fusion(
    fused: HloComputation, fusion: HloInstruction, positions: Positions, is_assigned: bool
) -> Iterator[BrokenAlias]:
    for call in fused.instructions:
        if call.opcode != "custom-call" or not call.proto.output_operand_aliasing:
            continue
        if is_call_with(call, CallTrait.MADE_BY_XLA):
            continue
        for operand, output in call.operand_output_aliases.items():
            own = _find_operand(call.operands[operand], fusion, positions)
            for result in _find_results(fused, call, output, fusion, positions):
                known = own is not None and result is not None and None not in (own.place, result.place)
                if not known or own != result:
                    yield BrokenAlias(call, operand, output, certain=known and is_assigned)


def _find_operand(value: HloInstruction, fusion: HloInstruction, positions: Positions) -> _Address | None:
    """Returns the address of an operand of a fused call; None if it is neither a parameter of the fusion nor one slice
    of a parameter.
    """
    elements, offsets = count_elements(value.shape), None
    value = look_through(value, _BITCASTS)
    if value.opcode in ("slice", "dynamic-slice"):
        offsets = _list_offsets(value, 1)
        value = look_through(value.operands[0], _BITCASTS)
    if value.opcode != "parameter":
        return None
    return _Address(positions.find(fusion.operands[value.proto.parameter_number], ()), offsets, elements)


def _find_results(
    fused: HloComputation, call: HloInstruction, output: ShapeIndex, fusion: HloInstruction, positions: Positions
) -> Iterator[_Address | None]:
    """Yields, for each result of the fusion that is the call's output or contains it, the address of that output; None
    if it is unknown.
    """
    root = fused.root
    if root is call:
        yield _Address(positions.find(fusion, output), None, _count(call, output))
        return
    leaves = zip(iterate_leaves(root.shape), root.operands, strict=False) if root.opcode == "tuple" else [((), root)]
    for leaf, element in leaves:
        value, offsets = look_through(element, _BITCASTS), None
        if value.opcode == "dynamic-update-slice":
            offsets = _list_offsets(value, 2)
            value = look_through(value.operands[1], _BITCASTS)
        if _is_output(value, call, output):
            yield _Address(positions.find(fusion, leaf), offsets, _count(call, output))


def _is_output(value: HloInstruction, call: HloInstruction, output: ShapeIndex) -> bool:
    if value.opcode == "get-tuple-element":
        return value.operands[0] is call and (value.proto.tuple_index,) == output
    return value is call and not output


def _count(call: HloInstruction, output: ShapeIndex) -> int:
    shape = call.shape
    for number in output:
        shape = shape.tuple_shapes[number]
    return count_elements(shape)


def _list_offsets(instruction: HloInstruction, first: int) -> Offsets:
    """Returns the indices at which a slice or an update starts. first: number of the first operand that is an index."""
    if instruction.opcode == "slice":
        return tuple([dimension.start for dimension in instruction.proto.slice_dimensions])
    return tuple([_read_index(operand) for operand in instruction.operands[first:]])


def _read_index(index: HloInstruction) -> int | str:
    literal = index.proto.literal
    if index.opcode == "constant":
        for values in (literal.s32s, literal.s64s):
            if len(values) == 1:
                return values[0]
    return look_through(index, _BITCASTS).name
