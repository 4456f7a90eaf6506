"""Everything that the rules look at: both programs, their dependence sets, the verdicts and the evidence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ligerdiag.analysis.carriers import Carriers, compute_carriers
from ligerdiag.analysis.comparison import Cause, Comparison, OutputComparison
from ligerdiag.analysis.evidence import WrongRead, find_wrong_reads, find_wrong_sightings
from ligerdiag.analysis.labels import Labels, LabelSpace
from ligerdiag.analysis.matching import Matching, match_writes
from ligerdiag.analysis.memory import LuckyRead
from ligerdiag.analysis.order import compute_logical_times
from ligerdiag.analysis.program_order import Intended, compute_intended
from ligerdiag.analysis.schedule_order import Actual, ScheduleEvaluation
from ligerdiag.analysis.vanished import TracedCall, VanishedCall, find_vanished
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite, find_hidden_writes, iterate_kernel_calls
from ligerdiag.effects.access import CallEffects
from ligerdiag.findings import Verdict
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Positions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadFinding:
    """A wrong or lucky read with the outputs that it reaches."""

    write: HiddenWrite
    reader: HloInstruction
    wrong: WrongRead | None
    lucky: LuckyRead | None
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """Input of every rule. `outputs` is in the program's order."""

    program: HloModule
    """The unoptimized module."""
    optimized: HloModule
    buffers: BufferAssignment
    writes: tuple[HiddenWrite, ...]
    matching: Matching
    intended: Intended
    actual: Actual
    outputs: Mapping[str, OutputComparison]
    stale: tuple[ReadFinding, ...]
    clobbered: tuple[ReadFinding, ...]
    latent: tuple[ReadFinding, ...]
    vanished: tuple[VanishedCall, ...]
    calls: tuple[tuple[HloInstruction, CallEffects], ...]
    """Every custom call of the program as written, with its effects."""

    @cached_property
    def logical_times(self) -> Mapping[int, int]:
        """Instruction id in the optimized module to LogicalTime."""
        return compute_logical_times(self.optimized)

    @cached_property
    def optimized_instructions(self) -> Mapping[int, HloInstruction]:
        """Instruction of the optimized module by id."""
        return {i.id: i for c in self.optimized.computations.values() for i in c.instructions}

    def optimized_call(self, write: HiddenWrite) -> HloInstruction | None:
        """The custom call in the optimized module that performs the write."""
        return next((w.call for w in self.actual.writes if w.write == write.index), None)


def compute_context(
    *,
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    traced_calls: tuple[TracedCall, ...],
) -> Context:
    """Run every analysis on one artifact."""
    writes = find_hidden_writes(program, effects_of)
    carriers = compute_carriers(program, writes)
    depth = max((w.loop_depth for w in writes), default=0)
    space = LabelSpace(len(writes), depth)
    positions = Positions(optimized, buffers)
    matching = match_writes(writes, optimized, positions, effects_of)
    intended = compute_intended(program, writes, carriers, effects_of, space) if writes else Intended((), {})
    run = _Runner(
        optimized,
        buffers,
        positions,
        space,
        carriers,
        effects_of,
        matching,
        frozenset(path for path, tagged in intended.tagged.items() if tagged.labels),
    )
    actual = run(None) if writes else Actual((), {}, (), {}, ())
    undecided = frozenset(w.index for w in matching.unplaced)
    comparison = Comparison(writes, space, matching.moved, undecided)
    outputs = {
        name: comparison.compare(
            intended.outputs[n] if n < len(intended.outputs) else 0, actual.outputs[n] if n < len(actual.outputs) else 0
        )
        for n, name in enumerate(output_names)
    }
    instructions = {i.id: i for c in optimized.computations.values() for i in c.instructions}
    search = _Search(
        writes=writes,
        intended=intended,
        actual=actual,
        comparison=comparison,
        run=run,
        instructions=instructions,
    )
    outputs = search.refine(outputs)
    return Context(
        program=program,
        optimized=optimized,
        buffers=buffers,
        writes=writes,
        matching=matching,
        intended=intended,
        actual=actual,
        outputs=outputs,
        stale=search.find(Verdict.STALE, outputs),
        clobbered=search.find(Verdict.CLOBBERED, outputs),
        latent=_find_latent(writes, outputs, instructions),
        vanished=find_vanished(traced_calls, matching, intended, space),
        calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(program)]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Runner:
    optimized: HloModule
    buffers: BufferAssignment
    positions: Positions
    space: LabelSpace
    carriers: Carriers
    effects_of: EffectsOf
    matching: Matching
    wanted: frozenset[tuple[int, ...]]

    def __call__(self, marked: Mapping[int, Labels] | None) -> Actual:
        """Evaluate the optimized module, marking the results of these instructions."""
        return ScheduleEvaluation(
            module=self.optimized,
            buffers=self.buffers,
            positions=self.positions,
            space=self.space,
            carriers=self.carriers,
            effects_of=self.effects_of,
            writes=self.matching.by_call,
            actual_writes=self.matching.actual,
            wanted=self.wanted,
            marked=marked or {},
        ).run()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Search:
    """Looks for the operations behind wrong outputs, and which outputs each of them reaches."""

    writes: tuple[HiddenWrite, ...]
    intended: Intended
    actual: Actual
    comparison: Comparison
    run: _Runner
    instructions: Mapping[int, HloInstruction]

    def refine(self, outputs: Mapping[str, OutputComparison]) -> dict[str, OutputComparison]:
        """The outputs' verdicts, made worse where an operation upstream is wrong though the output's own sets agree.

        An output that mixes several values can depend on all the right writes and still have one wrong part.
        """
        wrong: list[tuple[Cause, Labels]] = []
        marked: dict[int, Labels] = {}
        for verdict, is_wrong in self._kinds():
            for write in self.writes:
                if write.unknown or write.index in self.comparison.moved:
                    continue
                for sighting in find_wrong_sightings(write, self.intended, self.actual, is_wrong):
                    mark = self.run.space.mark(("wrong", verdict, write.index, sighting.instruction.id))
                    marked[sighting.instruction.id] = marked.get(sighting.instruction.id, 0) | mark
                    wrong.append((Cause(write.index, verdict), mark))
        if not wrong:
            return dict(outputs)
        reached = self.run(marked).outputs
        return {
            name: output.join(tuple(dict.fromkeys(cause for cause, mark in wrong if labels & mark)))
            for (name, output), labels in zip(outputs.items(), reached, strict=True)
        }

    def find(self, verdict: Verdict, outputs: Mapping[str, OutputComparison]) -> tuple[ReadFinding, ...]:
        """Readers that make outputs this wrong; those that reach no such output are left out."""
        is_wrong = dict(self._kinds())[verdict]
        concerned = {c.write for o in outputs.values() for c in o.causes if c.verdict is verdict}
        reads = [
            read
            for write in self.writes
            if write.index in concerned
            for read in find_wrong_reads(write, self.intended, self.actual, self.comparison, is_wrong)
        ]
        if not reads:
            return ()
        marked = {
            read.sighting.instruction.id: self.run.space.mark(("reader", read.sighting.instruction.id))
            for read in reads
        }
        reached = self.run(marked).outputs
        found = [
            ReadFinding(
                write=self.writes[read.write],
                reader=self.instructions[read.reader],
                wrong=read,
                lucky=None,
                outputs=tuple(
                    name
                    for (name, output), labels in zip(outputs.items(), reached, strict=True)
                    if labels & marked[read.sighting.instruction.id]
                    and any(c.write == read.write and c.verdict is verdict for c in output.causes)
                ),
            )
            for read in reads
        ]
        return tuple([read for read in found if read.outputs])

    def _kinds(self) -> tuple[tuple[Verdict, Callable[[HiddenWrite, Labels, Labels], bool]], ...]:
        return (
            (Verdict.CLOBBERED, self.comparison.is_clobbered),
            (Verdict.STALE, self.comparison.is_stale),
        )


def _find_latent(
    writes: tuple[HiddenWrite, ...], outputs: Mapping[str, OutputComparison], instructions: Mapping[int, HloInstruction]
) -> tuple[ReadFinding, ...]:
    reached: dict[LuckyRead, list[str]] = {}
    for name, output in outputs.items():
        for cause in output.causes:
            if cause.verdict is Verdict.LATENT:
                for lucky in cause.lucky:
                    reached.setdefault(lucky, []).append(name)
    return tuple(
        ReadFinding(
            write=writes[lucky.write], reader=instructions[lucky.reader], wrong=None, lucky=lucky, outputs=tuple(names)
        )
        for lucky, names in reached.items()
    )
