"""Finds the conditions of a kernel call: branches and loops around the call that may not run.

If the program always makes a call and the schedule makes it only under a condition, it is unknown whether values that
depend on the call are right. XLA keeps conditions and removes some; it adds no new one around a call. So each condition
around a call in the schedule must be one of those around it in the program. Two conditions are the same if both are
loops, or both are conditionals with the same number of branches and the call is in the same branch. If XLA replaces an
index by a predicate, or the reverse, the two branches change places: true chooses the first branch, but index 1 the
second one. In addition, the schedule's predicate must depend only on arguments on which the program's predicate
depends, and on at least one argument if the program's does. A loop that certainly runs, a branch that is always taken,
and a conditional with the call in each branch do not count as conditions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.writes import Frames, HiddenWrite, list_entered
from ligerdiag.hlo.dataflow import ALL_SOURCES, Dataflow, Position, is_operandwise, search
from ligerdiag.hlo.fixed_values import sort_branches, surely_runs
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

type Argument = tuple[int, ShapeIndex]
"""Number of a parameter of the entry computation, and an index into its shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A conditional or loop around a kernel call. The call runs only if the condition holds."""

    instruction: HloInstruction
    branches: frozenset[int]
    """Numbers of the branches that contain the call; empty for a loop."""


def find_conditions(module: HloModule, frames: Frames) -> Iterator[Condition]:
    """Yields the conditions around a call, outermost first. frames: the calls that lead to the kernel call, and the kernel
    call itself as the last frame.
    """
    for outer, inner in pairwise(frames):
        one, home = outer.instruction, inner.computation.id
        if one.opcode == "while" and one.called_computations[0] == home:
            if not surely_runs(module, one):
                yield Condition(one, frozenset())
        elif one.opcode == "conditional" and any(callee != home for callee in list_entered(module, one)):
            yield Condition(one, frozenset(n for n, callee in enumerate(one.called_computations) if callee == home))


def find_conditional_writes(
    writes: Sequence[HiddenWrite], actual: Sequence[ActualWrite], optimized: HloModule
) -> frozenset[int]:
    """Returns the indices of the hidden writes whose kernel call XLA has moved under a condition. The program always makes
    such a call; the schedule makes it only in one branch of a conditional.
    """
    inputs: dict[int, _Inputs] = {}
    found: set[int] = set()
    for write in writes:
        calls = [one for one in actual if one.write == write.index]
        own = list(find_conditions(write.module, write.frames))
        added = [
            _drop_known(list(find_conditions(optimized, one.frames)), own, write.module, optimized, inputs)
            for one in calls
        ]
        if any(any(not _is_everywhere(condition, added) for condition in one) for one in added):
            found.add(write.index)
    return frozenset(found)


def _drop_known(
    scheduled: list[Condition],
    written: list[Condition],
    program: HloModule,
    optimized: HloModule,
    inputs: "dict[int, _Inputs]",
) -> list[Condition]:
    """Returns those conditions around a scheduled call that the program does not have. Each condition of the program
    accounts for at most one of the schedule.

    scheduled, written: the conditions around the call in the schedule and in the program, outermost first. inputs:
    cache that maps the id of a module object to the `_Inputs` of that module; gets an entry for each of the two
    modules.
    """
    if not scheduled or program is optimized:
        return []
    left = list(written)
    added: list[Condition] = []
    theirs, ours = (inputs.setdefault(id(module), _Inputs(module)) for module in (program, optimized))
    for one in scheduled:
        known = next((other for other in left if _is_same(one, other, ours, theirs)), None)
        if known is None:
            added.append(one)
        else:
            left.remove(known)
    return added


def _is_everywhere(condition: Condition, added: Sequence[Sequence[Condition]]) -> bool:
    """Returns whether the schedule has the call in every branch of the conditional, under no other condition that the
    program lacks.

    added: for each place where the schedule makes the call, the conditions there that the program lacks.
    """
    alone = [one[0] for one in added if len(one) == 1]
    taken = {branch for one in alone if one.instruction is condition.instruction for branch in one.branches}
    return bool(condition.branches) and len(taken) == len(condition.instruction.called_computations)


def _is_same(one: Condition, other: Condition, inputs: "_Inputs", of_other: "_Inputs") -> bool:
    """Returns whether `one`, a condition of the schedule, is `other`, a condition of the program. inputs, of_other: the
    `_Inputs` of the schedule's module and of the program.
    """
    a, b = one.instruction, other.instruction
    if a.opcode != b.opcode or len(a.called_computations) != len(b.called_computations):
        return False
    if a.opcode == "conditional" and not one.branches <= _translate(other, a):
        return False
    seen, meant = inputs.find(a), of_other.find(b)
    return seen <= meant and bool(seen) == bool(meant)


def _translate(condition: Condition, like: HloInstruction) -> frozenset[int]:
    """Returns the numbers that the condition's branches (those that contain the call) would have in the conditional
    `like`, which has as many branches.
    """
    own, others = sort_branches(condition.instruction), sort_branches(like)
    return frozenset(others[own.index(branch)] for branch in condition.branches)


@dataclass(slots=True, eq=False)
class _Inputs:
    """Finds the program's arguments on which the predicates of one module's conditionals and loops depend."""

    module: Final[HloModule]
    _flow: Dataflow = field(init=False)
    _known: dict[int, frozenset[Argument]] = field(default_factory=dict[int, frozenset[Argument]])

    def __post_init__(self) -> None:
        self._flow = Dataflow(self.module, ALL_SOURCES)

    def find(self, caller: HloInstruction) -> frozenset[Argument]:
        """Returns the arguments on which the predicate of a conditional or loop depends. Each is (parameter number,
        index of a leaf).
        """
        if caller.id not in self._known:
            is_loop = caller.opcode == "while"
            start = self.module.computations[caller.called_computations[1]].root if is_loop else caller.operands[0]
            entry = {parameter.id for parameter in self.module.entry.parameters}
            self._known[caller.id] = frozenset(
                (value.proto.parameter_number, index)
                for value, index in search([(start, ())], self._list_read)
                if value.id in entry
            )
        return self._known[caller.id]

    def _list_read(self, position: Position) -> list[Position]:
        value, index = position
        sources = list(self._flow.list_sources(value, index))
        if sources or value.opcode == "parameter":
            return sources
        operands = value.operands
        if index and is_operandwise(value):
            operands = operands[index[-1] : index[-1] + 1]
        return [(operand, leaf) for operand in operands for leaf in iterate_leaves(operand.shape)]
