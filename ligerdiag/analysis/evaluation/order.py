"""Computes which instructions are forced to run before which others: by data and control edges inside a computation,
and by the nesting of computations.

A *call path* leads from the entry computation to an instruction. It is a tuple of frames, each an instruction and the
computation that contains it; the last frame is the instruction itself.

An earlier position in the schedule forces nothing: the next compiler, flag or GPU may choose another order. An
asynchronous instruction counts as finished when its done has run, and not before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from ligerdiag.analysis.writes import CALLERS, Frames
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having

_STARTS, _DONES = having(Trait.START), having(Trait.DONE)
_BETWEEN = having(Trait.UPDATE, Trait.FORWARDS, Trait.TAKES_ELEMENT)
"""Opcodes of instructions that may come between an asynchronous start and its done."""


class Order:
    """Finds out whether one instruction is forced to run before another, by a search along operands and control edges.

    Edges only lead forward in a computation's schedule, so a search looks only at the instructions scheduled between the
    first and the second one. The search from each instruction keeps its state, so that a later search from the same
    instruction resumes there.
    """

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}
        self._after: dict[int, _Search] = {}
        self._before: dict[int, _Search] = {}

    def is_forced(self, first: Frames, second: Frames, *, from_second: bool = False) -> bool:
        """Returns whether operands and control edges force `first` to run before `second`. Looks at one iteration of every
        loop around the two. first, second: the call paths of two scheduled instructions.

        Also returns True if there is nothing to order. This is so if one instruction contains the other, or if the two
        are in different branches of a conditional, or in the body and the condition of one loop.

        from_second: search backward from `second`, which is cheaper if many calls have the same `second`.
        """
        for a, b in zip(first, second, strict=False):
            if a.computation is not b.computation:
                return True  # body and condition of one loop, or two branches of which only one runs
            if a.instruction is not b.instruction:
                line = self._find_line(a.computation)
                end = a.instruction if a.instruction.opcode not in _STARTS else _find_done(a.computation, a.instruction)
                if end is None or end is b.instruction:
                    return end is not None
                if from_second:
                    return self._is_before(line, end, b.instruction)
                return self._is_after(line, end, b.instruction)
        return True  # one runs inside the other

    def _find_line(self, computation: HloComputation) -> "_Line":
        found = self._lines.get(computation.id)
        if found is None:
            found = self._lines[computation.id] = _Line.of(computation)
        return found

    def _is_after(self, line: "_Line", first: HloInstruction, second: HloInstruction) -> bool:
        """Returns whether a path of edges leads from `first` to `second`; searches forward from `first`."""
        search = self._after.get(first.id)
        if search is None:
            search = self._after[first.id] = _Search({first.id}, line.positions[first.id] + 1)
        last = line.positions[second.id]
        for at in range(search.position, last + 1):
            instruction = line.instructions[at]
            if not search.reached.isdisjoint(line.before(instruction)):
                search.reached.add(instruction.id)
        search.position = max(search.position, last + 1)
        return second.id in search.reached

    def _is_before(self, line: "_Line", first: HloInstruction, second: HloInstruction) -> bool:
        """Returns whether a path of edges leads from `first` to `second`; searches backward from `second`."""
        search = self._before.get(second.id)
        if search is None:
            search = self._before[second.id] = _Search(set(line.before(second)), line.positions[second.id] - 1)
        last = line.positions[first.id]
        for at in range(search.position, last, -1):
            instruction = line.instructions[at]
            if instruction.id in search.reached:
                search.reached.update(line.before(instruction))
        search.position = min(search.position, last)
        return first.id in search.reached


def _find_done(computation: HloComputation, start: HloInstruction) -> HloInstruction | None:
    """Returns the done of this asynchronous start; None if this computation has none."""
    pending = [start]
    while pending:
        for user in computation.users[pending.pop().id]:
            if user.opcode in _DONES:
                return user
            if user.opcode in _BETWEEN:
                pending.append(user)
    return None


@dataclass(slots=True, eq=False)
class _Search:
    """The state of a search along edges from one instruction."""

    reached: set[int]
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The instructions of a computation in an order that respects their edges, with the position of each."""

    instructions: tuple[HloInstruction, ...]
    positions: Mapping[int, int]

    @classmethod
    def of(cls, computation: HloComputation) -> "_Line":
        """Returns the computation's instructions in the order of the schedule. If the schedule lacks some of them or
        contradicts their edges, the order is made from operands and control edges.
        """
        listed = computation.sequence or computation.instructions
        line = cls(listed, {instruction.id: n for n, instruction in enumerate(listed)})
        if len(listed) == len(computation.instructions) and all(
            line.positions.get(earlier, -1) < n for n, one in enumerate(listed) for earlier in line.before(one)
        ):
            return line
        by_id = {instruction.id: instruction for instruction in computation.instructions}
        sorter = TopologicalSorter({n: [e for e in line.before(one) if e in by_id] for n, one in by_id.items()})
        order = tuple([by_id[number] for number in sorter.static_order()])
        return cls(order, {instruction.id: n for n, instruction in enumerate(order)})

    def before(self, instruction: HloInstruction) -> tuple[int, ...]:
        """Returns the ids of the operands and control predecessors of an instruction, which must come before it."""
        return (*[operand.id for operand in instruction.operands], *instruction.control_predecessors)


def compute_logical_times(module: HloModule) -> dict[int, int]:
    """Returns the LogicalTime of each instruction by its id. This is its 0-based position in XLA's flattened schedule.
    Instructions of called computations come before their caller.

    The flattening follows HloLiveRange (xla/hlo/utils/hlo_live_range.h).
    """
    times: dict[int, int] = {}
    _flatten(module, module.entry, times, set())
    return times


def _flatten(module: HloModule, computation: HloComputation, times: dict[int, int], flattened: set[int]) -> None:
    if computation.id in flattened:
        return
    flattened.add(computation.id)
    for instruction in computation.sequence or computation.instructions:
        if instruction.opcode in CALLERS and instruction.opcode != "fusion":
            for callee in reversed(instruction.called_computations):  # while: the condition, then the body
                _flatten(module, module.computations[callee], times, flattened)
        times.setdefault(instruction.id, len(times))
