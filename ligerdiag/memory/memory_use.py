"""Computes the `MemoryUse` of one scheduled module, together with the instructions that cause it, for the rules.

Names and lines come from the schedule; an instruction without a line gets the line of an operation inside it (if it is
a fusion, a loop or a conditional) or of its operands.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line, strip_tags
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import compute_byte_size, iterate_leaf_shapes, render_shape
from ligerdiag.memory.copy_causes import CopyCauses, CopyReason
from ligerdiag.memory.copy_sources import Names, describe_instruction
from ligerdiag.memory.donated_outputs import measure
from ligerdiag.memory.donations import DonationClash, JudgedDonation, find_clashes, judge_donations
from ligerdiag.memory.live_bytes import LiveBytes, compute_live_bytes
from ligerdiag.memory.moves import Move, find_surroundings, list_moves
from ligerdiag.memory.output_lines import find_element, find_output_line
from ligerdiag.memory.requests import list_requests
from ligerdiag.memory.reshards import Reshard, find_reshards
from ligerdiag.memory.value_uses import ValueUses
from ligerdiag.model.findings import SourceLine
from ligerdiag.model.memory import (
    MOST_AT_PEAK,
    MOST_POINTS,
    SMALLEST_BYTES,
    Copy,
    CopyCause,
    CurvePoint,
    Donation,
    DroppedArgument,
    LiveValue,
    MemoryUse,
    Request,
    RequestKind,
)

_MOST_LOOKED_AT = 64
_NAMED = re.compile(r"_ld(\d{1,18})(?!\d)")
"""Matches the tag of an operation (the number that it gets before the compile), as XLA writes it into the names of
instructions; see `hlo.module`.
"""
_COLLECTIVES = having(Trait.COLLECTIVE) - having(Trait.DONE, Trait.UPDATE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExplainedCopy:
    """A copy in the schedule: the instruction that makes it, the reason for it, and its entry in the report."""

    move: Move
    reason: CopyReason
    copy: Copy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryAnalysis:
    """The memory of one module. `use` has the figures that reports show; the other fields have the instructions that rules
    need.
    """

    use: MemoryUse
    copies: tuple[ExplainedCopy, ...] = ()
    """The explained copies, largest first as in `use`."""
    donations: tuple[tuple[JudgedDonation, Donation], ...] = ()
    reshards: tuple[tuple[Reshard, Copy], ...] = ()
    clashes: tuple[DonationClash, ...] = ()
    names: Names | None = None
    """The names of arguments and outputs."""


def analyse_memory(
    *,
    program: HloModule | None,
    optimized: HloModule,
    buffers: BufferAssignment,
    output_names: Sequence[str],
    argument_names: Sequence[tuple[int, str]] = (),
    donated: Collection[int] = (),
    dropped: Collection[int] = (),
    on_host: Collection[int] = (),
    shared: Sequence[Sequence[int]] = (),
    warning: str = "",
    bandwidth: float = 0.0,
) -> MemoryAnalysis:
    """Returns the memory, copies and donations of a scheduled module.

    program: the module from before the optimizations; None if unknown. buffers: XLA's own assignment. argument_names:
    (parameter number, name) pairs; any other argument is named by its op_name. donated: the parameter numbers that the
    program donates. dropped: the parameter numbers that JAX drops from the user's program. on_host: the parameter numbers of
    arguments in the host's memory. shared: groups of parameter numbers; the arguments of a group are one array in the call.
    warning: JAX's own warning about donations; empty if JAX gave none. bandwidth: bytes per second that the target's memory
    can move; 0 if unknown.
    """
    uses = ValueUses(optimized, buffers)
    arguments = {
        number: strip_tags(parameter.op_name) or str(number)
        for number, parameter in enumerate(optimized.entry.parameters)
    }
    names = Names(arguments=arguments | dict(argument_names), outputs=output_names)
    moves = list_moves(uses)
    causes = CopyCauses(uses, moves, names)
    copies = sorted(
        [_explain(causes, move, optimized, program) for move in moves if not _is_own_transposition(uses, move, causes)],
        key=lambda one: -one.copy.total,
    )
    donations = [
        (one, _describe_donation(one, names, optimized, program))
        for one in judge_donations(program, optimized, donated, names, dropped, on_host=on_host)
    ]
    unread = _list_dropped(optimized, dropped, donated, names)
    reshards = [(one, _describe_reshard(one, optimized)) for one in find_reshards(uses)]
    live = compute_live_bytes(uses, without=dropped)
    memory = buffers.memory
    use = MemoryUse(
        arguments=memory.argument - sum(one.bytes for one in unread) if memory is not None else 0,
        outputs=memory.output if memory is not None else 0,
        aliased=memory.alias if memory is not None else 0,
        temporaries=memory.temp if memory is not None else 0,
        constants=sum(buffers.slices[number].size for number in live.spans if _is_constant(buffers, number)),
        copies=tuple([one.copy for one in copies] + [copy for _, copy in reshards]),
        donations=tuple([donation for _, donation in donations]),
        dropped=unread,
        requests=tuple(_describe_requests(uses, copies, donations)),
        collectives=_add_up_collectives(uses),
        bandwidth=bandwidth,
        warning=warning,
    )
    use = _add_curve(use, live, uses, names)
    return MemoryAnalysis(
        use=use,
        copies=tuple(copies),
        donations=tuple(donations),
        reshards=tuple(reshards),
        clashes=tuple(find_clashes([one for one, _ in donations], shared, dropped)),
        names=names,
    )


def asks_in_place(optimized: HloModule, buffers: BufferAssignment) -> bool:
    """Returns whether a scheduled module has donated arguments, operations in place or copies to report. Those with fewer
    than `SMALLEST_BYTES` do not count.
    """
    uses = ValueUses(optimized, buffers)
    slices = [buffers.slices[number] for one in buffers.definitions.values() for _, number in one]
    donated = {*optimized.donors, *(entry.parameter_number for entry in optimized.input_output_alias.entries)}
    is_donated = any(
        place.size >= SMALLEST_BYTES and buffers.parameters.get(place.allocation, (-1, ()))[0] in donated
        for place in slices
    )
    return is_donated or any(list_requests(uses, ())) or bool(list_moves(uses))


def _is_constant(buffers: BufferAssignment, number: int) -> bool:
    return buffers.slices[number].allocation in buffers.constants


def _is_own_transposition(uses: ValueUses, move: Move, causes: CopyCauses) -> bool:
    """Returns whether a copy is a transposition that the program itself asks for, and that nothing else causes."""
    if not move.is_transposed or move.instruction.opcode == "copy":
        return False
    inner = [
        one for number in move.instruction.called_computations for one in uses.module.computations[number].instructions
    ]
    is_written = any(
        one.opcode == "transpose" and (_NAMED.search(one.name) or describe_instruction(one) == "transpose")
        for one in inner
    )
    reason = causes.explain(move)
    return is_written and reason.is_needed and reason.cause in (CopyCause.LAYOUT, CopyCause.RETURNED)


def _explain(causes: CopyCauses, move: Move, module: HloModule, program: HloModule | None) -> ExplainedCopy:
    reason = causes.explain(move)
    made = find_element(module, (move.instruction, move.index))  # a fusion has the line of its last result
    blamed = tuple([made if one is move.instruction else one for one in reason.blamed])
    copy = Copy(
        instruction=move.instruction.name,
        bytes=move.bytes,
        trips=move.trips,
        in_branch=move.in_branch,
        operand=move.source[0].name,
        source=causes.sources.describe_source(move),
        target=causes.sources.describe_bytes(move.target_place),
        is_transposed=move.is_transposed,
        cause=reason.cause,
        is_needed=reason.is_needed,
        is_round_trip=reason.is_round_trip,
        why=reason.why,
        line=find_line(module, blamed) or _find_line_by_name(program, module, (*blamed, made)),
    )
    return ExplainedCopy(move=move, reason=reason, copy=copy)


def find_line(module: HloModule, blamed: Sequence[HloInstruction]) -> SourceLine | None:
    """Returns the user's source line of some instructions: that of the first one with a line. If none has a line, returns
    the nearest line of an operation inside of them or before them.
    """
    for one in blamed:
        if (line := find_user_line(module, one)) is not None:
            return line
    for one in _iterate_nearby(module, blamed):
        if (line := find_user_line(module, one)) is not None:
            return line
    return None


def _iterate_nearby(module: HloModule, blamed: Sequence[HloInstruction]) -> Iterator[HloInstruction]:
    """Yields each instruction, followed by the operations inside of it, last first; after them, in the same way, the
    instructions that compute the operands, and so on.
    """
    pending, seen = list(blamed), {one.id for one in blamed}
    for _ in range(_MOST_LOOKED_AT):
        if not pending:
            return
        one = pending.pop(0)
        yield one
        for number in one.called_computations:
            yield from reversed(module.computations[number].instructions)
        for operand in one.operands:
            if operand.id not in seen and operand.opcode != "parameter":
                seen.add(operand.id)
                pending.append(operand)


def _find_line_by_name(
    program: HloModule | None, module: HloModule, blamed: Sequence[HloInstruction]
) -> SourceLine | None:
    """Returns the line of the program's operation whose tag (the number that it got before the compile) XLA has kept
    only in the name of one of these instructions or of one nearby; None if there is none.
    """
    if program is None:
        return None
    found = (_NAMED.search(one.name) for one in _iterate_nearby(module, blamed))
    tag = next((f"#ld{match[1]}" for match in found if match is not None), None)
    if tag is None:
        return None
    written = next((one for one in program.instructions if one.op_name.endswith(tag)), None)
    return None if written is None else find_user_line(program, written)


def _find_line_of_donation(one: JudgedDonation, module: HloModule, program: HloModule | None) -> SourceLine | None:
    """Returns the line that computes the output that could take the argument's bytes; if there is none, the line of the
    first operation that uses the argument.
    """
    if one.meant is not None and (line := find_output_line(program, module, one.meant)) is not None:
        return line
    return _find_user_of_argument(program, one.number) or _find_user_of_argument(module, one.number)


def _find_user_of_argument(program: HloModule | None, number: int) -> SourceLine | None:
    """Returns the line of the first operation of the program that uses the argument with this number; None if unknown."""
    if program is None or number >= len(program.entry.parameters):
        return None
    users = program.entry.users[program.entry.parameters[number].id]
    return next((line for one in users if (line := find_user_line(program, one)) is not None), None)


def _describe_donation(one: JudgedDonation, names: Names, module: HloModule, program: HloModule | None) -> Donation:
    return Donation(
        argument=names.arguments.get(one.number, str(one.number)),
        bytes=one.bytes,
        output="" if one.output is None else _name_output(one.output, names),
        fault=one.fault,
        why=one.why,
        line=None if one.fault is None else _find_line_of_donation(one, module, program),
    )


def _list_dropped(
    module: HloModule, dropped: Collection[int], donated: Collection[int], names: Names
) -> tuple[DroppedArgument, ...]:
    return tuple(
        DroppedArgument(
            argument=names.arguments.get(number, str(number)),
            bytes=measure(module.entry.parameters[number]),
            is_donated=number in donated,
        )
        for number in sorted(dropped)
        if 0 <= number < len(module.entry.parameters)
    )


def _name_output(number: int, names: Names) -> str:
    name = names.name_output(number).strip("`")
    return f"output {number}" if name == str(number) else name


def _describe_reshard(one: Reshard, module: HloModule) -> Copy:
    return Copy(
        instruction=one.collective.name,
        bytes=one.bytes,
        trips=one.trips,
        operand=one.collective.operands[0].name if one.collective.operands else "",
        source="other devices",
        target="temporary memory",
        cause=CopyCause.RESHARDED,
        why=one.why,
        line=find_line(module, (one.writer,)),
    )


def _describe_requests(
    uses: ValueUses, copies: Sequence[ExplainedCopy], donations: Sequence[tuple[JudgedDonation, Donation]]
) -> Iterator[Request]:
    paid = {one.move.instruction.id: one for one in copies if not one.reason.is_needed}
    for request in list_requests(uses, [one.move for one in paid.values()]):
        yield Request(
            kind=request.kind,
            instruction=request.instruction.name,
            bytes=request.bytes,
            is_in_place=request.is_in_place,
            line=find_line(uses.module, (request.instruction,)),
        )
    for judged, donation in donations:
        is_paid = any(_get_argument(uses, one.move) == judged.number for one in paid.values())
        yield Request(
            kind=RequestKind.DONATION,
            instruction=donation.argument,
            bytes=donation.bytes,
            is_in_place=judged.fault is None and not is_paid,
            line=donation.line,
        )


def _get_argument(uses: ValueUses, move: Move) -> int | None:
    """Returns the number of the argument to whose bytes a copy writes; None if the bytes belong to no argument."""
    return uses.buffers.parameters.get(move.target_place.allocation, (None, ()))[0]


def _add_up_collectives(uses: ValueUses) -> tuple[tuple[str, int], ...]:
    """Returns (opcode, bytes of the results in one call of the program) for each kind of collective."""
    around, found = find_surroundings(uses), dict[str, int]()
    for computation in uses.computations:
        trips = around[computation.id].trips or 1
        for one in computation.instructions:
            if one.opcode in _COLLECTIVES:
                size = sum(compute_byte_size(shape) or 0 for _, shape in iterate_leaf_shapes(one.shape))
                name = strip_phase(one.opcode)
                found[name] = found.get(name, 0) + size * trips
    return tuple(sorted(found.items()))


def _add_curve(use: MemoryUse, live: LiveBytes, uses: ValueUses, names: Names) -> MemoryUse:
    """Returns the MemoryUse, completed by the memory in use over the schedule."""
    if not live.steps:
        return replace(use, peak=max(live.sizes, default=0))
    peak, slices = live.peak, uses.buffers.slices
    numbers = list(live.list_alive(peak))
    alive = _list_largest([slices[number] for number in numbers], numbers)
    points = [
        CurvePoint(
            instruction=live.steps[step].name,
            bytes=live.sizes[step],
            line=find_user_line(uses.module, live.steps[step]),
        )
        for step in _choose_points(live.sizes)
    ]
    return replace(
        use,
        peak=live.sizes[peak],
        peak_at=live.steps[peak].name,
        peak_line=find_line(uses.module, (live.steps[peak],)),
        at_peak=tuple([_describe_value(live, uses, names, number) for number in alive]),
        curve=tuple(points),
    )


def _list_largest(places: Sequence[Slice], numbers: Sequence[int]) -> list[int]:
    """Returns the numbers of the largest slices, largest first, leaving out slices that lie within another one."""
    found: list[tuple[Slice, int]] = []
    for place, number in sorted(zip(places, numbers, strict=True), key=lambda pair: -pair[0].size):
        if not any(place.overlaps(larger) for larger, _ in found):
            found.append((place, number))
            if len(found) == MOST_AT_PEAK:
                break
    return [number for _, number in found]


def _choose_points(sizes: Sequence[int]) -> list[int]:
    """Returns the steps to draw in the curve: all of them, or the one with the largest size in each of many equally
    long parts.
    """
    if len(sizes) <= MOST_POINTS:
        return list(range(len(sizes)))
    bounds = [len(sizes) * number // MOST_POINTS for number in range(MOST_POINTS + 1)]
    return [max(range(first, end), key=sizes.__getitem__) for first, end in pairwise(bounds) if first < end]


def _describe_value(live: LiveBytes, uses: ValueUses, names: Names, number: int) -> LiveValue:
    place, (value, index) = uses.buffers.slices[number], live.values[number]
    shape = dict(iterate_leaf_shapes(value.shape)).get(index)
    parameter = uses.buffers.parameters.get(place.allocation)
    if parameter is not None:
        about = f"argument {names.name_argument(parameter[0])}"
    elif place.allocation in uses.buffers.constants:
        about = "constant"
    else:
        about = _find_output(uses, names, place.allocation) or "temporary"
    return LiveValue(
        instruction=value.name,
        bytes=place.size,
        about=about,
        shape="" if shape is None else render_shape(shape),
        line=find_line(uses.module, (value,)),
    )


def _find_output(uses: ValueUses, names: Names, allocation: int) -> str:
    root = uses.module.entry.root
    for number, (index, _) in enumerate(iterate_leaf_shapes(root.shape)):
        place = uses.find_slice(root, index)
        if place is not None and place.allocation == allocation:
            return f"output {names.name_output(number)}"
    return ""
