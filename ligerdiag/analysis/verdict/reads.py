"""Judges every read of an overwritten value: whether it gets the version (from before or after the write) that the
author means.

A *read* is a scheduled instruction that reads bytes which a kernel overwrites, reads the value from which these bytes
were copied, or computes the value again (see `def_use`). It is

- *stale* if it gets the version from before the kernel, and the kernel's version is meant;
- *clobbered* if it gets the kernel's version, and the version from before is meant;
- *unknown* if the version that it gets or the version that is meant is unknown;
- *latent* if it gets the version that is meant, and only the schedule's order makes it so;
- *fresh* if it gets the kernel's version, as meant, and something forces the order;
- *original* if it gets the version from before, as meant.

The first of these statements that applies to a hidden write and an instruction decides its verdict:

- If a read makes an output stale, clobbered or latent (see `blame`), the read has the same verdict.
- If an output is wrong for this write and no such read is known, as when XLA merged two calls, an operation gets the
  output's verdict. It is the first operation in program order whose dependence set is wrong and from which the output is
  computed.
- If the read races with the kernel, if the kernel's code could not be followed, or if there is no program as written,
  the read is unknown; so is a read from which an output is computed that is unknown for this write.
- For an operation of the author, the intended set gives the version that is meant, and the operand's bytes give the
  version that is read. If the two differ and no output is blamed on the read, it is wrong if its outputs are wrong for
  this write, otherwise unknown.
- For an instruction that the compiler made, the author means no version. It is right if all outputs computed from it are
  right for this write, wrong if everything that uses its result is a wrong reader or a wrong output, otherwise unknown.

If an instruction reads the value in several ways, the worst of these verdicts counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import Occurrence
from ligerdiag.analysis.evaluation.order import Order
from ligerdiag.analysis.evaluation.program_order import TaggedSet
from ligerdiag.analysis.value_flow import FollowedWrites, PerformedWrite
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.verdict.compared_edges import Differing
from ligerdiag.analysis.verdict.comparison import ComparedEdge
from ligerdiag.analysis.verdict.first_divergence import find_source, put_in_order
from ligerdiag.analysis.verdict.verdicts import ReadCause, ReadVerdict, Verdicts
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import READ_KIND_ORDER, Origin, Place, ReadKind

WRONG_KINDS = {Verdict.CLOBBERED: ReadKind.CLOBBERED, Verdict.STALE: ReadKind.STALE}


@dataclass(frozen=True, kw_only=True, eq=False)
class BlamedReads:
    """Lists the reads that make outputs of one schedule wrong, or right only by luck (latent)."""

    pair: EvaluatedPair
    verdicts: Verdicts
    followed: FollowedWrites
    reached: Mapping[int, int]
    """Maps the id of a step (a scheduled instruction) to the outputs that are computed from it, as an integer in which
    bit n represents output n.
    """

    @cached_property
    def _named(self) -> Mapping[int, list[tuple[ReadFinding, ReadKind]]]:
        """Maps the index of a hidden write to the reads that are blamed for this write, each with its kind."""
        named: defaultdict[int, list[tuple[ReadFinding, ReadKind]]] = defaultdict(list)
        for one in self.verdicts.reads:
            named[one.write.index].append((one, WRONG_KINDS.get(one.verdict, ReadKind.LATENT)))
        return named

    @cached_property
    def _differing(self) -> tuple[Differing, ...]:
        """The operations whose actual dependence sets are wrong, in program order."""
        return tuple(sorted(self.verdicts.differing, key=lambda one: put_in_order(one.path)))

    def list(self, write: int) -> Iterator[ReadVerdict]:
        """Yields the reads that make an output wrong about a hidden write, or right only by luck. write: index of the hidden
        write. An instruction may appear several times.
        """
        for finding, kind in self._named.get(write, ()):
            yield ReadVerdict(
                write=write,
                step=self.followed.flow.find_step(finding.reader.id),
                kind=kind,
                cause=ReadCause.BLAMED,
                place=self._find_place(finding, kind),
                outputs=finding.outputs,
                evidence=finding,
            )
        for verdict in WRONG_KINDS:
            unexplained = frozenset(self.verdicts.list_unexplained(write, verdict))
            if unexplained:
                yield from self._find_first(write, unexplained, verdict)

    def _find_first(self, write: int, unexplained: frozenset[str], verdict: Verdict) -> Iterator[ReadVerdict]:
        """Yields, for each of the outputs that are wrong although no read is blamed for it, the first wrong operation
        in program order from which the output is computed. Several outputs may have the same operation.

        unexplained: the names of these outputs. verdict: the verdict on them for this write.
        """
        wanted = {number: name for number, name in enumerate(self.verdicts.outputs) if name in unexplained}
        bit = self.pair.space.bits_of((write,))
        left = sum(1 << number for number in wanted)
        for one in self._differing:
            if not one.errors.about(verdict) & bit or not one.is_same:
                continue
            step = self.followed.flow.find_step(one.occurrence.scheduled.id)
            reached = self.reached.get(step, 0) & left
            if reached:
                left &= ~reached
                yield ReadVerdict(
                    write=write,
                    step=step,
                    kind=WRONG_KINDS[verdict],
                    cause=ReadCause.DIVERGES_FIRST,
                    place=self._find_place_of(write, one, verdict),
                    outputs=tuple([name for number, name in wanted.items() if reached >> number & 1]),
                )
            if not left:
                return

    def _find_place_of(self, write: int, one: Differing, verdict: Verdict) -> Place:
        performed = [some for some in self.followed.performed if some.write.index == write]
        slices = {place for some in performed for place in some.actual.slices}
        if verdict is Verdict.CLOBBERED:
            return Place.SAME_BYTES if any(place in slices for _, place, _ in one.occurrence.reads) else Place.COPY
        return find_source(write, one.occurrence, slices, self.pair.space)[1]

    def _find_place(self, finding: ReadFinding, kind: ReadKind) -> Place:
        if finding.wrong is None:
            return Place.SAME_BYTES
        if kind is not ReadKind.CLOBBERED:
            return finding.wrong.place
        written = [one for one in self.followed.performed if one.write.index == finding.write.index]
        values = [one.overwritten.definition for one in written]
        resolve = self.followed.flow.readers.positions.resolve
        read = (resolve(operand, at) for operand in finding.reader.operands for at in iterate_leaves(operand.shape))
        return Place.SAME_BYTES if any(one in values for one in read) else Place.COPY


_VERDICTS = {kind: verdict for verdict, kind in WRONG_KINDS.items()}
_PLACE_OF_ORIGIN = {Origin.VALUE: Place.SAME_BYTES, Origin.SOURCE: Place.COPY, Origin.RECOMPUTED: Place.RECOMPUTED}

type _Decision = tuple[ReadKind, ReadCause]


def judge_reads(pair: EvaluatedPair, verdicts: Verdicts, followed: FollowedWrites) -> tuple[ReadVerdict, ...]:
    """Returns a verdict for each read of an overwritten value, write by write in program order. Reads that make an output
    wrong or latent come first for each write.
    """
    return tuple(ReadJudge(pair=pair, verdicts=verdicts, followed=followed).judge()) if followed.performed else ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Read:
    """A scheduled instruction that reads an overwritten value, and on which no output is blamed."""

    performed: PerformedWrite
    reader: HloInstruction
    step: int
    operations: tuple[HloInstruction, ...]
    """The operations that read the value: the reader itself, or, if it is a fusion, operations inside it."""
    operand: int | None
    """Number of the reader's operand that holds the value; None if the reader computes the value again."""
    origin: Origin
    outputs: tuple[str, ...]
    """The program's outputs that are computed from the reader's result."""
    kind_of_users: ReadKind
    """The kind of read that all users of the reader's result have, if every user is a blamed read or a wrong output,
    and all are of one kind, such as stale; otherwise, or without users, NONE.
    """


@dataclass(slots=True, kw_only=True, eq=False)
class ReadJudge:
    """Judges the reads of one schedule. A step is a scheduled instruction, identified by its id (see `value_flow`)."""

    pair: EvaluatedPair
    verdicts: Verdicts
    followed: FollowedWrites
    _order: Order = field(default_factory=Order)
    _unknown: frozenset[int] = field(init=False)
    """Indices of the hidden writes for which every read is unknown."""
    _raced: frozenset[tuple[int, int]] = field(init=False)
    _by_output: Mapping[tuple[str, int], Verdict] = field(init=False)
    """Maps (output name, index of a hidden write) to the verdict on the output for this write; only pairs that are not
    fresh.
    """
    _reached: Mapping[int, int] = field(init=False)
    """Maps the id of a step to the outputs that are computed from it, as an integer in which bit n represents output n.
    """
    _users: Mapping[int, set[int]] = field(init=False)
    """Maps the id of a step to the steps that use its values."""
    _results: Mapping[int, list[str]] = field(init=False)
    """Maps the id of a step to the names of the outputs that the step defines."""

    def __post_init__(self) -> None:
        pair, flow = self.pair, self.followed.flow
        self._unknown = pair.undecided | {w.index for w in pair.writes if w.unknown or not pair.has_program}
        self._raced = frozenset((race.write, race.reader.id) for race in pair.concurrency.races)
        outputs = self.verdicts.outputs
        self._by_output = {(name, c.write): c.verdict for name, output in outputs.items() for c in output.causes}
        reached: dict[int, int] = {}
        users: dict[int, set[int]] = {}
        for node, bits in flow.compute_reach().items():
            step = flow.find_step(node[0])
            reached[step] = reached.get(step, 0) | bits
            for source, _ in flow.list_sources(node):
                users.setdefault(flow.find_step(source), set()).add(step)
        results: dict[int, list[str]] = {}
        for name, nodes in zip(outputs, flow.list_output_nodes(), strict=False):
            for number, _ in nodes:
                results.setdefault(flow.find_step(number), []).append(name)
        self._reached, self._users, self._results = reached, users, results

    def judge(self) -> Iterator[ReadVerdict]:
        blamed = BlamedReads(pair=self.pair, verdicts=self.verdicts, followed=self.followed, reached=self._reached)
        for write in self.pair.writes:
            named = list(blamed.list(write.index))
            known = {read.step: read.kind for read in named}
            performed = [one for one in self.followed.performed if one.write.index == write.index]
            others = [self._judge_read(read) for one in performed for read in self._list_others(one, known)]
            yield from _merge((*named, *others))

    def _list_others(self, one: PerformedWrite, known: Mapping[int, ReadKind]) -> Iterator[_Read]:
        """Yields the reads of the value that this write overwrites, except those at a step with a blamed read. known:
        maps the id of each step with a blamed read to the kind of this read.
        """
        readers, overwritten = self.followed.flow.readers, one.overwritten
        seen: set[int] = set()
        found: list[tuple[HloInstruction, tuple[HloInstruction, ...], int | None, Origin]] = []
        for read in readers.find_reads(overwritten):
            seen.add(read.scheduled.instruction.id)
            found.append((read.scheduled.anchor, read.operations, read.operand, read.origin))
        for scheduled, occurrence in readers.find_recomputing(one.write, overwritten, seen):
            found.append((scheduled.anchor, (occurrence.instruction,), None, Origin.RECOMPUTED))
        for reader, operations, operand, origin in found:
            step = self.followed.flow.find_step(reader.id)
            if step in known:
                continue
            bits = self._reached.get(step, 0)
            yield _Read(
                performed=one,
                reader=reader,
                step=step,
                operations=operations,
                operand=operand,
                origin=origin,
                outputs=tuple([name for number, name in enumerate(self.verdicts.outputs) if bits >> number & 1]),
                kind_of_users=self._find_kind_of_users(step, one.write.index, known),
            )

    def _find_kind_of_users(self, step: int, write: int, known: Mapping[int, ReadKind]) -> ReadKind:
        """Returns the kind of read, such as stale, that all users of the step's result have; NONE if they differ or
        have none. known: maps the id of each step with a blamed read to the kind of this read.
        """
        kinds = {known.get(user, ReadKind.NONE) for user in self._users.get(step, ())}
        said = [self._by_output.get((name, write), Verdict.FRESH) for name in self._results.get(step, ())]
        kinds |= {WRONG_KINDS.get(verdict, ReadKind.NONE) for verdict in said}
        return kinds.pop() if len(kinds) == 1 else ReadKind.NONE

    def _judge_read(self, read: _Read) -> ReadVerdict:
        """Returns the verdict on a read for which no output is blamed on it."""
        write = read.performed.write.index
        decisions = [self._decide(read, one) for one in read.operations]
        kind, cause = max(decisions, key=lambda one: READ_KIND_ORDER.index(one[0]), default=_UNDECIDED)
        outputs = read.outputs
        said = {name: self._by_output.get((name, write)) for name in read.outputs}
        if kind in _VERDICTS:
            outputs = tuple([name for name in read.outputs if said[name] is _VERDICTS[kind]])
            if not outputs:
                kind, outputs = ReadKind.UNKNOWN, read.outputs
        elif Verdict.UNKNOWN in said.values():
            cause = cause if kind is ReadKind.UNKNOWN else ReadCause.UNKNOWN_OUTPUT
            kind = ReadKind.UNKNOWN
        elif kind is ReadKind.LATENT:
            outputs = tuple([name for name in read.outputs if said[name] is Verdict.LATENT])
        place = _PLACE_OF_ORIGIN[read.origin]
        return ReadVerdict(write=write, step=read.step, kind=kind, cause=cause, place=place, outputs=outputs)

    def _decide(self, read: _Read, operation: HloInstruction) -> _Decision:
        write = read.performed.write.index
        if write in self._unknown or (write, read.reader.id) in self._raced:
            return _UNDECIDED
        occurrence = self._find_occurrence(operation)
        gets_newer = self._gets_kernels_version(read, occurrence)
        if gets_newer is None:
            return _UNDECIDED
        seen = self._find_order(read) if gets_newer else ReadKind.ORIGINAL
        tagged = self.pair.intended.tagged.get(self.pair.optimized.find_tag_path(operation))
        if tagged is None or not is_same_operation(tagged.opcode, operation):
            if read.kind_of_users is (ReadKind.CLOBBERED if gets_newer else ReadKind.STALE):
                return read.kind_of_users, ReadCause.USERS
            return seen if self._are_right(read.outputs, write) else ReadKind.UNKNOWN, ReadCause.USERS
        return self._compare(write, tagged, occurrence, seen, gets_newer=gets_newer), ReadCause.OPERATION

    def _compare(
        self, write: int, tagged: TaggedSet, occurrence: Occurrence | None, seen: ReadKind, *, gets_newer: bool
    ) -> ReadKind:
        """Returns the kind of a read by an operation of the author: compares the version that the operation gets with
        the version that it is meant to read.

        seen: the kind if the read is right. gets_newer: whether the read gets the kernel's version.
        """
        space = self.pair.space
        bit = space.bits_of((write,))
        fresh = bool(tagged.labels & space.all_fresh(write))
        original = bool(tagged.labels & space.all_original(write))
        if fresh == gets_newer and not (gets_newer and original):
            return seen
        actual = occurrence.labels if occurrence is not None else 0
        errors = self.verdicts.comparison.find_errors(ComparedEdge(tagged.labels, actual))
        if errors.stale & bit:
            return ReadKind.STALE if not gets_newer else ReadKind.UNKNOWN
        if errors.clobbered & bit:
            return ReadKind.CLOBBERED if gets_newer else ReadKind.UNKNOWN
        return seen if occurrence is not None else ReadKind.UNKNOWN  # the operation means both versions, and has both

    def _find_occurrence(self, operation: HloInstruction) -> Occurrence | None:
        found = self.pair.actual.occurrences.get(self.pair.optimized.find_tag_path(operation), ())
        return next((one for one in found if one.instruction is operation), None)

    def _gets_kernels_version(self, read: _Read, occurrence: Occurrence | None) -> bool | None:
        """Returns whether the read gets the version that the kernel wrote; None if unknown."""
        if read.origin is not Origin.VALUE:
            return False
        space, write, overwritten = self.pair.space, read.performed.actual, read.performed.overwritten
        reads = occurrence.reads if occurrence is not None else ()
        labels = [one for number, place, one in reads if number == read.operand and place in write.slices]
        if any(one & space.all_fresh(write.write) for one in labels):
            return True
        if any(one & space.all_original(write.write) for one in labels):
            return False
        times = self.pair.logical_times
        is_before = times[read.reader.id] < times[overwritten.kernel.id]
        may_see = self.followed.flow.is_seen(overwritten.kernel, overwritten.definition, read.reader)
        return None if is_before and may_see else may_see

    def _find_order(self, read: _Read) -> ReadKind:
        """Returns FRESH if operands or control edges force the reader to run after the kernel, LATENT if nothing does,
        and UNKNOWN if the evaluation of the schedule never reached the reader, so that no call path to it is known.
        """
        frames = self.pair.actual.frames.get(read.reader.id)
        if frames is None:
            return ReadKind.UNKNOWN
        return ReadKind.FRESH if self._order.is_forced(read.performed.actual.frames, frames) else ReadKind.LATENT

    def _are_right(self, outputs: tuple[str, ...], write: int) -> bool:
        """Returns whether all of these outputs are right for the write; False if there are no outputs."""
        right = (None, Verdict.LATENT)
        return bool(outputs) and all(self._by_output.get((name, write)) in right for name in outputs)


_UNDECIDED: _Decision = (ReadKind.UNKNOWN, ReadCause.UNDECIDED)


def _merge(reads: Iterable[ReadVerdict]) -> Iterator[ReadVerdict]:
    """Yields one verdict for each step: the worst of the verdicts on the step's reads, with the outputs of all reads
    that have this verdict.
    """
    by_step: dict[int, list[ReadVerdict]] = {}
    for read in reads:
        by_step.setdefault(read.step, []).append(read)
    for same in by_step.values():
        worst = max([read.kind for read in same], key=READ_KIND_ORDER.index)
        first = next(read for read in same if read.kind is worst)
        outputs = dict.fromkeys(name for read in same if read.kind is worst for name in read.outputs)
        yield replace(first, outputs=tuple(outputs))
