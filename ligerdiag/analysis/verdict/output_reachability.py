"""Finds the outputs that depend on wrong operations, both in the program and in the schedule.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

An operation is *wrong* about a hidden write if the instruction that computes it in the schedule misses that write, or sees
it and should not (it is stale or clobbered, see `comparison`). Not every output that uses the instruction is wrong then: XLA
may have merged several operations into this instruction, and the output may need it for another of these operations. So an
output counts as dependent on the wrong operation only if it depends on the operation in the program and on the instruction
in the schedule. To find out, each of the two gets a mark: an extra bit in dependence sets that spreads to all values
computed from the marked one. Both programs are evaluated again, and the outputs that have both marks are taken.

Merged operations and the kernel's own write need special rules:

- XLA computes operations of equal value (*twins*) by one instruction, which carries the name of one of them. If the
  value of the instruction is wrong for another twin too, the outputs that the program computes from this twin are
  affected as well, so the twin gets the operation's mark.
- The instruction's mark ends where the hidden write overwrites the value, because the kernel replaces the wrong
  contents. If the instruction runs after the last call of the kernel, its mark ends nowhere; then one mark is enough
  for all writes about which the operation is wrong.
- If an instruction that runs after the last call of the kernel is right for a twin, the operation's mark ends at the
  kernel's write in the program. The kernel cannot have read the late instruction, so an output that depends on the operation
  only through the kernel is not affected.

A *question* is the pair of marks for one wrong operation. Sets of many marks are large, so one evaluation has at most MARKS
questions. If there are more wrong operations, several with the same cause (hidden write and verdict) share a question; one
operation on which the output depends is enough for the cause. An output without both marks depends on none of the operations
in the question. An output with both marks may have got them from two different operations. Then the first such question of
each output and cause is split and asked again, until a single operation or none is left. Questions that remain after ROUNDS
such evaluations stay open (`Reached.open`), and `blame` makes the outputs unknown.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import batched
from math import inf

from ligerdiag.analysis.evaluated_pair import Evaluator
from ligerdiag.analysis.evaluation.label_memory import Occurrence, find_read_place
from ligerdiag.analysis.evaluation.labels import Labels, WrongAbout
from ligerdiag.analysis.evaluation.order import compute_logical_times
from ligerdiag.analysis.verdict.compared_edges import Differing
from ligerdiag.analysis.verdict.comparison import Cause, ComparedEdge, Comparison
from ligerdiag.analysis.verdict.first_divergence import WrongRead
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.hlo.module import TagPath


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwinJudge:
    """Decides whether an instruction that is wrong for one operation is right for a twin of it. Twins are operations that
    XLA computes by one instruction.
    """

    provenance: OperandProvenance
    comparison: Comparison

    def is_right_for_twin(self, write: int, path: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether a value that is wrong for one operation is right for a twin of it. path: tag path of the
        operation. occurrence: the instruction that computes the value. write: index of the hidden write about which it is
        wrong.

        A twin is an operation that XLA takes for the same value. A slice of the same elements after the kernel's call counts
        too: it should have the kernel's result.
        """
        if self._is_taken_again(write, occurrence):
            return True
        return any(not wrong & self.comparison.space.bits_of((write,)) for _, wrong in self._judge(path, occurrence))

    def list_wrong_twins(self, write: int, path: TagPath, occurrence: Occurrence) -> tuple[TagPath, ...]:
        bits = self.comparison.space.bits_of((write,))
        return tuple(other for other, wrong in self._judge(path, occurrence) if wrong & bits)

    def _judge(self, path: TagPath, occurrence: Occurrence) -> Iterator[tuple[TagPath, Labels]]:
        """Yields the tag path of each twin of the operation (an operation that is the same value to XLA), with the
        hidden writes, as bits, about which the instruction's value is wrong for the twin.
        """
        tagged = self.provenance.intended.tagged
        for other in self.provenance.twins.list_others(path):
            if other in tagged:
                yield other, self.comparison.find_errors(ComparedEdge(tagged[other].labels, occurrence.labels)).both

    def _is_taken_again(self, write: int, occurrence: Occurrence) -> bool:
        slice_ = occurrence.instruction
        if slice_.opcode != "slice":
            return False
        place = find_read_place(self.provenance.evaluator.optimized, slice_, occurrence.scheduled, occurrence.reads)
        return any(one.write == write and one.covers_slice(place, slice_) for one in self.provenance.actual.writes)


MARKS = 4096
"""Largest number of questions (pairs of marks) in one evaluation."""
ROUNDS = 6
"""Largest number of evaluations in which questions about several operations are split."""
NO_KERNEL = -1
"""The value of `WrongAbout.write` if no kernel's write ends the mark."""


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """The causes and the reads on which each output depends."""

    causes: tuple[set[Cause], ...]
    reads: tuple[frozenset[int], ...]
    """For each output, the reads on which it depends, by their positions in the list that `find_reached` was given."""
    open: frozenset[Cause] = frozenset()
    """Causes for which the search was not finished: some output may depend on one of the cause's wrong operations."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One wrong operation, and the instruction that computes it."""

    paths: tuple[TagPath, ...]
    """Tag paths of the operation, and of its twins (other operations that XLA computes by the same instruction) for
    which the instruction's value is wrong too.
    """
    instruction: int
    write: int
    """Index of the hidden write that may end the instruction's mark, because its kernel may run after the instruction;
    NO_KERNEL if none can.
    """
    cleared_by: int
    """Index of the hidden write that ends the operation's mark in the program, because the instruction runs after the
    kernel's last call and is right for a twin; NO_KERNEL if none does.
    """


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """The question whether an output depends on at least one of these wrong operations, which share one pair of marks."""

    write: int
    """Index of the hidden write that ends the instructions' mark; NO_KERNEL if none does."""
    candidates: tuple[_Candidate, ...]
    cause: Cause | None = None


def find_reached(
    evaluator: Evaluator,
    outputs: int,
    wrong: Iterable[tuple[Cause, Differing]],
    reads: list[WrongRead],
    twins: TwinJudge,
) -> Reached:
    """Returns, for each output, the causes and the reads on which the output depends.

    An output depends on a cause if it depends on one of the cause's wrong operations. outputs: number of outputs.
    wrong: (cause, wrong operation) pairs. reads: the wrong reads to look for. twins: decides whether an
    instruction that is wrong for one operation is right for a twin of it.
    """
    times = compute_logical_times(evaluator.optimized)
    last = _find_last_calls(evaluator, times)

    def make_candidate(write: int, path: TagPath, occurrence: Occurrence) -> _Candidate:
        is_late = times.get(occurrence.scheduled.id, -1) > last.get(write, -1)
        cleared_by = write if is_late and twins.is_right_for_twin(write, path, occurrence) else NO_KERNEL
        paths = (path, *twins.list_wrong_twins(write, path, occurrence))
        return _Candidate(paths, occurrence.instruction.id, NO_KERNEL if is_late else write, cleared_by)

    by_cause: dict[Cause, dict[_Candidate, None]] = {}
    for cause, one in wrong:
        by_cause.setdefault(cause, {})[make_candidate(cause.write, one.path, one.occurrence)] = None
    read_at: dict[_Candidate, list[int]] = {}
    for number, read in enumerate(reads):
        read_at.setdefault(make_candidate(read.write, read.path, read.occurrence), []).append(number)
    known: tuple[set[Cause], ...] = tuple([set() for _ in range(outputs)])
    single = dict(read_at)
    for candidates in by_cause.values():
        for candidate in candidates:
            single.setdefault(candidate, [])
    is_few = len(single) <= len(read_at) + MARKS
    asked = list(single if is_few else read_at)
    if not asked and not by_cause:
        return Reached(known, tuple([frozenset[int]() for _ in known]))
    hits = [{asked[n] for n in hit} for hit in _evaluate(evaluator, [_Question(s.write, (s,)) for s in asked], outputs)]
    reached = tuple([frozenset([number for candidate in hit for number in read_at.get(candidate, ())]) for hit in hits])
    if not is_few:
        return Reached(known, reached, _find_causes(evaluator, by_cause, known))
    for found, hit in zip(known, hits, strict=True):
        found.update(cause for cause, candidates in by_cause.items() if not hit.isdisjoint(candidates))
    return Reached(known, reached)


def _find_last_calls(evaluator: Evaluator, times: Mapping[int, int]) -> Mapping[int, float]:
    """Maps the index of each hidden write to the LogicalTime of the last call that performs it; infinite if unknown."""
    last: dict[int, float] = {}
    for one in evaluator.matching.actual:
        last[one.write] = max(last.get(one.write, -1), times.get(one.frames[0].instruction.id, inf))
    placed = {(one.call.id, one.write) for one in evaluator.matching.actual}
    for call, writes in evaluator.matching.by_call.items():
        last |= {write.index: inf for write in writes if (call, write.index) not in placed}
    return last


def _find_causes(
    evaluator: Evaluator, by_cause: Mapping[Cause, Mapping[_Candidate, None]], known: tuple[set[Cause], ...]
) -> frozenset[Cause]:
    """Adds to `known`, which has one set for each output, the causes on which the output certainly depends. Returns the
    causes for which it stays unknown whether some output depends on them.
    """
    size = -(-sum(map(len, by_cause.values())) // MARKS)
    questions = [
        _Question(cause.write, some, cause)
        for cause, candidates in by_cause.items()
        for some in batched(candidates, size)
    ]
    waiting = [
        (output, questions[number])
        for output, hit in enumerate(_evaluate(evaluator, questions, len(known)))
        for number in sorted(hit)
    ]
    for _ in range(ROUNDS):
        waiting = _record_certain(waiting, known)
        if not waiting:
            break
        first = {(output, question.cause): question for output, question in reversed(waiting)}
        pieces = {question: _split(question, len(first)) for question in first.values()}
        asked = [piece for found in pieces.values() for piece in found]
        hits = [{asked[n] for n in hit} for hit in _evaluate(evaluator, asked, len(known))]
        waiting = [
            (output, piece)
            for output, question in waiting
            for piece in pieces.get(question, (question,))
            if question not in pieces or piece in hits[output]
        ]
    return frozenset([q.cause for _, q in _record_certain(waiting, known) if q.cause is not None])


def _record_certain(waiting: list[tuple[int, _Question]], known: tuple[set[Cause], ...]) -> list[tuple[int, _Question]]:
    """Adds the cause of each question about a single operation to `known`, because both marks can only come from that
    operation. Returns the pairs whose cause is not yet known for their output.

    waiting: pairs of the number of an output, and a question both of whose marks reach it.
    """
    for output, question in waiting:
        if len(question.candidates) == 1 and question.cause is not None:
            known[output].add(question.cause)
    return [(output, question) for output, question in waiting if question.cause not in known[output]]


def _split(question: _Question, others: int) -> tuple[_Question, ...]:
    """Splits a question into `MARKS // others` smaller ones of about equal size, but into at least two, and into no
    more than the question has operations.

    others: number of questions that are split at the same time and evaluated together, this one included.
    """
    pieces = max(2, MARKS // others)
    size = -(-len(question.candidates) // pieces)
    return tuple([_Question(question.write, some, question.cause) for some in batched(question.candidates, size)])


def _evaluate(evaluator: Evaluator, questions: list[_Question], outputs: int) -> list[set[int]]:
    """Returns, for each output, the numbers of the questions whose two marks both reach the output."""
    found: list[set[int]] = [set() for _ in range(outputs)]
    # ambiguities add marks of their own and change none of these
    plain = replace(evaluator, canonicalized=False, has_snapshots=True)
    for first in range(0, len(questions), MARKS):
        some = questions[first : first + MARKS]
        space = evaluator.space.without_marks()
        operations: dict[TagPath, Labels] = {}
        instructions: dict[int, Labels] = {}
        for number, question in enumerate(some):
            operation, instruction = space.mark(("operation", number)), space.mark(WrongAbout(question.write, number))
            for candidate in question.candidates:
                key = (
                    operation
                    if candidate.cleared_by == NO_KERNEL
                    else space.mark(WrongAbout(candidate.cleared_by, ~number))
                )
                for path in candidate.paths:
                    operations[path] = operations.get(path, 0) | key
                instructions[candidate.instruction] = instructions.get(candidate.instruction, 0) | instruction
        intended, actual = replace(plain, space=space).with_marks(operations, instructions)
        for hit, wanted, seen in zip(found, intended.outputs, actual.outputs, strict=True):
            marks = {~key.instruction if isinstance(key, WrongAbout) else key for key in space.marks_in(wanted)}
            hit.update(
                first + key.instruction
                for key in space.marks_in(seen)
                if isinstance(key, WrongAbout)
                and not marks.isdisjoint({key.instruction, ("operation", key.instruction)})
            )
    return found
