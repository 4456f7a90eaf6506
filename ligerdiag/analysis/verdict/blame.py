"""Finds the operations that make outputs wrong, and the outputs that are computed from each of them.

An output can be wrong although it depends on the same hidden writes in the program and in the schedule (its two
dependence sets agree). This module makes outputs worse, never better, for four reasons:

- XLA merged a kernel call with an earlier call that sees another version of its operands: every value computed from the
  later call's result is stale.
- XLA folded `max(a, b)` or `where(c, a, b)` to `a` because it believes a == b, but a kernel overwrites one of the two.
  A value computed from the choice is clobbered if it sees the write, and stale otherwise.
- Two values that XLA believes to be equal, of which a kernel overwrites one, meet in a loop or conditional, which may
  return one for the other. The result is clobbered if it sees the write, and stale otherwise.
- An operation upstream is the author's own and its dependence set is wrong (`first_divergence`): an output that mixes
  several values can depend on all the right writes and still have one wrong part. The output gets the operation's
  verdict. This does not apply to three kinds of writes: those of a kernel that could not be followed, those whose loop
  nesting differs, and those that a call which the program lacks may have performed for this output (`_find_elsewhere`).

A wrong output is blamed on the reads from which it is computed and at which operations start to be wrong; a latent
output on the lucky reads in its set. If there are too many wrong operations to find out which of them an output depends
on, the output is entered in `Blamed.unsearched` with the writes in question, and an ambiguity makes it unknown.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.label_memory import LuckyRead, Occurrence, find_read_place
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.program_order import name_leaf
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict
from ligerdiag.analysis.verdict.first_divergence import (
    Differing,
    WrongRead,
    find_authored_occurrences,
    find_wrong_reads,
)
from ligerdiag.analysis.verdict.merged_values import (
    TwinConfluence,
    find_removed_choices,
    find_shared_state,
    find_twin_confluences,
)
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.analysis.verdict.output_reachability import Reached, find_reached
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.model.findings import Verdict
from ligerdiag.provenance.value_numbers import Twins, find_twins

type _Reads = list[tuple[Verdict, WrongRead]]

LIMIT = 300_000
"""Largest number of (hidden write, wrong operation) pairs for which the search finds out which outputs depend on them.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadFinding:
    """A read that is wrong, or right only by luck, with the names of the outputs that are wrong or latent because of
    it.
    """

    write: HiddenWrite
    reader: HloInstruction
    wrong: WrongRead | None
    lucky: LuckyRead | None
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blamed:
    """The verdicts on all outputs, and the reads that make outputs wrong: `stale` has the reads that make outputs
    stale, and `clobbered` those that make outputs clobbered.
    """

    outputs: Mapping[str, OutputVerdict]
    stale: tuple[ReadFinding, ...]
    clobbered: tuple[ReadFinding, ...]
    unsearched: Mapping[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Maps the name of an output to the indices of the hidden writes for which the search did not find out whether the
    output depends on a wrong operation, because there are too many.
    """
    mixed: Mapping[str, tuple[TwinConfluence, ...]] = field(default_factory=dict[str, tuple[TwinConfluence, ...]])
    """Maps the name of an output to the loops and conditionals on which the output depends and whose result may be any
    of several values that XLA merged.
    """
    decided: frozenset[str] = frozenset()
    """Names of the outputs that are wrong only because of a decision, such as a wrong predicate: their numbers may be
    right.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class BlameSearch:
    """Finds the operations that make outputs wrong, and the outputs that are computed from each of them."""

    pair: EvaluatedPair
    differing: tuple[Differing, ...]
    comparison: Comparison
    evaluator: Evaluator
    provenance: OperandProvenance
    instructions: Mapping[int, HloInstruction]

    def find(self, outputs: Mapping[str, OutputVerdict]) -> Blamed:
        """Returns the verdicts, made worse for the four reasons that the module's docstring lists, and the reads that
        make outputs wrong.
        """
        mixed: dict[str, tuple[TwinConfluence, ...]] = {}
        outputs = self._blame_merged_values(self._blame_merged_calls(outputs), mixed)
        own = find_authored_occurrences(self.differing, self.provenance.is_authored)
        wrong: list[tuple[Cause, Differing]] = []
        reads: _Reads = []
        spare: _Reads = []
        unsearched: set[Cause] = set()
        space = self.evaluator.space
        for verdict in (Verdict.CLOBBERED, Verdict.STALE):
            open_ = self._find_open(verdict, outputs)
            concerned = space.bits_of(c.write for o in outputs.values() for c in o.causes if c.verdict is verdict)
            total = sum([(one.wrong(verdict) & open_).bit_count() for one in own]) if open_ else 0
            for one in own:
                concerned |= one.wrong(verdict) & open_
            if total > LIMIT - len(wrong):
                unsearched |= {Cause(write, verdict) for write in space.writes_of(open_)}
            else:
                wrong += [
                    (Cause(write, verdict), one) for one in own for write in space.writes_of(one.wrong(verdict) & open_)
                ]
            found = find_wrong_reads(
                concerned, self.pair.intended, self.pair.actual, self.differing, self.comparison, verdict=verdict
            )
            reads += [(verdict, read) for read in found if not read.rank]
            spare += [(verdict, read) for read in found if read.rank]
        if not wrong and not reads and not unsearched:
            return Blamed({**outputs}, (), (), mixed=mixed, decided=self._find_mixed_alone(outputs, mixed))
        answer = self._find_reached(len(outputs), wrong, [read for _, read in reads])
        unsearched |= answer.open
        refined = {
            name: output.join(tuple([cause for cause in dict.fromkeys(c for c, _ in wrong) if cause in found]))
            for (name, output), found in zip(outputs.items(), answer.causes, strict=True)
        }
        findings = self._report(reads, refined, answer.reads)
        findings += self._report_unnamed(spare, refined, findings)
        return Blamed(
            refined,
            tuple([finding for verdict, finding in findings if verdict is Verdict.STALE]),
            tuple([finding for verdict, finding in findings if verdict is Verdict.CLOBBERED]),
            self._find_unsearched(unsearched, refined),
            mixed,
            self._find_decided(refined, findings, [read for _, read in (*reads, *spare)])
            | self._find_mixed_alone(refined, mixed),
        )

    def find_beside_operations(self, outputs: Mapping[str, OutputVerdict]) -> dict[str, OutputVerdict]:
        """Returns the verdicts, made worse for outputs that depend on a merged call, a removed choice, or a loop or
        conditional in which merged values meet; does not look for wrong operations.
        """
        return self._blame_merged_values(self._blame_merged_calls(outputs), {})

    def _find_mixed_alone(
        self, outputs: Mapping[str, OutputVerdict], mixed: Mapping[str, tuple[TwinConfluence, ...]]
    ) -> frozenset[str]:
        """Returns the names of the outputs that are wrong only because they depend on a loop or conditional in which
        merged values meet. The program's arguments decide which of these values the output gets, so its numbers may be
        right (see `Blamed.decided`).
        """
        wrong = {
            name: self.evaluator.space.bits_of(map(_get_write, _list_wrong(output))) for name, output in outputs.items()
        }
        found = {name: unite(one.writes for one in some if one.instruction) for name, some in mixed.items()}
        return frozenset(name for name, bits in found.items() if bits and not wrong[name] & ~bits)

    def _find_decided(
        self, outputs: Mapping[str, OutputVerdict], findings: list[tuple[Verdict, ReadFinding]], reads: list[WrongRead]
    ) -> frozenset[str]:
        """Returns the names of the outputs that depend on the first wrong operations only through decisions, such as
        predicates, so that their numbers may be right.
        """
        known = {(name, one.write.index, verdict) for verdict, one in findings for name in one.outputs}
        explained = {
            name
            for name, output in outputs.items()
            if (wrong := _list_wrong(output)) and all((name, cause.write, cause.verdict) in known for cause in wrong)
        }
        if not explained:
            return frozenset()
        undecided = self.evaluator.find_undecided({read.path for read in reads})
        return frozenset(
            name for name, is_plain in zip(outputs, undecided, strict=False) if name in explained and not is_plain
        )

    @cached_property
    def _twins(self) -> Twins:
        return find_twins(self.evaluator.program)

    def is_right_for_twin(self, write: int, path: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether the instruction's value, wrong for the operation at `path`, is right for a twin of this
        operation. write: index of the hidden write about which it is wrong.

        A twin is another operation that is the same value to XLA, or a slice of the same elements that the program
        takes after the kernel's call and that should hold the kernel's result.
        """
        if self._is_taken_again(write, occurrence):
            return True
        return any(
            not wrong & self.evaluator.space.bits_of((write,)) for _, wrong in self._judge_twins(path, occurrence)
        )

    def list_wrong_twins(self, write: int, path: TagPath, occurrence: Occurrence) -> tuple[TagPath, ...]:
        bits = self.evaluator.space.bits_of((write,))
        return tuple(other for other, wrong in self._judge_twins(path, occurrence) if wrong & bits)

    def _judge_twins(self, path: TagPath, occurrence: Occurrence) -> Iterator[tuple[TagPath, Labels]]:
        """Yields the tag path of each twin of the operation (an operation that is the same value to XLA), with the
        hidden writes, as bits, about which the instruction's value is wrong for the twin.
        """
        tagged, comparison = self.pair.intended.tagged, self.comparison
        for other in self._twins.list_others(path):
            if other in tagged:
                sets = tagged[other].labels, occurrence.labels
                yield other, comparison.find_stale(*sets) | comparison.find_clobbered(*sets)

    def _find_reached(self, outputs: int, wrong: Iterable[tuple[Cause, Differing]], reads: list[WrongRead]) -> Reached:
        return find_reached(self.evaluator, outputs, wrong, reads, self)

    def _is_taken_again(self, write: int, occurrence: Occurrence) -> bool:
        slice_ = occurrence.instruction
        if slice_.opcode != "slice":
            return False
        place = find_read_place(self.pair.optimized, slice_, occurrence.scheduled, occurrence.reads)
        return any(one.write == write and one.covers_slice(place, slice_) for one in self.pair.actual.writes)

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
        self, reads: _Reads, outputs: Mapping[str, OutputVerdict], reached: tuple[frozenset[int], ...]
    ) -> list[tuple[Verdict, ReadFinding]]:
        """Returns each read that makes outputs wrong, with its verdict and these outputs: those that depend on the read
        and have the read's verdict for its write. Omits reads without such an output.

        reached: for each output, the positions in `reads` of the reads on which the output depends.
        """
        found: list[tuple[Verdict, ReadFinding]] = []
        for number, (verdict, read) in enumerate(reads):
            names = tuple(
                name
                for (name, output), reach in zip(outputs.items(), reached, strict=True)
                if number in reach and any(c.write == read.write and c.verdict is verdict for c in output.causes)
            )
            if names:
                write, reader = self.pair.writes[read.write], self.instructions[read.reader]
                found.append((verdict, ReadFinding(write=write, reader=reader, wrong=read, lucky=None, outputs=names)))
        return found

    def _report_unnamed(
        self, spare: _Reads, outputs: Mapping[str, OutputVerdict], findings: list[tuple[Verdict, ReadFinding]]
    ) -> list[tuple[Verdict, ReadFinding]]:
        """Returns additional reads that make outputs wrong, for each output, write and verdict that no read in
        `findings` explains.

        spare: the reads to choose from, those with a `WrongRead.rank` above 0.
        """
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
        reached = self._find_reached(len(outputs), (), [read for _, read in reads]).reads
        found: list[tuple[Verdict, ReadFinding]] = []
        for verdict, one in self._report(reads, outputs, reached):
            names = tuple(name for name in one.outputs if (verdict, one.write.index, name) in unnamed)
            unnamed -= {(verdict, one.write.index, name) for name in names}
            if names:
                found.append((verdict, replace(one, outputs=names)))
        return found

    def _blame_merged_calls(self, outputs: Mapping[str, OutputVerdict]) -> dict[str, OutputVerdict]:
        """Returns the verdicts, in which each output that depends on a call is stale if XLA merged this call with an
        earlier one that sees another version.
        """
        tagged = self.pair.intended.tagged
        gone = {
            self.pair.writes[late].tag_path: Cause(early, Verdict.STALE)
            for late, early in self.evaluator.matching.merged_into.items()
            if late not in self.evaluator.matching.identical
            and self.pair.writes[late].tag_path in tagged
            and tagged[self.pair.writes[late].tag_path].labels != tagged[self.pair.writes[early].tag_path].labels
        }
        if not gone:
            return dict(outputs)
        marked = {path: self.evaluator.space.mark(("operation", path)) for path in gone}
        reached = self.evaluator.run_intended(marked).outputs
        return {
            name: output.join(tuple(cause for path, cause in gone.items() if labels & marked[path]))
            for (name, output), labels in zip(outputs.items(), reached, strict=True)
        }

    def _blame_merged_values(
        self, outputs: dict[str, OutputVerdict], mixed: dict[str, tuple[TwinConfluence, ...]]
    ) -> dict[str, OutputVerdict]:
        """Returns the verdicts, made worse for outputs that depend on a choice which XLA removed, or on a loop or
        conditional in which merged values meet.

        Such an output is clobbered if it sees the write, and stale otherwise. Adds to `mixed`, by output name, the
        loops and conditionals in which merged values meet.
        """
        if self.evaluator.retagged is not None or self.evaluator.canonicalized:
            return outputs
        known = self.pair.intended, self.pair.actual, self.comparison, self.evaluator
        gone = dict(find_removed_choices(*known))
        found_meeting = (*find_twin_confluences(*known), *find_shared_state(*known))
        meeting = {name_leaf(one.path, one.leaf): one for one in found_meeting}
        if not gone and not meeting:
            return outputs
        space = self.evaluator.space
        marked = {path: space.mark(("operation", path)) for path in (*gone, *meeting)}
        reached = self.evaluator.run_intended(marked).outputs
        found: dict[str, OutputVerdict] = {}
        for (name, output), labels, actual in zip(outputs.items(), reached, self.pair.actual.outputs, strict=True):
            bits = unite(writes for path, writes in gone.items() if labels & marked[path])
            mixed[name] = tuple([one for path, one in meeting.items() if labels & marked[path]])
            bits |= unite(one.writes for one in mixed[name] if one.instruction)
            seen = space.any_fresh(actual)
            causes = [
                Cause(write, Verdict.CLOBBERED if seen & space.bits_of((write,)) else Verdict.STALE)
                for write in space.writes_of(bits)
            ]
            found[name] = output.join(tuple(causes))
        return found


def _list_wrong(output: OutputVerdict) -> list[Cause]:
    return [cause for cause in output.causes if cause.verdict.is_wrong]


def _get_write(cause: Cause) -> int:
    return cause.write


def find_latent(
    writes: tuple[HiddenWrite, ...], outputs: Mapping[str, OutputVerdict], instructions: Mapping[int, HloInstruction]
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
