"""Which operations make outputs wrong, and which outputs each of them reaches."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.comparison import Cause, Comparison, OutputComparison
from ligerdiag.analysis.evidence import Differing, WrongRead, find_own_sightings, find_wrong_reads
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.memory import LuckyRead
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.reaching import find_reached
from ligerdiag.analysis.runner import Runner
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import Verdict
from ligerdiag.hlo.module import HloInstruction

type _Reads = list[tuple[Verdict, WrongRead]]

LIMIT = 300_000
"""Pairs of a write and a wrong operation that outputs are asked about."""


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
    crowded: Mapping[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Output name to the writes about which there are too many wrong operations to ask which of them it depends on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """Looks for the operations behind wrong outputs, and which outputs each of them reaches."""

    writes: tuple[HiddenWrite, ...]
    intended: Intended
    actual: Actual
    differing: tuple[Differing, ...]
    comparison: Comparison
    run: Runner
    instructions: Mapping[int, HloInstruction]

    def run_search(self, outputs: Mapping[str, OutputComparison]) -> Found:
        """The outputs' verdicts, made worse where an operation upstream is wrong, and the readers behind them.

        An output that mixes several values can depend on all the right writes and still have one wrong part.
        """
        outputs = self._blame_merged(outputs)
        own = find_own_sightings(self.differing, self.run.is_own)
        wrong: list[tuple[Cause, Differing]] = []
        reads: _Reads = []
        spare: _Reads = []
        crowded: set[Cause] = set()
        space = self.run.space
        for verdict in (Verdict.CLOBBERED, Verdict.STALE):
            open_ = self._find_open(verdict, outputs)
            concerned = space.bits_of(c.write for o in outputs.values() for c in o.causes if c.verdict is verdict)
            total = sum([(one.wrong(verdict) & open_).bit_count() for one in own]) if open_ else 0
            for one in own:
                concerned |= one.wrong(verdict) & open_
            if total > LIMIT - len(wrong):
                crowded |= {Cause(write, verdict) for write in space.writes_of(open_)}
            else:
                wrong += [
                    (Cause(write, verdict), one) for one in own for write in space.writes_of(one.wrong(verdict) & open_)
                ]
            found = find_wrong_reads(
                concerned, self.intended, self.actual, self.differing, self.comparison, verdict=verdict
            )
            reads += [(verdict, read) for read in found if not read.rank]
            spare += [(verdict, read) for read in found if read.rank]
        if not wrong and not reads and not crowded:
            return Found({**outputs}, (), ())
        answer = find_reached(self.run, len(outputs), wrong, [read for _, read in reads])
        crowded |= answer.open
        refined = {
            name: output.join(tuple([cause for cause in dict.fromkeys(c for c, _ in wrong) if cause in found]))
            for (name, output), found in zip(outputs.items(), answer.causes, strict=True)
        }
        findings = self._report(reads, refined, answer.reads)
        findings += self._report_unnamed(spare, refined, findings)
        return Found(
            refined,
            tuple([finding for verdict, finding in findings if verdict is Verdict.STALE]),
            tuple([finding for verdict, finding in findings if verdict is Verdict.CLOBBERED]),
            self._find_crowded(crowded, refined),
        )

    def _find_open(self, verdict: Verdict, outputs: Mapping[str, OutputComparison]) -> Labels:
        """Writes, a bit each, about which a wrong operation may make some output worse than it is known to be."""
        found = 0
        space = self.run.space
        for output, intended, actual in zip(outputs.values(), self.intended.outputs, self.actual.outputs, strict=False):
            touched = space.any_fresh(actual)
            if verdict is Verdict.STALE:
                touched = space.any_fresh(intended) | space.any_original(actual)
            found |= touched & ~space.bits_of(c.write for c in output.causes if c.verdict is verdict)
        never = {write.index for write in self.writes if write.unknown} | self.comparison.moved
        return found & ~space.bits_of(never)

    def _find_crowded(self, crowded: set[Cause], outputs: Mapping[str, OutputComparison]) -> Mapping[str, set[int]]:
        """Outputs, with HiddenWrite indices, that one of too many wrong operations may make worse."""
        if not crowded:
            return {}
        found: dict[str, set[int]] = {}
        for (name, output), intended, actual in zip(
            outputs.items(), self.intended.outputs, self.actual.outputs, strict=False
        ):
            space = self.run.space
            touched = {
                Verdict.STALE: space.any_fresh(intended) | space.any_original(actual),
                Verdict.CLOBBERED: space.any_fresh(actual),
            }
            stale = {cause.write for cause in output.causes if cause.verdict is Verdict.STALE}
            found[name] = {
                cause.write
                for cause in crowded
                if cause.write not in stale and touched[cause.verdict] & space.bits_of((cause.write,))
            }
        return found

    def _report(
        self, reads: _Reads, outputs: Mapping[str, OutputComparison], reached: tuple[frozenset[int], ...]
    ) -> list[tuple[Verdict, ReadFinding]]:
        """Readers that make outputs this wrong; those that reach no such output are left out."""
        found: list[tuple[Verdict, ReadFinding]] = []
        for number, (verdict, read) in enumerate(reads):
            names = tuple(
                name
                for (name, output), reach in zip(outputs.items(), reached, strict=True)
                if number in reach and any(c.write == read.write and c.verdict is verdict for c in output.causes)
            )
            if names:
                found.append((verdict, self._make_finding(read, names)))
        return found

    def _report_unnamed(
        self,
        spare: _Reads,
        outputs: Mapping[str, OutputComparison],
        findings: list[tuple[Verdict, ReadFinding]],
    ) -> list[tuple[Verdict, ReadFinding]]:
        """Where no reader's first wrong operation makes an output wrong, the first of its others that does."""
        named = {(verdict, one.write.index, name) for verdict, one in findings for name in one.outputs}
        unnamed = {
            (cause.verdict, cause.write, name)
            for name, output in outputs.items()
            for cause in output.causes
            if (cause.verdict, cause.write, name) not in named
        }
        asked = {(verdict, write) for verdict, write, _ in unnamed}
        reads = [(verdict, read) for verdict, read in spare if (verdict, read.write) in asked]
        if not reads:
            return []
        reached = find_reached(self.run, len(outputs), (), [read for _, read in reads]).reads
        found: list[tuple[Verdict, ReadFinding]] = []
        for verdict, one in self._report(reads, outputs, reached):
            names = tuple(name for name in one.outputs if (verdict, one.write.index, name) in unnamed)
            unnamed -= {(verdict, one.write.index, name) for name in names}
            if names:
                found.append((verdict, replace(one, outputs=names)))
        return found

    def _make_finding(self, read: WrongRead, outputs: tuple[str, ...]) -> ReadFinding:
        return ReadFinding(
            write=self.writes[read.write],
            reader=self.instructions[read.reader],
            wrong=read,
            lucky=None,
            outputs=outputs,
        )

    def _blame_merged(self, outputs: Mapping[str, OutputComparison]) -> dict[str, OutputComparison]:
        """Results of a call that XLA merged with an earlier one are stale where the two calls do not see the same."""
        tagged = self.intended.tagged
        gone = {
            self.writes[late].tag_path: Cause(early, Verdict.STALE)
            for late, early in self.run.matching.merged.items()
            if late not in self.run.matching.same
            and self.writes[late].tag_path in tagged
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
