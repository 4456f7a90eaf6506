"""Finds the operations that make outputs wrong, and the outputs that are computed from each of them.

An output can be wrong although it depends on the same hidden writes in the program and in the schedule (its two
dependence sets agree). This module makes outputs worse, never better, for two reasons:

- The output depends on a value that XLA merged with another version of it (`merged_values`).
- An operation upstream is the author's own and one of its edges is wrong (`compared_edges`): an output that mixes several
  values can depend on all the right writes and still have one wrong part. The output gets the operation's verdict. This does
  not apply to three kinds of writes: writes of a kernel that could not be followed; writes whose loop nesting differs; and
  writes that may have been performed for this output by a call that the program lacks (`_find_elsewhere`).

A wrong output is blamed on the reads from which it is computed and at which operations start to be wrong; a latent output on
the lucky reads in its set. There may be too many wrong operations to find out which of them an output depends on. Then
`Blamed.unsearched` has the output with the writes in question, and an ambiguity makes the output unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.label_memory import LuckyRead
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.verdict.compared_edges import Differing, find_authored_occurrences
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.first_divergence import WrongRead, find_wrong_reads
from ligerdiag.analysis.verdict.merged_values import MergedEdge, blame_merged_values
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.analysis.verdict.output_reachability import Reached, TwinJudge, find_reached
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.model.findings import Verdict

LIMIT = 300_000
"""Largest number of (hidden write, wrong operation) pairs for which the search finds out which outputs depend on them.
"""


WRONG = (Verdict.STALE, Verdict.CLOBBERED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadFinding:
    """A wrong or lucky read, and the names of the outputs that are wrong or latent because of it."""

    write: HiddenWrite
    reader: HloInstruction
    wrong: WrongRead | None
    lucky: LuckyRead | None
    outputs: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Returns the verdict on the outputs that the read makes wrong or latent: stale, clobbered or latent."""
        return Verdict.LATENT if self.wrong is None else self.wrong.verdict


@dataclass(frozen=True, slots=True)
class Blamed:
    """The verdicts on all outputs, and the reads that make outputs wrong. Reads that make outputs stale come first."""

    outputs: Mapping[str, OutputVerdict]
    reads: tuple[ReadFinding, ...] = ()
    unsearched: Mapping[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Maps the name of an output to the indices of the hidden writes for which the search did not find out whether the
    output depends on a wrong operation, because there are too many.
    """
    mixed: Mapping[str, tuple[MergedEdge, ...]] = field(default_factory=dict[str, tuple[MergedEdge, ...]])
    """Maps the name of an output to the loops and conditionals on which the output depends and whose result may be any
    of several values that XLA merged.
    """
    decided: frozenset[str] = frozenset()
    """Names of the outputs that are wrong only because of a decision, such as a wrong predicate: their numbers may be
    right.
    """
    in_part: frozenset[str] = frozenset()
    """Names of the outputs among `decided` for which only parts of overwritten values are read: parts that the kernels may
    leave alone.
    """

    def drop(self, is_dropped: Callable[[str, Cause], bool]) -> "Blamed":
        """Returns a copy without the causes for which `is_dropped` is true. A read keeps an output only if the output keeps
        a cause that the read explains.

        is_dropped: takes the name of an output, and one of its causes.
        """
        outputs: dict[str, OutputVerdict] = {}
        left: set[tuple[str, int, Verdict]] = set()
        for name, output in self.outputs.items():
            causes = tuple([cause for cause in output.causes if not is_dropped(name, cause)])
            is_less = len(causes) < len(output.causes)
            outputs[name] = OutputVerdict(find_worst(c.verdict for c in causes), causes) if is_less else output
            left |= {(name, cause.write, cause.verdict) for cause in causes}
        reads = [
            replace(one, outputs=tuple([n for n in one.outputs if (n, one.write.index, one.verdict) in left]))
            for one in self.reads
        ]
        return replace(self, outputs=outputs, reads=tuple([one for one in reads if one.outputs]))


@dataclass(frozen=True, kw_only=True, eq=False)
class BlameSearch:
    """Finds the operations that make outputs wrong, and the outputs that are computed from each of them."""

    pair: EvaluatedPair
    differing: tuple[Differing, ...]
    comparison: Comparison
    evaluator: Evaluator
    provenance: OperandProvenance

    def find(self, outputs: Mapping[str, OutputVerdict]) -> Blamed:
        """Returns the verdicts, and the reads that make outputs wrong. A verdict becomes worse than in `outputs` if the
        output depends on merged values or on a wrong operation.
        """
        outputs, mixed = blame_merged_values(outputs, self.pair, self.comparison, self.evaluator)
        own = find_authored_occurrences(self.differing, self.provenance.is_authored)
        wrong: list[tuple[Cause, Differing]] = []
        reads: list[WrongRead] = []
        spare: list[WrongRead] = []
        unsearched: set[Cause] = set()
        space = self.evaluator.space
        for verdict in (Verdict.CLOBBERED, Verdict.STALE):
            open_ = self._find_open(verdict, outputs)
            concerned = space.bits_of(c.write for o in outputs.values() for c in o.causes if c.verdict is verdict)
            sought = [(one, bits) for one in own if (bits := one.errors.about(verdict) & open_)]
            concerned |= unite(bits for _, bits in sought)
            if sum(bits.bit_count() for _, bits in sought) > LIMIT - len(wrong):
                unsearched |= {Cause(write, verdict) for write in space.writes_of(open_)}
            else:
                wrong += [(Cause(write, verdict), one) for one, bits in sought for write in space.writes_of(bits)]
            found = find_wrong_reads(concerned, self.differing, self.provenance, self.comparison, verdict=verdict)
            reads += [read for read in found if not read.rank]
            spare += [read for read in found if read.rank]
        if not wrong and not reads and not unsearched:
            return Blamed({**outputs}, mixed=mixed, decided=self._find_mixed_alone(outputs, mixed))
        answer = self._find_reached(len(outputs), wrong, reads)
        unsearched |= answer.open
        refined = {
            name: output.join(tuple([cause for cause in dict.fromkeys(c for c, _ in wrong) if cause in found]))
            for (name, output), found in zip(outputs.items(), answer.causes, strict=True)
        }
        findings = self._report(reads, refined, answer.reads)
        findings += self._report_unnamed(spare, refined, findings)
        return Blamed(
            refined,
            tuple([finding for verdict in WRONG for finding in findings if finding.verdict is verdict]),
            self._find_unsearched(unsearched, refined),
            mixed,
            self._find_decided(refined, findings, [*reads, *spare]) | self._find_mixed_alone(refined, mixed),
        )

    def _find_mixed_alone(
        self, outputs: Mapping[str, OutputVerdict], mixed: Mapping[str, tuple[MergedEdge, ...]]
    ) -> frozenset[str]:
        """Returns the names of the outputs that are wrong only because they depend on a loop or conditional in which
        merged values meet. The program's arguments decide which of these values the output gets, so its numbers may be
        right (see `Blamed.decided`).
        """
        found = {name: unite(one.writes for one in some if one.instruction) for name, some in mixed.items()}
        writes_of = self.evaluator.space.writes_of
        return frozenset(name for name, bits in found.items() if bits and outputs[name].wrong <= {*writes_of(bits)})

    def _find_decided(
        self, outputs: Mapping[str, OutputVerdict], findings: list[ReadFinding], reads: list[WrongRead]
    ) -> frozenset[str]:
        """Returns the names of the outputs that depend on the first wrong operations only through decisions, such as
        predicates, so that their numbers may be right.
        """
        known = {(name, one.write.index, one.verdict) for one in findings for name in one.outputs}
        explained = {
            name
            for name, output in outputs.items()
            if output.wrong and all((name, c.write, c.verdict) in known for c in output.causes if c.verdict.is_wrong)
        }
        if not explained:
            return frozenset()
        undecided = self.evaluator.find_undecided({read.path for read in reads})
        return frozenset(
            name for name, is_plain in zip(outputs, undecided, strict=False) if name in explained and not is_plain
        )

    def _find_reached(self, outputs: int, wrong: Iterable[tuple[Cause, Differing]], reads: list[WrongRead]) -> Reached:
        twins = TwinJudge(provenance=self.provenance, comparison=self.comparison)
        return find_reached(self.evaluator, outputs, wrong, reads, twins)

    def _list_sets(self) -> Iterator[tuple[Labels, Labels]]:
        return zip(self.pair.intended.outputs, self.pair.actual.outputs, strict=False)

    def _find_touched(self, verdict: Verdict, intended: Labels, actual: Labels) -> Labels:
        """Returns the hidden writes, as bits, for which the output may be computed from a value with this verdict, even
        if the output's own sets agree. For any other write its sets rule this out. intended, actual: the output's sets.
        """
        space = self.evaluator.space
        if verdict is Verdict.STALE:
            return space.any_fresh(intended) | space.any_original(actual)
        return space.any_fresh(actual)

    def _find_open(self, verdict: Verdict, outputs: Mapping[str, OutputVerdict]) -> Labels:
        """Returns the hidden writes, as bits, for which a search for wrong operations with this verdict (stale or
        clobbered) may still make some output worse: the output may be computed from such an operation and does not have
        the verdict yet. The three kinds of writes that the module's docstring excepts are left out.
        """
        found = 0
        space = self.evaluator.space
        for output, sets in zip(outputs.values(), self._list_sets(), strict=False):
            decided = space.bits_of(c.write for c in output.causes if c.verdict is verdict)
            found |= self._find_touched(verdict, *sets) & ~decided & ~self._find_elsewhere(sets[1])
        never = {write.index for write in self.pair.writes if write.unknown} | self.comparison.loop_depth_differs
        return found & ~space.bits_of(never)

    def _find_elsewhere(self, actual: Labels) -> Labels:
        """Returns the hidden writes, as bits, that a scheduled call which the program lacks may have performed for an
        output. actual: the output's dependence set in the schedule.
        """
        matching, space = self.pair.matching, self.evaluator.space
        calls = {frames[-1].instruction.id for frames in matching.unmatched} if matching.maybe_unmatched else set[int]()
        foreign = [write for call in calls for write in matching.by_call.get(call, ())]
        seen = any(actual & space.all_fresh(write.index) for write in foreign)
        return space.bits_of(matching.maybe_unmatched) if seen else 0

    def _find_unsearched(self, unsearched: set[Cause], outputs: Mapping[str, OutputVerdict]) -> Mapping[str, set[int]]:
        """Maps output names to the hidden writes with too many wrong operations to search, if one of these operations
        may make the output worse.

        unsearched: each of these writes with the verdict that was not searched for.
        """
        if not unsearched:
            return {}
        found: dict[str, set[int]] = {}
        for (name, output), sets in zip(outputs.items(), self._list_sets(), strict=False):
            stale = {cause.write for cause in output.causes if cause.verdict is Verdict.STALE}
            touched = {
                cause.write
                for cause in unsearched
                if self._find_touched(cause.verdict, *sets) & self.evaluator.space.bits_of((cause.write,))
            }
            found[name] = touched - stale
        return found

    def _report(
        self, reads: list[WrongRead], outputs: Mapping[str, OutputVerdict], reached: tuple[frozenset[int], ...]
    ) -> list[ReadFinding]:
        """Returns each read that makes outputs wrong, with these outputs: those that depend on the read and have the
        read's verdict for its write. Omits reads without such an output.

        reached: for each output, the positions in `reads` of the reads on which the output depends.
        """
        found: list[ReadFinding] = []
        for number, read in enumerate(reads):
            names = tuple(
                name
                for (name, output), reach in zip(outputs.items(), reached, strict=True)
                if number in reach and any(c.write == read.write and c.verdict is read.verdict for c in output.causes)
            )
            if names:
                write, reader = self.pair.writes[read.write], read.occurrence.scheduled
                found.append(ReadFinding(write=write, reader=reader, wrong=read, lucky=None, outputs=names))
        return found

    def _report_unnamed(
        self, spare: list[WrongRead], outputs: Mapping[str, OutputVerdict], findings: list[ReadFinding]
    ) -> list[ReadFinding]:
        """Returns additional reads that make outputs wrong, for each output, write and verdict that no read in
        `findings` explains.

        spare: the reads to choose from, those with a `WrongRead.rank` above 0.
        """
        named = {(one.verdict, one.write.index, name) for one in findings for name in one.outputs}
        unnamed = {
            (cause.verdict, cause.write, name)
            for name, output in outputs.items()
            for cause in output.causes
            if (cause.verdict, cause.write, name) not in named
        }
        asked = {(verdict, write) for verdict, write, _ in unnamed}
        reads = [read for read in spare if (read.verdict, read.write) in asked]
        if not reads:
            return []
        found: list[ReadFinding] = []
        for one in self._report(reads, outputs, self._find_reached(len(outputs), (), reads).reads):
            names = tuple(name for name in one.outputs if (one.verdict, one.write.index, name) in unnamed)
            unnamed -= {(one.verdict, one.write.index, name) for name in names}
            if names:
                found.append(replace(one, outputs=names))
        return found


def find_latent(pair: EvaluatedPair, outputs: Mapping[str, OutputVerdict]) -> tuple[ReadFinding, ...]:
    """Returns the lucky reads on which latent outputs depend. A lucky read is right only because of the order of this
    schedule.
    """
    reached: dict[LuckyRead, list[str]] = {}
    for name, output in outputs.items():
        for cause in output.causes:
            if cause.verdict is Verdict.LATENT:
                for lucky in cause.lucky:
                    reached.setdefault(lucky, []).append(name)
    instructions = {one.id: one for one in pair.optimized.instructions} if reached else {}
    return tuple(
        ReadFinding(
            write=pair.writes[one.write], reader=instructions[one.reader], wrong=None, lucky=one, outputs=tuple(names)
        )
        for one, names in reached.items()
    )
