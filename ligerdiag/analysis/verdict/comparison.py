"""Defines the verdicts: compares the version that an edge means with the version that it gets, and combines verdicts.

An *edge* is one read of one value by one consumer: an operand of an operation, a value that enters a loop or branch, an
output. A value that a kernel overwrites has old and new contents, and whatever is computed from it depends on the old
ones, the new ones, both or neither. This dependence is the edge's *version*. The program determines which version the
edge should get (it *means* this version); the schedule determines which one it gets.

**Which version does the author mean?** The author of a JAX program knows that the kernel works in place; XLA does not.
An author who reads `h` after the kernel call, in program order, expects what the kernel left in `h`. An author who reads
`h` before the call expects the old contents. So the reference is the program, run in its written order, with the call
updating `h` in place. XLA sees no write, takes old and new contents of `h` for one value, and may run a reader on either
side of the call. (An operation of the backward pass means the contents that its operand had where the forward pass saved
it: see `evaluation.program_order`.)

**Example.** `custom-call` is a kernel that overwrites `h`; W is this hidden write.

    program                              schedule
    h        = add(x, one)               h        = add(x, one)
    loss     = custom-call(h)            gradient = multiply(h, three)
    gradient = multiply(h, three)        loss     = custom-call(h)

    edge                                 means         gets          verdict
    `h`, read by `loss`                  {ORIG(W)}     {ORIG(W)}     fresh
    `h`, read by `gradient`              {FRESH(W)}    {ORIG(W)}     stale: the multiplication runs before the kernel
    `gradient`, an output                {FRESH(W)}    {ORIG(W)}     stale
    `loss`, an output                    {}            {}            fresh

If the schedule ran `gradient` last, the edge would get {FRESH(W)}, as it should. Yet nothing would force that order: the
verdict would be latent. If `gradient` came before `loss` in the program and ran after it in the schedule, the edge would
mean {ORIG(W)} and get {FRESH(W)}: the verdict would be clobbered.

**Versions are dependence sets.** A dependence set says on which versions a value depends, directly or through other
values. It is a set of labels (bits, see `evaluation.labels`). For each hidden write W there are two kinds of labels:

FRESH(W)   The value depends on what W wrote.
ORIG(W)    The value depends on the *original*, the contents that W overwrites, by a path that does not go through the
           kernel. What the kernel itself reads does not count, because it always reads before it overwrites.

In a loop, W happens once in each iteration, and a reader may see the write of the wrong iteration. So each label has an
*iteration class*: class 0 means that W happened in the current iteration of the loops around it, class j >= 1 that it
happened in an earlier iteration of the loop at nesting level j (1 is the outermost loop). The sets of the schedule also
have marks, which are no labels: a `RacedRead` for each read, among those from which the value is computed, that may run
while the kernel writes, and a `LuckyRead` for each that nothing but this schedule orders with W.

**The verdict on an edge.** `ComparedEdge` holds both dependence sets of the value: `meant`, from the program
(`evaluation.program_order`), and `delivered`, from the schedule (`evaluation.schedule_order`). For each hidden write W,
the first row that applies is the verdict about W (unknown has two rows):

unknown    W's kernel has unknown effects, or W is *undecided*: its place in memory, its intended readers, or whether it
           runs is unknown (`EvaluatedPair.undecided`). And one of these holds: `meant` or `delivered` has FRESH(W); W is
           undecided, and one of them has ORIG(W); `delivered` has the mark of a raced or lucky read about W.
stale      The edge should see W and does not: `meant` has FRESH(W) in an iteration class in which `delivered` lacks it.
           Or a part of the value is computed from the old contents, and only the new ones are meant: `delivered` has
           ORIG(W), and `meant` has FRESH(W) and not ORIG(W).
clobbered  The edge sees W and should not: `delivered` has FRESH(W) in an iteration class in which `meant` lacks it.
           Or a part should be computed from the old contents, and nothing is: `meant` has ORIG(W), `delivered` has
           FRESH(W) and not ORIG(W), and W is *traced* (`Comparison.traced`): the evaluation of the schedule found
           ORIG(W) on the operand when the kernel ran, so a missing ORIG(W) proves that the original is not used.
unknown    `delivered` has the mark of a raced read: the hardware decides what it reads. Or the second case of clobbered
           applies except that W is not traced: the missing ORIG(W) then proves nothing.
latent     `delivered` has the mark of a lucky read. The version is right, but no path of operands and control edges
           orders the read with W, so another schedule could deliver the other version (see
           `evaluation.unordered_reads`). This is possible even if `meant` has no label of W: the program reads another
           value, which XLA has merged with the overwritten one.
fresh      Otherwise. An edge with neither a label nor a mark of W does not concern W, and XLA preserves the dependences
           that it can see.

`Comparison._compare_write` decides this for one W. `Comparison.compare` asks it about each W and takes the worst verdict.
`Comparison.find_errors` only finds the hidden writes about which an edge is stale or clobbered. `verdicts.judge`
compares each output; `compared_edges` and `merged_values` compare the edges inside the program.

**The verdict on an output** starts as the verdict on its own edge. Each of the following can make it worse
(`VERDICT_ORDER` in `model.findings` says which of two verdicts is worse). The output is then

- stale, if XLA merged two calls of a kernel, and the later one should read newer contents than the earlier one
  (`blame`);
- stale or clobbered, if it depends on a choice, loop or conditional that selects between two values which differ in the
  program, and which XLA merged (`blame`, `merged_values`);
- stale or clobbered, if it depends on an operation with a stale or clobbered edge (`blame`, `compared_edges`);
- unknown, even if it is stale or clobbered otherwise, if it depends on something ambiguous, such as an instruction that
  may be one of two operations (`ambiguity_search`, `verdicts.propagate`);
- stale, if it needs a result of a call that the schedule never runs; unknown, if the schedule may skip the call
  (`verdicts.judge_conditional_results`);
- stale, clobbered or unknown, if JAX lost a write to a Ref before XLA got the program (`analysis.lost_refs`);
- clobbered, if it depends on a value that XLA keeps in the bytes of another live value; unknown, if that may be so and
  there is no buffer assignment (`hlo.shared_bytes`);
- unknown, if XLA mixes up donated arguments (`schedule_alone`), or if it depends on bytes that nobody wrote
  (`report.status`).

One step can make a verdict better: an output that uses no row that the kernel writes is not wrong about this kernel
(`verdicts.drop_disjoint_rows`).
The docstring of `verdicts` lists all steps in their order.

If the order of operations in the program is unknown, the schedule is compared with several programs. An output is
unknown if its verdicts differ (`join_outputs`). A read is unknown if its kinds (`ReadKind`) differ, or if an unknown
output is computed from it (`join_read`).
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
    """The two versions of one edge. An edge is an operand, a value that enters a loop or branch, or an output; the
    result of an operation counts as one here.
    """

    meant: Labels
    """The dependence set of the value in the program: the version that the consumer should get."""
    delivered: Labels
    """The dependence set of the value in the schedule: the version that the consumer gets."""


class Errors(NamedTuple):
    """The hidden writes about which one or several edges are wrong. `stale` has those that an edge misses, `clobbered` those
    that an edge should not see. Both are sets of writes as bits (see `LabelSpace.bits_of`).
    """

    stale: Labels = 0
    clobbered: Labels = 0

    def __or__(self, other: "Errors") -> "Errors":
        return Errors(self.stale | other.stale, self.clobbered | other.clobbered)

    def __and__(self, bits: Labels) -> "Errors":
        """Returns only the errors about these hidden writes."""
        return Errors(self.stale & bits, self.clobbered & bits)

    def shared_with(self, other: "Errors") -> "Errors":
        """Returns the errors that both this object and `other` have."""
        return Errors(self.stale & other.stale, self.clobbered & other.clobbered)

    def __bool__(self) -> bool:
        return bool(self.both)

    @property
    def both(self) -> Labels:
        """Returns the hidden writes about which the edges are stale or clobbered, as bits."""
        return self.stale | self.clobbered

    def about(self, verdict: Verdict) -> Labels:
        """Returns the hidden writes about which the edges have this verdict, as bits. verdict: STALE or CLOBBERED."""
        return self.stale if verdict is Verdict.STALE else self.clobbered


NO_ERRORS = Errors()


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for an output's verdict: a hidden write, and the verdict about this write."""

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
        """Returns the indices of the hidden writes about which the output is stale or clobbered."""
        return frozenset([cause.write for cause in self.causes if cause.verdict.is_wrong])

    def join(self, causes: tuple[Cause, ...]) -> "OutputVerdict":
        """Returns a copy of the verdict with more causes. Its verdict is the worst of all causes."""
        verdict = find_worst((self.verdict, *(c.verdict for c in causes)))
        return OutputVerdict(verdict, tuple(dict.fromkeys((*self.causes, *causes))))


def find_worst(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=VERDICT_ORDER.index, default=Verdict.FRESH)


@dataclass(slots=True, eq=False)
class SetSummary:
    """A summary of several dependence sets, any of which the schedule may deliver. It tells whether an edge would be wrong
    with at least one of these sets (`Comparison.find_errors_among`).

    `common` and `some` contain labels. They do not distinguish the iteration classes of a write whose loop nesting differs
    between program and schedule. `original` and `replaced` contain hidden writes as bits (see `LabelSpace.bits_of`).
    """

    common: Labels = -1
    """The labels that all sets have."""
    some: Labels = 0
    """The labels that at least one set has."""
    original: Labels = 0
    """The hidden writes W for which at least one set has ORIG(W)."""
    replaced: Labels = 0
    """The hidden writes W for which at least one set has FRESH(W) and not ORIG(W)."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Compares the version that an edge means with the version that it gets."""

    writes: tuple[HiddenWrite, ...]
    space: LabelSpace
    loop_depth_differs: frozenset[int]
    """Indices of the writes whose loop nesting differs between program and schedule. The comparison does not distinguish
    the iteration classes of these writes.
    """
    undecided: frozenset[int]
    """Indices of the writes for which it is unknown where they write, who should read them, or whether they run
    (`EvaluatedPair.undecided`).
    """
    traced: frozenset[int] = frozenset()
    """Indices of the writes W for which ORIG(W) is reliable: the schedule still has the instruction that defines W's
    operand, and the operand had ORIG(W) when the kernel ran. A value without ORIG(W) then does not depend on the
    original. For any other write it may, because the evaluation may have found no instruction at which the label starts.
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
        """Returns the hidden writes about which an edge is stale or clobbered."""
        if edge.meant == edge.delivered:
            return NO_ERRORS
        return self.find_errors_among(edge.meant, self.summarize((edge.delivered,)))

    def _find_unproven_originals(self, edge: ComparedEdge) -> Labels:
        """Returns the hidden writes W, as bits, for which the edge means the original, and the evaluation of the schedule
        does not show whether the edge gets it: W is not traced.
        """
        missing = self.space.any_original(edge.meant) & ~self.space.any_original(edge.delivered)
        return missing & self.space.any_fresh(edge.delivered) & ~self._traced_bits

    def summarize(self, delivered: Iterable[Labels]) -> SetSummary:
        """Summarizes several dependence sets, any of which the schedule may deliver."""
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
        """Returns the hidden writes about which an edge may be wrong, if it gets any of several dependence sets.

        meant: the set that the edge means. delivered: a summary of the sets that the edge may get. A write counts if the
        edge is stale or clobbered about it with at least one of them.
        """
        any_fresh, any_original = self.space.any_fresh, self.space.any_original
        merged, wants_fresh, wants_original = self._ignore_iterations(meant), any_fresh(meant), any_original(meant)
        return Errors(
            stale=any_fresh(merged & ~delivered.common) | delivered.original & wants_fresh & ~wants_original,
            clobbered=any_fresh(delivered.some & ~merged) | delivered.replaced & self._traced_bits & wants_original,
        )

    def _ignore_iterations(self, labels: Labels) -> Labels:
        """Returns the set with all FRESH labels in iteration class 0 that belong to a write whose loop nesting differs
        between program and schedule.
        """
        if not self.loop_depth_differs:
            return labels
        at_other_depth = self._fresh_at_other_depth & labels
        return labels & ~at_other_depth | self.space.any_fresh(at_other_depth)

    def _compare_write(
        self, write: HiddenWrite, edge: ComparedEdge, errors: Errors, marks: tuple[list[RacedRead], list[LuckyRead]]
    ) -> Cause | None:
        """Returns the verdict on the edge about one hidden write, with its reads; None if the verdict is fresh.

        errors: what `find_errors` returns for the edge. marks: the raced and the lucky reads of W on which the value
        depends.
        """
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
    """Joins the verdicts of several programs, any of which may be the one that the author means. An output is unknown if its
    verdicts differ.

    programs: for each program, a mapping from output name to verdict; at least one program.
    """
    first, *others = programs
    return {
        name: verdict if all(other.get(name) is verdict for other in others) else Verdict.UNKNOWN
        for name, verdict in first.items()
    }


def join_read(kind: ReadKind, others: Sequence[ReadKind | None], *, reaches_unknown: bool) -> ReadKind:
    """Joins the kinds of a read in several programs, any of which may be the one that the author means. The read is unknown
    if its kinds differ, or if an unknown output is computed from it.

    kind: the read's kind in one program. others: its kinds in the remaining programs, None for a program without this read.
    reaches_unknown: whether an unknown output is computed from the read.
    """
    return kind if not reaches_unknown and all(other is kind for other in others) else ReadKind.UNKNOWN
