"""The neighbourhood of hidden writes as steps: which scheduled instructions a `ScheduleView` shows, and how.

Kept are, up to a limit, what accesses an overwritten buffer or lies on the way to an output, what these are computed from
directly, and what runs nearest to the kernels; with each of them the loops around it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.hlo_text import HloText
from ligerdiag.analysis.races import Span, find_spans
from ligerdiag.analysis.reading_operations import MOVES, NAMES
from ligerdiag.analysis.value_flow import ValueFlow
from ligerdiag.analysis.value_readers import NO_READERS
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import iterate_leaves, render_shape
from ligerdiag.hlo.source import find_user_line
from ligerdiag.hlo.tags import strip_tags
from ligerdiag.schedule_view import Lane, Step

MOST_STEPS = 400
_NEAREST = 100
"""Steps up to which the view is filled with what runs nearest to the kernels."""
_MOST_FUSED = 200
"""Lines of one fused computation."""
_PHASES = ("-done", "-update")
_COLLECTIVES = having(Trait.COLLECTIVE)
_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)
_NO_STEPS = having(Trait.LAUNCHES_NOTHING)
"""Opcodes that are steps only if somebody needs them."""
_MOVED = MOVES | NAMES | having(Trait.LAUNCHES_NOTHING) | {"dynamic-update-slice", "fusion"}
"""What an asynchronous computation that only copies holds."""


@dataclass(slots=True, eq=False)
class StepFinder:
    """Chooses and describes the steps of one schedule."""

    flow: ValueFlow
    text: HloText
    kernels: tuple[int, ...]
    """Ids of the steps that overwrite."""
    _spans: Mapping[int, Span] = field(init=False)
    """Id of a start to its asynchronous operation."""

    def __post_init__(self) -> None:
        scheduled = {home.id: home for home in self.flow.homes.values()}
        self._spans = {span.start.id: span for home in scheduled.values() for span in find_spans(home)}

    def choose(self, ranked: Iterable[int]) -> frozenset[int]:
        """Ids of the instructions that are shown. ranked: those that are to be, what tells most first."""
        chosen: dict[int, None] = {}
        for step in ranked:
            self._add(chosen, step)
        for step in tuple(chosen):
            for source in self._list_sources(step):
                self._add(chosen, source)
        for step in self._list_nearest() if len(chosen) < _NEAREST else ():
            if len(chosen) >= _NEAREST:
                break
            self._add(chosen, step)
        return frozenset(chosen)

    def count_omitted(self, chosen: frozenset[int]) -> int:
        """Instructions of the schedule that compute and are not shown."""
        return sum(number not in chosen for number in self._list_computing())

    def describe(self, chosen: frozenset[int]) -> tuple[Step, ...]:
        """The steps by LogicalTime."""
        found = [self._describe(self.flow.instructions[number], chosen) for number in chosen]
        return tuple(sorted(found, key=lambda step: (step.start, -step.end, step.id)))

    def find_start(self, instruction: HloInstruction) -> int:
        """LogicalTime at which the instruction, or what it runs, begins."""
        times = self.flow.readers.times
        computations = self.flow.readers.context.optimized.computations
        begun = [times[instruction.id]]
        if instruction.opcode == "while":
            begun += [times[one.id] for c in instruction.called_computations for one in computations[c].sequence[:1]]
        return min(begun)

    def _add(self, chosen: dict[int, None], step: int) -> None:
        wanted = [one for one in (*self.flow.list_loops(step), step) if one not in chosen]
        if step in self.flow.instructions and len(chosen) + len(wanted) <= MOST_STEPS:
            chosen.update(dict.fromkeys(wanted))

    def _list_sources(self, step: int) -> Iterator[int]:
        """Ids of the steps whose values this one uses."""
        instruction = self.flow.instructions[step]
        nodes = [(step, index) for index in iterate_leaves(instruction.shape)]
        if instruction.opcode == "while":  # what it carries stands at its computations' parameters, too
            nodes += [
                (one.id, index)
                for callee in instruction.called_computations
                for one in self.flow.readers.context.optimized.computations[callee].parameters
                for index in iterate_leaves(one.shape)
            ]
        else:
            nodes += self._list_inner(step)
        found = dict.fromkeys(
            self.flow.find_step(source)
            for node in nodes
            for source, index in self.flow.list_sources(node)
            if not (index and index[0] < 0)
        )
        yield from (source for source in found if source != step)

    def _list_inner(self, step: int) -> list[tuple[int, tuple[int, ...]]]:
        """Nodes of what runs inside of an asynchronous computation."""
        instruction = self.flow.instructions[step]
        if instruction.opcode not in _STARTS_COMPUTATION:
            return []
        computations = self.flow.readers.context.optimized.computations
        return [
            (one.id, index)
            for callee in instruction.called_computations
            for one in computations[callee].sequence
            if one.opcode not in NO_READERS
            for index in iterate_leaves(one.shape)
        ]

    def _list_computing(self) -> list[int]:
        times = self.flow.readers.times
        return [
            number
            for number, one in self.flow.instructions.items()
            if number in times
            and one.opcode not in _NO_STEPS
            and not one.opcode.endswith(_PHASES)
            and self.flow.find_step(number) == number
        ]

    def _list_nearest(self) -> list[int]:
        times = self.flow.readers.times
        kernels = [times[kernel] for kernel in self.kernels]
        found = self._list_computing()
        return sorted(found, key=lambda one: min([abs(times[one] - time) for time in kernels], default=0))

    def _describe(self, instruction: HloInstruction, chosen: frozenset[int]) -> Step:
        module = self.flow.readers.context.optimized
        start = self.find_start(instruction)
        inner = self._find_inner(instruction)
        return Step(
            id=instruction.id,
            name=f"%{instruction.name}",
            opcode=instruction.opcode,
            shape=render_shape(instruction.shape),
            text=self.text.render_instruction(instruction),
            fused=self._list_fused(inner),
            start=start,
            end=max(start, self._find_end(instruction)),
            lane=self._find_lane(instruction),
            loops=self.flow.list_loops(instruction.id),
            op_name=strip_tags(inner.op_name or instruction.op_name),
            source=find_user_line(module, instruction) or find_user_line(module, inner),
            operands=tuple([one for one in self._list_sources(instruction.id) if one in chosen]),
            is_kernel=instruction.id in self.kernels,
        )

    def _find_inner(self, instruction: HloInstruction) -> HloInstruction:
        """What an asynchronous computation computes; the instruction itself where it is none."""
        if instruction.opcode in _STARTS_COMPUTATION and instruction.called_computations:
            return self.flow.readers.context.optimized.computations[instruction.called_computations[0]].root
        return instruction

    def _list_fused(self, instruction: HloInstruction) -> tuple[str, ...]:
        if instruction.opcode != "fusion":
            return ()
        fused = self.flow.readers.context.optimized.computations[instruction.called_computations[0]]
        lines = tuple([line for number, line in self.text.render_computation(fused) if number])
        left = len(lines) - _MOST_FUSED
        return (*lines[:_MOST_FUSED], f"  ... {left} more") if left > 0 else lines

    def _find_end(self, instruction: HloInstruction) -> int:
        times = self.flow.readers.times
        span = self._spans.get(instruction.id)
        if span is None:
            return times[instruction.id]
        return times[span.done.id if span.done is not None else self.flow.homes[instruction.id].sequence[-1].id]

    def _find_lane(self, instruction: HloInstruction) -> Lane:
        if instruction.id not in self._spans:
            return Lane.COMPUTE
        inner = self._find_inner(instruction)
        if strip_phase(inner.opcode) in _COLLECTIVES:
            return Lane.COLLECTIVE
        if inner.opcode == "copy-start":
            return Lane.COPY
        computations = self.flow.readers.context.optimized.computations
        called = [one for c in inner.called_computations for one in computations[c].instructions]
        return Lane.COPY if called and all(one.opcode in _MOVED for one in called) else Lane.COMPUTE
