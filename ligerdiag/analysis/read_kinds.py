"""What a reader of an overwritten value gets, against what its author means, as far as the analysis has said so.

(1) A reader that a finding names is what the finding says.
(2) What is decided by hardware, by a kernel that could not be followed, or without the program as written, is unknown; so
    is what reaches an output that is unknown for this write.
(3) Of an operation of the author's, the intended set says what it means, and what stood in the operand's bytes what it gets.
    Where the two differ and no finding names it, it is wrong about the outputs that are wrong for this write, else unknown.
(4) What the compiler made has no author: it is right if all outputs that it reaches are right for this write, wrong if
    nobody takes its result but wrong readers and wrong outputs, else unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.actual import Sighting
from ligerdiag.analysis.carriers import is_same_operation
from ligerdiag.analysis.comparison import Comparison
from ligerdiag.analysis.context import Context
from ligerdiag.analysis.labels import LabelSpace
from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.analysis.order import Order
from ligerdiag.analysis.program_order import TaggedSet
from ligerdiag.findings import Verdict
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.neighbourhood import Origin
from ligerdiag.schedule_view import ReadKind

_WRONG = {ReadKind.STALE: Verdict.STALE, ReadKind.CLOBBERED: Verdict.CLOBBERED}
_BY_WEIGHT = (
    ReadKind.NONE,
    ReadKind.ORIGINAL,
    ReadKind.FRESH,
    ReadKind.LATENT,
    ReadKind.UNKNOWN,
    ReadKind.CLOBBERED,
    ReadKind.STALE,
)


def find_worst(kinds: list[ReadKind]) -> ReadKind:
    """The one that a reader of several operands shows."""
    return max(kinds, key=_BY_WEIGHT.index, default=ReadKind.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """One reader of one overwritten value."""

    write: ActualWrite
    kernel: HloInstruction
    """The scheduled instruction that runs the kernel."""
    reader: HloInstruction
    operations: tuple[HloInstruction, ...]
    """Of the reader, that read."""
    operand: int | None
    """operand_number of the reader; None where it computes the value anew."""
    origin: Origin
    may_see: bool
    """The kernel runs before it, in this iteration of a loop or in an earlier one."""
    outputs: tuple[str, ...]
    """Of the program, that the reader reaches."""
    taken_by: ReadKind
    """What findings and verdicts say of all that takes the reader's result; NONE where they do not say one thing."""


@dataclass(slots=True, eq=False)
class ReadJudge:
    """Judges the reads of one schedule."""

    context: Context
    space: LabelSpace = field(init=False)
    comparison: Comparison = field(init=False)
    _order: Order = field(default_factory=Order)
    _unknown: frozenset[int] = field(init=False)
    """Indices of the writes about which nothing is known, (2)."""
    _raced: frozenset[tuple[int, int]] = field(init=False)
    _verdicts: Mapping[tuple[str, int], Verdict] = field(init=False)
    """(Output name, HiddenWrite index) to what the write does to the output, where it is not fresh."""

    def __post_init__(self) -> None:
        context, writes = self.context, self.context.writes
        self.space = LabelSpace(len(writes), max((write.loop_depth for write in writes), default=0))
        undecided = frozenset(w.index for w in context.matching.unplaced) | context.matching.ambiguous
        self.comparison = Comparison(writes, self.space, context.matching.moved, undecided, context.actual.traced)
        self._unknown = undecided | {w.index for w in writes if w.unknown or not self.has_program}
        self._raced = frozenset((race.write, race.reader.id) for race in context.concurrency.races)
        self._verdicts = {
            (name, cause.write): cause.verdict for name, output in context.outputs.items() for cause in output.causes
        }

    @property
    def has_program(self) -> bool:
        """Whether anything says what the author means."""
        return bool(self.context.intended.outputs)

    def judge(self, read: Read) -> tuple[ReadKind, tuple[str, ...]]:
        """Kind of a read that no finding names, and the outputs that it reaches; of a wrong one, those that are so wrong."""
        write = read.write.write
        kind = find_worst([self._judge(read, one) for one in read.operations])
        if kind in _WRONG:
            reached = tuple([name for name in read.outputs if self._verdicts.get((name, write)) is _WRONG[kind]])
            return (kind, reached) if reached else (ReadKind.UNKNOWN, read.outputs)
        if Verdict.UNKNOWN in {self._verdicts.get((name, write)) for name in read.outputs}:
            return ReadKind.UNKNOWN, read.outputs
        if kind is ReadKind.LATENT:
            lucky = [name for name in read.outputs if self._verdicts.get((name, write)) is Verdict.LATENT]
            return kind, tuple(lucky)
        return kind, read.outputs

    def _judge(self, read: Read, operation: HloInstruction) -> ReadKind:
        write = read.write.write
        if write in self._unknown or (write, read.reader.id) in self._raced:
            return ReadKind.UNKNOWN
        sighting = self._find_sighting(operation)
        gets = self._find_gets(read, sighting)
        if gets is None:
            return ReadKind.UNKNOWN
        seen = self._find_order(read) if gets else ReadKind.ORIGINAL
        tagged = self.context.intended.tagged.get(self.context.optimized.find_tag_path(operation))
        if tagged is None or not is_same_operation(tagged.opcode, operation):
            if read.taken_by is (ReadKind.CLOBBERED if gets else ReadKind.STALE):
                return read.taken_by
            return seen if self._are_right(read.outputs, write) else ReadKind.UNKNOWN
        return self._compare(write, tagged, sighting, seen, gets=gets)

    def _compare(
        self, write: int, tagged: TaggedSet, sighting: Sighting | None, seen: ReadKind, *, gets: bool
    ) -> ReadKind:
        """An operation of the author's, (3)."""
        bit = self.space.bits_of((write,))
        fresh = bool(tagged.labels & self.space.all_fresh(write))
        original = bool(tagged.labels & self.space.all_original(write))
        if fresh == gets and not (gets and original):
            return seen
        actual = sighting.labels if sighting is not None else 0
        if self.comparison.find_stale(tagged.labels, actual) & bit:
            return ReadKind.STALE if not gets else ReadKind.UNKNOWN
        if self.comparison.find_clobbered(tagged.labels, actual) & bit:
            return ReadKind.CLOBBERED if gets else ReadKind.UNKNOWN
        return seen if sighting is not None else ReadKind.UNKNOWN  # it means both, and has both

    def _find_sighting(self, operation: HloInstruction) -> Sighting | None:
        found = self.context.actual.sightings.get(self.context.optimized.find_tag_path(operation), ())
        return next((one for one in found if one.instruction is operation), None)

    def _find_gets(self, read: Read, sighting: Sighting | None) -> bool | None:
        """Whether it reads what the kernel wrote; None where that is not known."""
        if read.origin is not Origin.VALUE:
            return False
        write = read.write
        reads = sighting.reads if sighting is not None else ()
        labels = [one for number, place, one in reads if number == read.operand and place in write.slices]
        if any(one & self.space.all_fresh(write.write) for one in labels):
            return True
        if any(one & self.space.all_original(write.write) for one in labels):
            return False
        times = self.context.logical_times
        is_before = times[read.reader.id] < times[read.kernel.id]
        return None if is_before and read.may_see else read.may_see

    def _find_order(self, read: Read) -> ReadKind:
        """What the reader of a kernel's result shows: whether the order is forced."""
        frames = self.context.actual.frames.get(read.reader.id)
        if frames is None:
            return ReadKind.UNKNOWN
        return ReadKind.FRESH if self._order.is_forced(read.write.frames, frames) else ReadKind.LATENT

    def say_of_output(self, name: str, write: int) -> ReadKind:
        """What an output says of who computes it."""
        verdict = self._verdicts.get((name, write))
        return next((kind for kind, one in _WRONG.items() if one is verdict), ReadKind.NONE)

    def _are_right(self, outputs: tuple[str, ...], write: int) -> bool:
        """(4)."""
        right = (None, Verdict.LATENT)
        return bool(outputs) and all(self._verdicts.get((name, write)) in right for name in outputs)
