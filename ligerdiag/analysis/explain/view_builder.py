"""Builds the ScheduleView of one analysed module: the buffers that kernels overwrite, the instructions that use these
buffers and when, and how each output is computed.

The LogicalTime of an instruction is its position in XLA's flattened schedule.

An *access* is an instruction's use of the bytes that a kernel overwrites; `verdict.reads` judges the accesses that are
reads. If there are too many reads, the view keeps the reads that are blamed for an output that is wrong or right by luck,
then the reads that run nearest to the kernel. A *step* is a scheduled instruction that the view shows. Up to a limit, the
steps are the instructions that access an overwritten buffer or are on the path to an output, the instructions whose results
these use directly, and the instructions that run nearest to the kernels. Each step has the loops around it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.def_use import MOVES, NAMES, NO_READERS
from ligerdiag.analysis.explain.output_sentences import OutputSentences
from ligerdiag.analysis.races import AsyncSpan, find_spans
from ligerdiag.analysis.value_flow import PerformedWrite, ValueFlow, name_written
from ligerdiag.analysis.verdict.verdicts import ReadVerdict
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.dataflow import Definition, follow_back
from ligerdiag.hlo.module import HloInstruction, find_user_line, strip_tags
from ligerdiag.hlo.module_text import HloText
from ligerdiag.hlo.opcodes import Trait, having, strip_phase
from ligerdiag.hlo.shape import compute_byte_size, iterate_leaves, render_index, render_shape
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import (
    AccessKind,
    BufferAccess,
    Lane,
    MissingEdge,
    MutatedBuffer,
    OutputView,
    ReadKind,
    ScheduleStep,
    ScheduleView,
    ValueBytes,
)
from ligerdiag.text import count_of, join_words

MOST_READS = 60
"""The view shows at most this many reads of one buffer that are blamed for no output's verdict."""
MOST_NAMED = 100
"""The view shows at most this many reads of one buffer that are blamed for an output's verdict."""
_REUSES = 2
"""Largest number of other values in a buffer's bytes that the view shows before the kernel runs; as many again may be
shown after it.
"""


@dataclass(slots=True, eq=False)
class AccessFinder:
    """Finds the accesses to the bytes that the hidden writes of one schedule overwrite."""

    context: Context
    notes: list[str] = field(default_factory=list[str])
    """One sentence for each hidden write with more readers than the view shows."""
    _definers: Mapping[int, list[HloInstruction]] | None = None

    def find(self) -> tuple[BufferAccess, ...]:
        """Returns the accesses to the bytes of all hidden writes, in the order of the LogicalTime of the accessing
        instructions.
        """
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

    def _list_performed(self, write: HiddenWrite) -> list[PerformedWrite]:
        return [one for one in self.context.followed.performed if one.write is write]

    def _list_around(self, one: PerformedWrite) -> Iterator[BufferAccess]:
        """Yields the accesses to the bytes of one hidden write that are not reads: the definition of the overwritten
        value, the kernel's own write, and definitions of other values in the same bytes.
        """
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

    def _find_reuses(self, one: PerformedWrite, maker: int) -> Iterator[int]:
        """Yields the ids of the steps that put other values into the overwritten bytes: those nearest to the kernel, on
        both sides of it. maker: id of the step that defines the overwritten value itself.
        """
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
        """Maps each slice number of the buffer assignment to the scheduled instructions that compute a value in that
        slice.
        """
        times, found = self.context.logical_times, dict[int, list[HloInstruction]]()
        for number, defined in self.context.buffers.definitions.items():
            instruction = self.context.followed.flow.instructions.get(number)
            if instruction is not None and number in times and instruction.opcode not in NO_READERS:
                for _, place in defined:
                    found.setdefault(place, []).append(instruction)
        return found


MOST_STEPS = 400
"""Largest number of scheduled instructions that a view shows."""
_NEAREST = 100
"""A view with fewer steps than this is filled up to this number with the instructions that run nearest to the kernels."""
_MOST_FUSED = 200
"""Largest number of lines of one fused computation that the view shows."""
_PHASES = ("-done", "-update")
_COLLECTIVES = having(Trait.COLLECTIVE)
_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)
_NO_STEPS = having(Trait.LAUNCHES_NOTHING)
"""Opcodes of instructions that launch nothing; such an instruction is a step only if another step needs it."""
_MOVED = MOVES | NAMES | having(Trait.LAUNCHES_NOTHING) | {"dynamic-update-slice", "fusion"}
"""Opcodes that may occur in an asynchronous computation that only copies."""


@dataclass(slots=True, eq=False)
class StepFinder:
    """Chooses the scheduled instructions that a view shows (its steps), and describes them."""

    flow: ValueFlow
    text: HloText
    kernels: tuple[int, ...]
    """Ids of the steps that run a kernel which overwrites an operand."""
    _spans: Mapping[int, AsyncSpan] = field(init=False)
    """Maps the id of an asynchronous start to the span of the schedule in which its operation is in flight."""

    def __post_init__(self) -> None:
        scheduled = {home.id: home for home in self.flow.homes.values()}
        self._spans = {span.start.id: span for home in scheduled.values() for span in find_spans(home)}

    def choose(self, ranked: Iterable[int]) -> frozenset[int]:
        """Returns the ids of the instructions to show. ranked: ids of the instructions that should be shown, the most
        relevant first.
        """
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
        """Returns the number of scheduled instructions that the view leaves out. Only instructions that compute
        something count. chosen: ids of the instructions that the view shows.
        """
        return sum(number not in chosen for number in self._list_computing())

    def describe(self, chosen: frozenset[int]) -> tuple[ScheduleStep, ...]:
        """Describes the chosen instructions as steps of the view, in the order of their LogicalTime."""
        found = [self._describe(self.flow.instructions[number], chosen) for number in chosen]
        return tuple(sorted(found, key=lambda step: (step.start, -step.end, step.id)))

    def find_start(self, instruction: HloInstruction) -> int:
        """Returns the LogicalTime at which the instruction begins. A loop begins with the first instruction inside it."""
        times = self.flow.readers.times
        callees = instruction.called_computations if instruction.opcode == "while" else ()
        first = [one for callee in callees for one in self.flow.computations[callee].sequence[:1]]
        return min(times[one.id] for one in (instruction, *first))

    def _add(self, chosen: dict[int, None], step: int) -> None:
        wanted = [one for one in (*self.flow.list_loops(step), step) if one not in chosen]
        if step in self.flow.instructions and len(chosen) + len(wanted) <= MOST_STEPS:
            chosen.update(dict.fromkeys(wanted))

    def _list_sources(self, step: int) -> Iterator[int]:
        """Yields the ids of the steps whose results this step uses directly. step: an instruction's id."""
        instruction = self.flow.instructions[step]
        nodes = [(step, index) for index in iterate_leaves(instruction.shape)]
        if instruction.opcode == "while":  # what a loop carries is also at the parameters of its computations
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
        """Returns the nodes of `ValueFlow` inside of the computation that an asynchronous start runs; empty for any
        other instruction.
        """
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
        """Returns the root of the computation that an asynchronous start runs; for any other instruction, the
        instruction itself.
        """
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


MOST_ON_PATH = 100
"""Largest number of steps that the view shows on the path to one output."""
_NAMED = 20
"""Largest number of outputs that one note names."""


@dataclass(slots=True, eq=False)
class OutputViews:
    """Describes each output of one schedule: its verdict, the steps that compute it, and a sentence about it."""

    context: Context
    accesses: tuple[BufferAccess, ...]
    long: list[str] = field(default_factory=list[str])
    """Names of the outputs whose path is too long, so that only its end is shown."""
    lost: list[str] = field(default_factory=list[str])
    """Names of the outputs whose path was not found."""
    unexplained: list[str] = field(default_factory=list[str])
    """Names of the outputs that miss a kernel's write, if it is unknown which reader misses the write."""
    elsewhere: list[str] = field(default_factory=list[str])
    """Names of the outputs that JAX or XLA makes wrong without any hidden write."""
    _kernels: Mapping[int, int] = field(init=False)
    """Maps the index of a hidden write to the id of the step that performs it first."""
    _paths: dict[frozenset[Definition | int], Mapping[Definition, Definition | None]] = field(
        default_factory=dict[frozenset[Definition | int], Mapping[Definition, Definition | None]]
    )
    """Cache. Maps the nodes or steps at which a path may start to the result of `ValueFlow.find_shortest_paths` for
    them.
    """

    def __post_init__(self) -> None:
        kernels: dict[int, int] = {}
        for one in self.context.followed.performed:
            kernels.setdefault(one.write.index, one.kernel)
        self._kernels = kernels

    @property
    def flow(self) -> ValueFlow:
        return self.context.followed.flow

    def describe(self) -> tuple[OutputView, ...]:
        """Returns the description of each output, in the program's order. Also collects the names of the outputs that
        `list_notes` mentions.
        """
        sentences = OutputSentences(self.context, self.accesses)
        nodes = list(self.flow.list_output_nodes()) if self.context.followed.performed else []
        found: list[OutputView] = []
        for number, (name, output) in enumerate(self.context.verdicts.outputs.items()):
            sentence = sentences.describe(name, number)
            if sentences.describe_other_cause(name, number):
                self.elsewhere.append(name)
                found.append(OutputView(name=name, verdict=output.verdict, path=(), missing=(), sentence=sentence))
                continue
            path = self._find_path(name, number, output.verdict, nodes[number]) if number < len(nodes) else ()
            missing = tuple(dict.fromkeys(self._list_missing(name)))
            is_unnamed = output.verdict is Verdict.STALE and not missing
            if is_unnamed and not self.context.verdicts.misses_only_gone_calls(name):
                self.unexplained.append(name)
            found.append(OutputView(name=name, verdict=output.verdict, path=path, missing=missing, sentence=sentence))
        return tuple(found)

    def list_notes(self) -> Iterator[str]:
        """Yields sentences about omissions in the views of the outputs, such as paths that were not found."""
        if self.elsewhere:
            yield f"no hidden write makes {name_outputs(self.elsewhere)} wrong, but JAX or XLA does; no arrow shows how"
        if self.lost:
            yield f"no path through the schedule to {name_outputs(self.lost)} was found, so none is shown"
        if self.long:
            yield f"only the last {MOST_ON_PATH} steps of the paths to {name_outputs(self.long)} are shown"
        if self.unexplained:
            yield f"it is unknown which reader on the path to {name_outputs(self.unexplained)} misses a kernel's write"

    def _list_missing(self, name: str) -> Iterator[MissingEdge]:
        named = [(one.write.index, one.reader.id) for one in self.context.verdicts.stale if name in one.outputs]
        made = [(one.buffer, one.step) for one in self.accesses if one.read is ReadKind.STALE and name in one.outputs]
        for write, reader in named or made:
            kernel = self._kernels.get(write)
            if kernel is not None:
                yield MissingEdge(buffer=write, kernel=kernel, reader=self.flow.find_step(reader))

    def _find_path(self, name: str, number: int, verdict: Verdict, nodes: tuple[Definition, ...]) -> tuple[int, ...]:
        ways = (self._trace_path(starts, nodes) for starts in self._list_starts(name, verdict))
        found = next((way for way in ways if way), ())
        if found and verdict is not Verdict.STALE:  # if the first step reads a kernel's write, the path begins there
            found = (*[one for one in self.flow.list_sources(found[0]) if one[1] and one[1][0] < 0][:1], *found)
        steps = self.flow.name_steps(found)
        if not steps and (verdict is not Verdict.FRESH or self._is_touched(number)):
            self.lost.append(name)
        if len(steps) > MOST_ON_PATH:
            self.long.append(name)
        return steps[-MOST_ON_PATH:]

    def _trace_path(self, starts: frozenset[Definition | int], ends: tuple[Definition, ...]) -> tuple[Definition, ...]:
        """Returns a shortest path of nodes from one of `starts` to one of `ends`; empty if there is none. starts: nodes
        of `ValueFlow`, or ids of steps, all of whose nodes then count.
        """
        before = self._paths.get(starts)
        if before is None:
            nodes = [n for one in starts for n in (self.flow.list_nodes(one) if isinstance(one, int) else (one,))]
            before = self._paths[starts] = self.flow.find_shortest_paths(sorted(nodes))
        return min([follow_back(before, end) for end in ends if end in before], key=len, default=())

    def _list_starts(self, name: str, verdict: Verdict) -> Iterator[frozenset[Definition | int]]:
        """Yields sets of places where the path to an output may start, the most relevant set first. A start is a node
        of `ValueFlow`, or the id of a step.
        """
        context, verdicts = self.context, self.context.verdicts
        findings = {
            Verdict.STALE: verdicts.stale,
            Verdict.CLOBBERED: verdicts.clobbered,
            Verdict.LATENT: verdicts.latent,
        }
        for finding in findings.get(verdict, ()):
            if name in finding.outputs:
                yield frozenset({self.flow.find_step(finding.reader.id)})
        for race in context.concurrency.races:
            if verdict is Verdict.UNKNOWN:
                yield frozenset({self.flow.find_step(race.reader.id)})
        if verdict is not Verdict.STALE:
            yield frozenset(name_written(write, kernel) for write, kernel in self._kernels.items())
            yield frozenset(self._kernels.values())
        if verdict in (Verdict.STALE, Verdict.UNKNOWN) and (others := self._list_suspects(name)):
            yield others

    def _list_suspects(self, name: str) -> frozenset[Definition | int]:
        """Returns the ids of the steps that may miss a kernel's write, for an output that no finding explains."""
        verdicts = (Verdict.STALE, Verdict.UNKNOWN)
        wrong = {cause.write for cause in self.context.verdicts.outputs[name].causes if cause.verdict in verdicts}
        doubtful = (ReadKind.UNKNOWN, ReadKind.STALE)
        return frozenset(
            one.step for one in self.accesses if one.buffer in wrong and one.read in doubtful and name in one.outputs
        )

    def _is_touched(self, number: int) -> bool:
        labels = self.context.actual.outputs
        return number < len(labels) and bool(labels[number])


def name_outputs(names: list[str]) -> str:
    """Returns the names of outputs as text, such as "`a`, `b` and `c`". Of many outputs, only the first ones are named and
    the rest are counted.
    """
    shown = [f"`{name}`" for name in names[:_NAMED]]
    left = len(names) - len(shown)
    return join_words([*shown, count_of(left, "more output")] if left else shown)


def compute_schedule_view(context: Context) -> ScheduleView:
    """Returns the view of a module's hidden writes, with the text of the whole module."""
    module, text = context.optimized, HloText(context.optimized)
    flow, performed = context.followed.flow, context.followed.performed
    access_finder = AccessFinder(context)
    accesses = access_finder.find() if performed else ()
    output_views = OutputViews(context, accesses)
    outputs = output_views.describe()
    finder = StepFinder(flow, text, tuple(dict.fromkeys(one.kernel for one in performed)))
    chosen = finder.choose(_rank_steps(accesses, outputs)) if performed else frozenset[int]()
    steps = finder.describe(chosen)
    order = {step.id: number for number, step in enumerate(steps)}
    shown = sorted([one for one in accesses if one.step in order], key=lambda one: order[one.step])
    lines = list(text.render_module())
    return ScheduleView(
        module=module.name,
        instructions=module.instruction_count,
        length=len(context.logical_times),
        buffers=tuple([_describe_buffer(context, write, performed, flow) for write in context.writes]),
        accesses=tuple(shown),
        steps=steps,
        outputs=tuple([_keep_shown(output, chosen) for output in outputs]),
        omitted=finder.count_omitted(chosen),
        text=tuple([line for _, line in lines]),
        anchors=tuple([(number, at) for at, (number, _) in enumerate(lines) if number in chosen]),
        places=_list_places(context),
        notes=(
            *_list_notes(context),
            *access_finder.notes,
            *output_views.list_notes(),
            *_list_cuts(chosen, accesses, outputs),
        ),
    )


def _describe_buffer(
    context: Context, write: HiddenWrite, performed: tuple[PerformedWrite, ...], flow: ValueFlow
) -> MutatedBuffer:
    operand = write.call.operands[write.operand]
    value, shape, size, slice_ = f"%{operand.name}", operand.shape, 0, None
    one = next((one for one in performed if one.write is write), None)
    if one is not None:
        number, index = one.overwritten.definition
        value = f"%{flow.instructions[number].name}{render_index(index) if index else ''}"
        place = next((place for place in one.actual.slices if place >= 0), None)
        slice_ = context.buffers.slices[place] if place is not None and context.buffers.memory is not None else None
        shape = one.overwritten.leaf
        size = slice_.size if slice_ is not None else compute_byte_size(shape) or 0
    return MutatedBuffer(
        kernel=write.kernel,
        operand=write.operand,
        value=value,
        shape=render_shape(shape),
        size=size,
        allocation=slice_.allocation if slice_ is not None else None,
        offset=slice_.offset if slice_ is not None else 0,
        is_performed=one is not None,
        unknown=write.unknown,
    )


def _list_places(context: Context) -> Mapping[str, tuple[ValueBytes, ...]]:
    """Returns the bytes of each value that an instruction defines, by the instruction's name; empty if they are unknown."""
    buffers = context.buffers
    if buffers.memory is None:
        return {}
    names = {one.id: one.name for one in context.optimized.instructions}
    found: dict[str, tuple[ValueBytes, ...]] = {}
    for number, defined in buffers.definitions.items():
        places = [(index, buffers.slices[place]) for index, place in defined if place >= 0]
        found[names[number]] = tuple(
            [
                ValueBytes(
                    index=render_index(index) if index else "",
                    allocation=one.allocation,
                    offset=one.offset,
                    size=one.size,
                )
                for index, one in places
            ]
        )
    return found


def _keep_shown(output: OutputView, chosen: frozenset[int]) -> OutputView:
    """Returns the output without its path if a step on it is not shown, and without those missing edges (from a kernel
    to a reader that misses the kernel's write) of which one end is not shown. chosen: ids of the shown instructions.
    """
    missing = tuple([edge for edge in output.missing if {edge.kernel, edge.reader} <= chosen])
    return replace(output, path=output.path if chosen.issuperset(output.path) else (), missing=missing)


def _rank_steps(accesses: Sequence[BufferAccess], outputs: Sequence[OutputView]) -> Iterator[int]:
    """Yields ids of steps, the most relevant first: readers that are not right, then the paths of outputs that are not
    fresh, then the rest.
    """
    by_buffer = sorted(accesses, key=lambda one: one.buffer)
    usual = (ReadKind.FRESH, ReadKind.ORIGINAL)
    for output in outputs:
        yield from (step for edge in output.missing for step in (edge.kernel, edge.reader))
    yield from (one.step for one in by_buffer if one.kind is not AccessKind.REUSE and one.read not in usual)
    yield from (step for output in outputs if output.verdict is not Verdict.FRESH for step in output.path)
    yield from (one.step for one in by_buffer)
    yield from (step for output in outputs for step in output.path)


def _list_cuts(
    chosen: frozenset[int], accesses: Sequence[BufferAccess], outputs: Sequence[OutputView]
) -> Iterator[str]:
    """Yields one sentence for each kind of fact (readers, paths, missing writes) that the view leaves out because of
    its limit on steps.
    """
    why = f"the view shows at most {MOST_STEPS} instructions"
    if not chosen.issuperset(one.step for one in accesses):
        yield f"not all readers are shown: {why}"
    cut = [one.name for one in outputs if not chosen.issuperset(one.path)]
    if cut:
        yield f"the paths to {name_outputs(cut)} are not shown: {why}"
    ends = {one.name: {n for edge in one.missing for n in (edge.kernel, edge.reader)} for one in outputs}
    cut = [name for name, numbers in ends.items() if not chosen.issuperset(numbers)]
    if cut:
        yield f"the kernel's write that {name_outputs(cut)} should see is not shown: {why}"


def _list_notes(context: Context) -> Iterator[str]:
    if not context.writes:
        yield "no kernel overwrites an operand behind XLA's back"
        return
    if not context.optimized.is_scheduled:
        yield "the module has no schedule, so the order of its instructions is unknown"
        return
    if not context.intended.outputs:
        yield "without the program as written it is unknown which version each reader should get"
    for write in context.matching.unplaced:
        yield f"it is unknown where in the schedule `{write.kernel}` writes operand {write.operand}"
    for write in context.matching.missing:
        kept = context.matching.merged_into.get(write.index)
        what = f"XLA merged it with another call of `{write.kernel}`" if kept is not None else "it does not run"
        yield f"the call of `{write.kernel}` that overwrites operand {write.operand} is not in the schedule: {what}"
