"""Which operations make outputs wrong, and which outputs each of them reaches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ligerdiag.analysis.carriers import Carriers
from ligerdiag.analysis.comparison import Cause, Comparison, OutputComparison
from ligerdiag.analysis.evidence import WrongRead, find_wrong_reads, find_wrong_sightings
from ligerdiag.analysis.labels import Labels, LabelSpace, WrongAbout
from ligerdiag.analysis.matching import Matching
from ligerdiag.analysis.memory import LuckyRead
from ligerdiag.analysis.program_order import Intended, compute_intended
from ligerdiag.analysis.schedule_order import Actual, ScheduleEvaluation, Sighting
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite
from ligerdiag.findings import Verdict
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.tags import TagPath


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadFinding:
    """A wrong or lucky read with the outputs that it reaches."""

    write: HiddenWrite
    reader: HloInstruction
    wrong: WrongRead | None
    lucky: LuckyRead | None
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What the search found out."""

    outputs: Mapping[str, OutputComparison]
    stale: tuple[ReadFinding, ...]
    clobbered: tuple[ReadFinding, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """Evaluates either program, as often as needed."""

    program: HloModule
    optimized: HloModule
    buffers: BufferAssignment
    positions: Positions
    writes: tuple[HiddenWrite, ...]
    space: LabelSpace
    carriers: Carriers
    effects_of: EffectsOf
    matching: Matching

    def with_marks(
        self, operations: Mapping[TagPath, Labels], instructions: Mapping[int, Labels]
    ) -> tuple[Intended, Actual]:
        """Both programs, with marks on what these operations and instructions compute."""
        return self.run_intended(operations), self.run_actual(frozenset(), instructions)

    def run_intended(self, marked: Mapping[TagPath, Labels] | None = None) -> Intended:
        """The program as written."""
        return compute_intended(self.program, self.writes, self.carriers, self.effects_of, self.space, marked=marked)

    def run_actual(self, wanted: frozenset[TagPath], marked: Mapping[int, Labels] | None = None) -> Actual:
        """The schedule; `wanted`: operations to look out for even where they depend on no write."""
        return ScheduleEvaluation(
            module=self.optimized,
            buffers=self.buffers,
            positions=self.positions,
            space=self.space,
            carriers=self.carriers,
            effects_of=self.effects_of,
            writes=self.matching.by_call,
            actual_writes=self.matching.actual,
            wanted=wanted,
            marked=marked or {},
        ).run()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """Looks for the operations behind wrong outputs, and which outputs each of them reaches."""

    writes: tuple[HiddenWrite, ...]
    intended: Intended
    actual: Actual
    comparison: Comparison
    run: Runner
    instructions: Mapping[int, HloInstruction]

    def run_search(self, outputs: Mapping[str, OutputComparison]) -> Found:
        """The outputs' verdicts, made worse where an operation upstream is wrong, and the readers behind them.

        An output that mixes several values can depend on all the right writes and still have one wrong part.
        """
        outputs = self._blame_merged(outputs)
        wrong = [
            (Cause(write.index, verdict), path, sighting)
            for verdict, is_wrong in self._kinds()
            for write in self.writes
            if not write.unknown and write.index not in self.comparison.moved
            for path, sighting in find_wrong_sightings(write, self.intended, self.actual, is_wrong)
        ]
        concerned = {(c.verdict, c.write) for o in outputs.values() for c in o.causes}
        concerned |= {(cause.verdict, cause.write) for cause, _, _ in wrong}
        reads = [
            (verdict, read)
            for verdict, is_wrong in self._kinds()
            for write in self.writes
            if (verdict, write.index) in concerned
            for read in find_wrong_reads(write, self.intended, self.actual, self.comparison, is_wrong)
        ]
        if not wrong and not reads:
            return Found({**outputs}, (), ())
        reached = self._reach(
            [(cause.write, path, sighting) for cause, path, sighting in wrong]
            + [(read.write, read.path, read.sighting) for _, read in reads]
        )
        refined = {
            name: output.join(
                tuple(
                    dict.fromkeys(
                        cause
                        for cause, path, sighting in wrong
                        if (path, WrongAbout(cause.write, sighting.instruction.id)) in reach
                    )
                )
            )
            for (name, output), reach in zip(outputs.items(), reached, strict=True)
        }
        return Found(
            refined,
            self._report(Verdict.STALE, reads, refined, reached),
            self._report(Verdict.CLOBBERED, reads, refined, reached),
        )

    def _report(
        self,
        verdict: Verdict,
        reads: list[tuple[Verdict, WrongRead]],
        outputs: Mapping[str, OutputComparison],
        reached: list[set[tuple[TagPath, WrongAbout]]],
    ) -> tuple[ReadFinding, ...]:
        """Readers that make outputs this wrong; those that reach no such output are left out."""
        found = [
            ReadFinding(
                write=self.writes[read.write],
                reader=self.instructions[read.reader],
                wrong=read,
                lucky=None,
                outputs=tuple(
                    name
                    for (name, output), reach in zip(outputs.items(), reached, strict=True)
                    if (read.path, WrongAbout(read.write, read.sighting.instruction.id)) in reach
                    and any(c.write == read.write and c.verdict is verdict for c in output.causes)
                ),
            )
            for kind, read in reads
            if kind is verdict
        ]
        return tuple([read for read in found if read.outputs])

    def _blame_merged(self, outputs: Mapping[str, OutputComparison]) -> dict[str, OutputComparison]:
        """Results of a call that XLA merged with an earlier one are stale where the two calls do not see the same."""
        tagged = self.intended.tagged
        gone = {
            self.writes[late].tag_path: Cause(early, Verdict.STALE)
            for late, early in self.run.matching.merged.items()
            if self.writes[late].tag_path in tagged
            and tagged[self.writes[late].tag_path].labels != tagged[self.writes[early].tag_path].labels
        }
        if not gone:
            return dict(outputs)
        marked = {path: self.run.space.mark(("operation", path)) for path in gone}
        reached = self.run.run_intended(marked).outputs
        return {
            name: output.join(tuple(cause for path, cause in gone.items() if labels & marked[path]))
            for (name, output), labels in zip(outputs.items(), reached, strict=True)
        }

    def _reach(self, sightings: list[tuple[int, TagPath, Sighting]]) -> list[set[tuple[TagPath, WrongAbout]]]:
        """For each output those of the (HiddenWrite index, path, sighting) that it depends on, in both programs.

        One instruction can stand for several operations that the compiler merged: it tells something about an output
        only if the program, too, computes the output from the operation that it is named after.
        """
        mark = self.run.space.mark
        keys = [(path, WrongAbout(write, sighting.instruction.id)) for write, path, sighting in sightings]
        marked: dict[int, Labels] = {}
        for _, wrong in keys:
            marked[wrong.instruction] = marked.get(wrong.instruction, 0) | mark(wrong)
        intended, actual = self.run.with_marks({path: mark(("operation", path)) for path, _ in keys}, marked)
        return [
            {(path, wrong) for path, wrong in keys if wanted & mark(("operation", path)) and seen & mark(wrong)}
            for wanted, seen in zip(intended.outputs, actual.outputs, strict=True)
        ]

    def _kinds(self) -> tuple[tuple[Verdict, Callable[[HiddenWrite, Labels, Labels], bool]], ...]:
        return (
            (Verdict.CLOBBERED, self.comparison.is_clobbered),
            (Verdict.STALE, self.comparison.is_stale),
        )


def find_latent(
    writes: tuple[HiddenWrite, ...], outputs: Mapping[str, OutputComparison], instructions: Mapping[int, HloInstruction]
) -> tuple[ReadFinding, ...]:
    """Lucky reads behind latent outputs."""
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
