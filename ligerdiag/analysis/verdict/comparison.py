"""Defines the verdicts: compares the version that an edge means with the version that it gets, and combines verdicts.

An *edge* is one read of one value by one consumer. `ComparedEdge` has the two versions as dependence sets: that of the
value in the program, and that of the value in the schedule. `Comparison.compare` decides the verdict on an edge, and
`Comparison.find_errors`, a part of it, the hidden writes about which the edge is wrong. Outputs, operations, operands
and values that XLA merged are all compared by these two.

A dependence set is a set of labels (bits, see `evaluation.labels`). For each hidden write W a value may have two:

FRESH(W)   the value depends on what W wrote
ORIG(W)    the value depends on the *original*, the contents of W's operand from before W, on a path that does not
           lead through W's kernel

Each label has an *iteration class*: class 0 means that W happened in this iteration of the loops around it, class
j >= 1 in an earlier iteration of the loop at nesting level j (1 is the outermost). So a write of an earlier iteration
does not hide one that is missing in this iteration.

Let I be the intended set of a value v, from the program (`evaluation.program_order`), and A its actual set, from the
schedule (`evaluation.schedule_order`). For each hidden write W, v is

stale      if FRESH(W) is in I and not in A, in any iteration class; or in both, and ORIG(W) is in A and not in I
clobbered  if FRESH(W) is in A and not in I, in any iteration class; or ORIG(W) is in I and not in A, FRESH(W) is in A,
           and W's operand was seen to hold the original: one reader wants the value from before the write, another the
           value from after it, and both get the latter
unknown    if W's kernel has unknown effects and v depends on W in any way, or W is undecided (the place of the write,
           its intended readers, or whether it runs is unknown: `EvaluatedPair.undecided`) and v depends on W or wants
           the original, whatever else holds. Also if neither stale nor clobbered, and a read on the way races with the
           kernel, so that the hardware decides; or ORIG(W) is in I and not in A, FRESH(W) is in A, and nothing was seen
           to hold the original, which may be there unseen
latent     if none of these, and a read on the way was lucky, whichever version it is meant to see: no path of operands
           and control edges orders it with the write (see `evaluation.unordered_reads`), and in another order v is
           computed from the other version. This holds even if I has no label of W: the author then means another
           computation, which XLA has merged with the one that defines W's operand
fresh      otherwise. If neither set has a label of W, the value is right: XLA preserves the dependences that it can see

W's operand was *seen* to hold the original if its actual set had ORIG(W) when the kernel ran (`Comparison.traced`).
`Comparison._compare_write` decides the verdict for one W; `Comparison.compare` does so for every W, and the worst
verdict is the edge's. `verdicts.judge` calls it for each output.

An output may be worse than its own sets:

- stale, if XLA merged a kernel call with an earlier one that sees another version (`blame`);
- stale or clobbered, if XLA folded a choice between two values that it took for equal, or if two such values meet in a
  loop or conditional (`blame`, `merged_values`);
- stale or clobbered, if an operation upstream is the author's own and one of its edges is (`blame`, `compared_edges`);
- unknown, whatever the sets say, if it depends on something ambiguous, such as an instruction that may be one of two
  operations (`ambiguity_search`, `verdicts.propagate`);
- stale, if it needs a result of a call that the schedule never runs; unknown, if the schedule may skip the call
  (`verdicts.judge_conditional_results`);
- stale, clobbered or unknown, if JAX lost a write to a Ref before XLA got the program (`analysis.lost_refs`);
- clobbered, if XLA keeps a value that it depends on in the same bytes as another live value; unknown, if there is no
  buffer assignment (`hlo.shared_bytes`);
- unknown, if XLA mixes up donated arguments (`schedule_alone`), or nobody wrote bytes that it depends on
  (`report.status`).

An output is right although its own sets are not only if it uses no row that the kernel writes
(`verdicts.drop_disjoint_rows`). The docstring of `verdicts` has all steps in their order.

A program with an unknown order of operations is judged as several programs with one schedule. An output in which they
differ is unknown (`join_outputs`). So is a read in which they differ, and a read that reaches an unknown output.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ligerdiag.analysis.evaluation.label_memory import LuckyRead
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.races import RacedRead
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.schedule_view import ReadKind


@dataclass(frozen=True, slots=True)
class ComparedEdge:
    """One read of one value by one consumer: an operand, a value that enters a loop or a branch, an output. For an
    operation as a whole, the value is its result.
    """

    meant: Labels
    """The value's dependence set in the program."""
    delivered: Labels
    """The dependence set, in the schedule, of the value that the consumer gets."""


class Errors(NamedTuple):
    """The hidden writes, as bits (see `LabelSpace.bits_of`), about which edges are stale and about which clobbered."""

    stale: Labels = 0
    clobbered: Labels = 0

    def __or__(self, other: "Errors") -> "Errors":
        return Errors(self.stale | other.stale, self.clobbered | other.clobbered)

    def __and__(self, bits: Labels) -> "Errors":
        """Returns the errors about these hidden writes alone."""
        return Errors(self.stale & bits, self.clobbered & bits)

    def shared_with(self, other: "Errors") -> "Errors":
        return Errors(self.stale & other.stale, self.clobbered & other.clobbered)

    def __bool__(self) -> bool:
        return bool(self.both)

    @property
    def both(self) -> Labels:
        """The hidden writes about which the edges are stale or clobbered."""
        return self.stale | self.clobbered

    def about(self, verdict: Verdict) -> Labels:
        """Returns the hidden writes with this verdict: `stale` for STALE, `clobbered` for any other verdict."""
        return self.stale if verdict is Verdict.STALE else self.clobbered


NO_ERRORS = Errors()


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for an output's verdict: a hidden write, and the verdict on the output for this write alone."""

    write: int
    verdict: Verdict
    lucky: tuple[LuckyRead, ...] = ()
    raced: tuple[RacedRead, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """The verdict on one output, and its causes (none if the verdict is fresh)."""

    verdict: Verdict
    causes: tuple[Cause, ...]

    @property
    def wrong(self) -> frozenset[int]:
        """Indices of the hidden writes about which the output is stale or clobbered."""
        return frozenset([cause.write for cause in self.causes if cause.verdict.is_wrong])

    def join(self, causes: tuple[Cause, ...]) -> "OutputVerdict":
        """Returns a copy of the verdict with these causes added; the worst verdict of all causes counts."""
        verdict = find_worst((self.verdict, *(c.verdict for c in causes)))
        return OutputVerdict(verdict, tuple(dict.fromkeys((*self.causes, *causes))))


def find_worst(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=VERDICT_ORDER.index, default=Verdict.FRESH)


@dataclass(slots=True, eq=False)
class SetSummary:
    """Summary of several actual dependence sets of a value, which answers whether the value would be wrong with at
    least one of them.

    `common` and `some` are sets of labels; for a write whose loop nesting differs between the programs, its iteration
    classes are merged. `original` and `replaced` do not distinguish iteration classes at all, and have one bit for each
    hidden write (see `LabelSpace.bits_of`).
    """

    common: Labels = -1
    """Labels that every set has."""
    some: Labels = 0
    """Labels that at least one set has."""
    original: Labels = 0
    """The hidden writes, as bits, for which some set has ORIG."""
    replaced: Labels = 0
    """The hidden writes, as bits, for which some set has FRESH and not ORIG."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Compares the version that an edge means with the version that it gets."""

    writes: tuple[HiddenWrite, ...]
    space: LabelSpace
    loop_depth_differs: frozenset[int]
    """Indices of writes whose loop nesting differs between the two programs; their iteration classes are not
    distinguished.
    """
    undecided: frozenset[int]
    """Indices of writes whose place in memory, intended readers or execution is unknown (`EvaluatedPair.undecided`)."""
    traced: frozenset[int] = frozenset()
    """Indices of the writes whose operand was seen to hold its old contents and still has its definition in the
    schedule. For these writes a value without an ORIG label does not depend on the old contents; for any other write it
    may, because the evaluation may have found no place where the label starts.
    """
    _traced_bits: Labels = field(init=False)
    _fresh_at_other_depth: Labels = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_traced_bits", self.space.bits_of(self.traced))
        object.__setattr__(self, "_fresh_at_other_depth", unite(map(self.space.all_fresh, self.loop_depth_differs)))

    def compare(self, edge: ComparedEdge) -> OutputVerdict:
        """Returns the verdict on an edge, with a cause for each hidden write about which the edge is not fresh."""
        errors = self.find_errors(edge)
        raced: defaultdict[int, list[RacedRead]] = defaultdict(list)
        lucky: defaultdict[int, list[LuckyRead]] = defaultdict(list)
        for key in self.space.marks_in(edge.delivered):
            if isinstance(key, RacedRead):
                raced[key.write].append(key)
            elif isinstance(key, LuckyRead):
                lucky[key.write].append(key)
        causes: list[Cause] = []
        for write in self.writes:
            marks = raced.get(write.index, []), lucky.get(write.index, [])
            cause = self._compare_write(write, edge, errors, marks)
            if cause is not None:
                causes.append(cause)
        return OutputVerdict(find_worst(c.verdict for c in causes), tuple(causes))

    def find_errors(self, edge: ComparedEdge) -> Errors:
        """Returns the hidden writes about which the edge is wrong: stale, if it or a part of the value should see the
        write and does not; clobbered, if it sees the write and should not.
        """
        if edge.meant == edge.delivered:
            return NO_ERRORS
        return self.find_errors_among(edge.meant, self.summarize((edge.delivered,)))

    def _find_unproven_originals(self, edge: ComparedEdge) -> Labels:
        """Returns the hidden writes, as bits, for which the value should depend on the contents from before the write,
        and the evaluation of the schedule does not show whether it does.
        """
        missing = self.space.any_original(edge.meant) & ~self.space.any_original(edge.delivered)
        return missing & self.space.any_fresh(edge.delivered) & ~self._traced_bits

    def summarize(self, delivered: Iterable[Labels]) -> SetSummary:
        """Summarizes several sets, to answer whether an edge would be wrong with at least one of them."""
        summary = SetSummary()
        for labels in delivered:
            fresh, original = self.space.any_fresh(labels), self.space.any_original(labels)
            merged = self._ignore_iterations(labels)
            summary.common &= merged
            summary.some |= merged
            summary.original |= original
            summary.replaced |= fresh & ~original
        return summary

    def find_errors_among(self, meant: Labels, delivered: SetSummary) -> Errors:
        """Returns the hidden writes about which an edge is wrong if it gets at least one of the summarized sets."""
        any_fresh, any_original = self.space.any_fresh, self.space.any_original
        merged, wants_fresh, wants_original = self._ignore_iterations(meant), any_fresh(meant), any_original(meant)
        return Errors(
            stale=any_fresh(merged & ~delivered.common) | delivered.original & wants_fresh & ~wants_original,
            clobbered=any_fresh(delivered.some & ~merged) | delivered.replaced & self._traced_bits & wants_original,
        )

    def _ignore_iterations(self, labels: Labels) -> Labels:
        """Returns the set in which each FRESH label of a write whose loop nesting differs between the programs has
        iteration class 0, so that its classes do not count.
        """
        if not self.loop_depth_differs:
            return labels
        at_other_depth = self._fresh_at_other_depth & labels
        return labels & ~at_other_depth | self.space.any_fresh(at_other_depth)

    def _compare_write(
        self, write: HiddenWrite, edge: ComparedEdge, errors: Errors, marks: tuple[list[RacedRead], list[LuckyRead]]
    ) -> Cause | None:
        touched = self.space.all_fresh(write.index)
        is_touched = (edge.meant | edge.delivered) & touched
        around = (edge.meant | edge.delivered) & self.space.all_original(write.index)
        raced, lucky = marks
        if errors.stale & touched:
            verdict = Verdict.STALE
        elif errors.clobbered & touched:
            verdict = Verdict.CLOBBERED
        elif raced or self._find_unproven_originals(edge) & touched:
            verdict = Verdict.UNKNOWN
        elif lucky:
            verdict = Verdict.LATENT
        else:
            verdict = Verdict.FRESH
        is_undecided = write.index in self.undecided
        if write.unknown or is_undecided:
            is_touched = is_touched or (is_undecided and around)
            verdict = Verdict.UNKNOWN if is_touched or verdict is not Verdict.FRESH else Verdict.FRESH
        return None if verdict is Verdict.FRESH else Cause(write.index, verdict, tuple(lucky), tuple(raced))


def join_outputs(programs: Sequence[Mapping[str, Verdict]]) -> dict[str, Verdict]:
    """Joins the verdicts that several programs lead to, any of which may be the one that the author means: an output on
    which they differ is unknown.

    programs: for each program, output name to verdict; at least one.
    """
    first, *others = programs
    return {
        name: verdict if all(other.get(name) is verdict for other in others) else Verdict.UNKNOWN
        for name, verdict in first.items()
    }


def join_read(kind: ReadKind, others: Sequence[ReadKind | None], *, reaches_unknown: bool) -> ReadKind:
    """Returns the kind of a read if any of several programs may be the one that the author means: unknown if another
    program leads to another kind, or if the read reaches an unknown output.

    kind: the read's kind in one program. others: its kinds in the other programs, None for a program without this read.
    """
    return kind if not reaches_unknown and all(other is kind for other in others) else ReadKind.UNKNOWN
