"""Collects parts of a ScheduleView: the accesses to each mutated buffer, and the steps of the schedule around the
kernels.

Accesses touch the bytes that kernels overwrite; `verdict.reads` judges the reads. Of many readers, the blamed ones are
kept, then those that run nearest to the kernel. Steps are the scheduled instructions that are shown, up to a limit:
those that access an overwritten buffer or are on the path to an output, their direct sources, and those that run
nearest to the kernels; each with its enclosing loops.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.def_use import MOVES, NAMES, NO_READERS
from ligerdiag.analysis.races import AsyncSpan, find_spans
from ligerdiag.analysis.value_flow import Performed, ValueFlow
from ligerdiag.analysis.verdict.verdicts import ReadVerdict
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.hlo_text import HloText
from ligerdiag.hlo.module import HloInstruction, find_user_line, strip_tags
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import iterate_leaves, render_shape
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, Lane, ScheduleStep

MOST_READS = 60
"""Reads of one buffer that are kept in addition to blamed ones."""
MOST_NAMED = 100
"""Blamed reads of one buffer that are kept."""
_REUSES = 2
"""Other values in the same bytes that are kept, on each side of the kernel."""


@dataclass(slots=True, eq=False)
class AccessFinder:
    """Finds the accesses of all hidden writes of one schedule."""

    context: Context
    notes: list[str] = field(default_factory=list[str])
    """One line for each omission."""
    _definers: Mapping[int, list[HloInstruction]] | None = None

    def find(self) -> tuple[BufferAccess, ...]:
        """Finds all of them, by the LogicalTime of their steps."""
        found: list[BufferAccess] = []
        for write in self.context.writes:
            for one in self._list_performed(write):
                found += self._list_around(one)
            found += [
                BufferAccess(
                    buffer=read.write,
                    step=read.step,
                    kind=AccessKind.READ,
                    read=read.kind,
                    place=read.place,
                    outputs=read.outputs,
                )
                for read in self._choose_reads(write)
            ]
        times = self.context.logical_times
        return tuple(sorted(dict.fromkeys(found), key=lambda one: (times[one.step], one.buffer)))

    def _list_performed(self, write: HiddenWrite) -> list[Performed]:
        return [one for one in self.context.followed.performed if one.write is write]

    def _list_around(self, one: Performed) -> Iterator[BufferAccess]:
        """Yields the value's definition, the kernel, and the other values in the same bytes."""
        flow = self.context.followed.flow
        maker = flow.find_step(one.overwritten.definition[0])
        if maker in flow.instructions:
            yield BufferAccess(buffer=one.write.index, step=maker, kind=AccessKind.DEFINE)
        yield BufferAccess(buffer=one.write.index, step=one.kernel, kind=AccessKind.HIDDEN_WRITE)
        for step in self._find_reuses(one, maker):
            yield BufferAccess(buffer=one.write.index, step=step, kind=AccessKind.REUSE)

    def _choose_reads(self, write: HiddenWrite) -> list[ReadVerdict]:
        times = self.context.logical_times
        kernels = [times[one.overwritten.kernel.id] for one in self._list_performed(write)]
        reads = [read for read in self.context.reads if read.write == write.index]
        named = [read for read in reads if read.cause.is_of_outputs]
        others = [read for read in reads if not read.cause.is_of_outputs]
        others.sort(key=lambda one: min([abs(times[one.step] - time) for time in kernels], default=0))
        kept = [*named[:MOST_NAMED], *others[:MOST_READS]]
        if len(kept) < len(reads):
            self.notes.append(
                f"{len(reads) - len(kept)} more readers of what `{write.kernel}` overwrites in operand {write.operand} are"
                " not shown"
            )
        return kept

    def _find_reuses(self, one: Performed, maker: int) -> Iterator[int]:
        """Yields the steps of values that XLA puts into the same bytes, the nearest before and after the kernel."""
        if self._definers is None:
            self._definers = self._find_definers()
        times, flow = self.context.logical_times, self.context.followed.flow
        slices = [n for place in one.actual.slices if place >= 0 for n in self.context.buffers.overlapping[place]]
        steps = {flow.find_step(other.id) for number in slices for other in self._definers.get(number, ())}
        now = times[one.kernel]
        others = sorted(steps - {maker}, key=lambda step: (abs(times[step] - now), step))
        yield from [step for step in others if times[step] < now][:_REUSES]
        yield from [step for step in others if times[step] >= now][:_REUSES]

    def _find_definers(self) -> Mapping[int, list[HloInstruction]]:
        """Maps each slice number to the scheduled instructions that compute a value there."""
        times, found = self.context.logical_times, dict[int, list[HloInstruction]]()
        for number, defined in self.context.buffers.definitions.items():
            instruction = self.context.followed.flow.instructions.get(number)
            if instruction is not None and number in times and instruction.opcode not in NO_READERS:
                for _, place in defined:
                    found.setdefault(place, []).append(instruction)
        return found


MOST_STEPS = 400
_NEAREST = 100
"""Number of steps up to which the view is filled with those nearest to the kernels."""
_MOST_FUSED = 200
"""Lines of one fused computation."""
_PHASES = ("-done", "-update")
_COLLECTIVES = having(Trait.COLLECTIVE)
_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)
_NO_STEPS = having(Trait.LAUNCHES_NOTHING)
"""Opcodes that are steps only if another step needs them."""
_MOVED = MOVES | NAMES | having(Trait.LAUNCHES_NOTHING) | {"dynamic-update-slice", "fusion"}
"""Opcodes in an asynchronous computation that only copies."""


@dataclass(slots=True, eq=False)
class StepFinder:
    """Chooses and describes the steps of one schedule."""

    flow: ValueFlow
    text: HloText
    kernels: tuple[int, ...]
    """Ids of the steps that overwrite."""
    _spans: Mapping[int, AsyncSpan] = field(init=False)
    """Id of a start to its asynchronous operation."""

    def __post_init__(self) -> None:
        scheduled = {home.id: home for home in self.flow.homes.values()}
        self._spans = {span.start.id: span for home in scheduled.values() for span in find_spans(home)}

    def choose(self, ranked: Iterable[int]) -> frozenset[int]:
        """Returns the ids of the instructions to show. ranked: those that should be shown, the most relevant first."""
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
        """Counts the instructions of the schedule that compute and are not shown."""
        return sum(number not in chosen for number in self._list_computing())

    def describe(self, chosen: frozenset[int]) -> tuple[ScheduleStep, ...]:
        """Describes the chosen steps, by LogicalTime."""
        found = [self._describe(self.flow.instructions[number], chosen) for number in chosen]
        return tuple(sorted(found, key=lambda step: (step.start, -step.end, step.id)))

    def find_start(self, instruction: HloInstruction) -> int:
        """Returns the LogicalTime at which the instruction, or a computation that it runs, begins."""
        times = self.flow.readers.times
        callees = instruction.called_computations if instruction.opcode == "while" else ()
        first = [one for callee in callees for one in self.flow.computations[callee].sequence[:1]]
        return min(times[one.id] for one in (instruction, *first))

    def _add(self, chosen: dict[int, None], step: int) -> None:
        wanted = [one for one in (*self.flow.list_loops(step), step) if one not in chosen]
        if step in self.flow.instructions and len(chosen) + len(wanted) <= MOST_STEPS:
            chosen.update(dict.fromkeys(wanted))

    def _list_sources(self, step: int) -> Iterator[int]:
        """Yields the ids of the steps whose values this one uses."""
        instruction = self.flow.instructions[step]
        nodes = [(step, index) for index in iterate_leaves(instruction.shape)]
        if instruction.opcode == "while":  # what it carries stands at its computations' parameters, too
            nodes += [
                (one.id, index)
                for callee in instruction.called_computations
                for one in self.flow.computations[callee].parameters
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
        """Lists the nodes inside of an asynchronous computation."""
        instruction = self.flow.instructions[step]
        if instruction.opcode not in _STARTS_COMPUTATION:
            return []
        return [
            (one.id, index)
            for callee in instruction.called_computations
            for one in self.flow.computations[callee].sequence
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

    def _describe(self, instruction: HloInstruction, chosen: frozenset[int]) -> ScheduleStep:
        module = self.flow.readers.context.optimized
        start = self.find_start(instruction)
        inner = self._find_inner(instruction)
        return ScheduleStep(
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
        """Returns the root of an asynchronous computation; of another instruction, itself."""
        if instruction.opcode in _STARTS_COMPUTATION and instruction.called_computations:
            return self.flow.computations[instruction.called_computations[0]].root
        return instruction

    def _list_fused(self, instruction: HloInstruction) -> tuple[str, ...]:
        if instruction.opcode != "fusion":
            return ()
        fused = self.flow.computations[instruction.called_computations[0]]
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
        called = [one for c in inner.called_computations for one in self.flow.computations[c].instructions]
        return Lane.COPY if called and all(one.opcode in _MOVED for one in called) else Lane.COMPUTE
