"""Runs kernels on bytes, from the Triton IR that their calls carry, and records observations of each launch.

Before a launch, a canary, a bit pattern that kernels hardly ever compute, fills each output that shares no bytes with
another buffer. An element that still holds the canary afterwards was not written; if a kernel could have computed that very
value, a second run with another canary has to confirm it. A launch races if its results change when the programs of its grid
run in another order, or when an operand and an output that share bytes get separate bytes (see `grid_orders`). If a program
reads an element of an output with a canary before any program has written it, the read is recorded. This must happen in both
orders: when the programs run from first to last, and when they run from last to first. If it happens in only one order, one
program writes what another reads, which is a race. If the schedule is executed again on the same constants, the observations
of that execution are kept separately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.model.findings import (
    LaunchNumbers,
    MemoryOperation,
    OrderTried,
    OutsideAccess,
    ProgramMeeting,
    SourceLine,
    UnwrittenRead,
)
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.grid_orders import (
    BACKWARD,
    FORWARD,
    MOST_ALONE,
    RepeatableLaunch,
    compute_difference,
    copy_unshared,
    find_grid_races,
    make_concurrent_options,
)
from ligerdiag.replay.runs.launch import Launch, compute_payload_key, copy_buffers, do_share, read_launches
from ligerdiag.replay.triton_ir.outcome import GridOptions, GridOutcome, Meeting

_CANARIES = {1: 0xA5, 2: 0x7FDB, 4: 0x7FDBA5A5, 8: 0x7FFBDBA5A5A5A5A5}
"""Maps the number of bytes of an element to its canary, the bit pattern that marks unwritten elements: odd, and a NaN
in every float type of two or more bytes, with a payload that no computation makes.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watch:
    """A launch whose outputs are checked for elements that the kernel leaves unwritten."""

    launch: Launch
    operands: int
    watched_outputs: tuple[int, ...]
    """Numbers of the watched outputs: those that the launcher does not zero, and that share no bytes with another
    buffer. Outputs are numbered from 0, apart from the operands.
    """

    def prepare(self, buffers: Sequence[Array], *, other: bool = False) -> None:
        """Zeroes the buffers that the launcher zeroes, and fills the checked outputs with a canary. The canary marks
        elements that are not yet written.

        other: whether to use the second canary, which is the first with all bits inverted.
        """
        self.launch.zero(buffers)
        for output in self.watched_outputs:
            bits = _view_bits(buffers[self.operands + output])
            bits[...] = _make_canary(bits, other)

    def list_tracked(self) -> frozenset[int]:
        """Returns the numbers of the kernel's arguments that are checked outputs and that the kernel may also read."""
        watched = {self.operands + output for output in self.watched_outputs}
        reading = self.launch.list_reading() if watched else ()
        return frozenset(argument for argument in reading if self.launch.arguments[argument] in watched)

    def find_unwritten(self, buffers: Sequence[Array], *, other: bool = False) -> Mapping[int, Array]:
        """Finds the elements of the checked outputs that the kernel left unwritten, because they still hold the canary.
        Returns a mask of these elements for each output that has any, by the output's number. The first output has
        number 0.

        other: whether the outputs were filled with the second canary.
        """
        found: dict[int, Array] = {}
        for output in self.watched_outputs:
            bits = _view_bits(buffers[self.operands + output])
            mask = bits == _make_canary(bits, other)
            if mask.any():
                found[output] = mask
        return found


def make_watch(launch: Launch, operands: Sequence[Array], outputs: Sequence[Array]) -> Watch:
    """Returns a `Watch` of the launch. It checks the outputs that the launcher does not zero and that share no bytes
    with another buffer.
    """
    buffers = (*operands, *outputs)
    zeroed = {number - len(operands) for number, _ in launch.zeroed}
    watched_outputs = tuple(
        number
        for number, output in enumerate(outputs)
        if number not in zeroed
        and output.size
        and sum(do_share(output, other) for other in buffers) == 1  # the output itself
    )
    return Watch(launch=launch, operands=len(operands), watched_outputs=watched_outputs)


def needs_confirmation(output: Array) -> bool:
    """Returns whether the kernel itself may compute the canary as an element of this output. The canary is the bit
    pattern of unwritten elements. A kernel may compute it in integers of one or two bytes and in f8. A second run with
    another canary then shows whether the element was written.
    """
    if output.dtype == np.bool_:
        return False
    return output.itemsize == 1 or (output.itemsize == 2 and output.dtype.kind in "iu")


def restore_booleans(buffers: Sequence[Array]) -> None:
    """Replaces canaries in arrays of booleans by true, because NumPy expects each byte to be 0 or 1. A canary is a bit
    pattern that marks unwritten elements.
    """
    for buffer in buffers:
        if buffer.dtype == np.bool_:
            bits = buffer.view(np.uint8)
            bits[bits > 1] = 1


def _make_canary(bits: Array, other: bool) -> Any:
    canary = _CANARIES[bits.itemsize]
    return bits.dtype.type(canary ^ ((1 << 8 * bits.itemsize) - 1) if other else canary)


def _hold_canary(buffers: Sequence[Array]) -> bool:
    """Returns whether one of the buffers contains the canary, the bit pattern that marks unwritten elements. A kernel
    that reads such a buffer may write the canary although it leaves nothing unwritten.
    """
    return any((_view_bits(one) == _make_canary(_view_bits(one), other=False)).any() for one in buffers)


def _view_bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


SECONDS_PER_BYTE = 6e-9
"""Seconds per byte of all buffers of a launch: each element is loaded, computed with a few times and stored."""
SECONDS_PER_PROGRAM = 1e-5


def estimate_seconds(programs: int, buffer_bytes: int) -> float:
    """Returns a rough estimate of the seconds that a launch takes on one core.

    programs: number of programs of the launch's grid. buffer_bytes: bytes of operands and outputs together.
    """
    return SECONDS_PER_BYTE * buffer_bytes + SECONDS_PER_PROGRAM * programs


@dataclass(slots=True, kw_only=True, eq=False)
class _Observations:
    """Observations of all launches of one kernel call so far."""

    kernel: str
    operands: int
    launches: int = 0
    checked: int = 0
    unwritten: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    racing: dict[int, float] = field(default_factory=dict[int, float])
    order: float = 0.0
    meetings: tuple[ProgramMeeting, ...] = ()
    tried: OrderTried = OrderTried.NONE
    largest: float = 0.0
    old_reads: dict[int, UnwrittenRead] = field(default_factory=dict[int, UnwrittenRead])
    outside: dict[tuple[SourceLine | None, str, int | None], OutsideAccess] = field(
        default_factory=dict[tuple[SourceLine | None, str, int | None], OutsideAccess]
    )


_NO_OBSERVATIONS = _Observations(kernel="", operands=0)


class KernelRunner:
    """Runs the kernels of custom calls and records observations of their launches.

    check_seconds: a launch is checked for races if it is estimated to take at most this many seconds, or if its
    programs touch the same bytes. checks: at most this many launches of each call are checked for races. modules: maps
    the sha256 of a kernel's Triton IR to a file with its operations, if another version of Triton has parsed the IR;
    ligerdiag's own Triton parses all other kernels.
    """

    def __init__(
        self, *, check_seconds: float = 0.5, checks: int = 2, modules: Mapping[str, Path] | None = None
    ) -> None:
        self._modules = modules or {}
        self._launches: dict[str, tuple[Launch, ...]] = {}
        self._observed: dict[str, _Observations] = {}
        self._later: dict[str, _Observations] = {}
        self._reading: set[str] = set()
        self.execution = 1
        """Number of the current execution of the schedule, from 1. A later execution finds the constants as the earlier
        ones left them.
        """
        self._check_seconds, self._checks = check_seconds, checks

    def runs(self, instruction: HloInstruction) -> bool:
        """Returns whether the instruction is a call that carries a kernel in Triton IR."""
        return is_call_with(instruction, CallTrait.CARRIES_TRITON)

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Runs the call's kernel on these bytes: flat contiguous arrays in the order of the call's buffers. Operands
        and outputs may share memory, and the kernel overwrites both.

        watched: whether to record observations, which `numbers` returns. Raises NotCoveredError if replay cannot run
        the kernel.
        """
        buffers = (*operands, *outputs)
        launch, *others = self._find_launches(call, len(buffers))
        watch = make_watch(launch, operands, outputs if watched else ())
        before = copy_buffers(buffers) if others else ()
        if not watched:
            watch.prepare(buffers)
            launch.run(buffers, FORWARD)
            _compare_configurations(watch, others, before, buffers)
            return
        is_later = self.execution > 1
        kept = self._later if is_later else self._observed
        seen = kept.setdefault(call.name, _Observations(kernel=launch.kernel, operands=len(operands)))
        seen.launches += 1
        size = sum(buffer.nbytes for buffer in buffers)
        first = seen.launches <= self._checks and not is_later
        check = seen.checked < self._checks and estimate_seconds(launch.programs, size) <= self._check_seconds
        check = check and not is_later
        before = before or (copy_buffers(buffers) if first or check else ())
        watch.prepare(buffers)
        options = GridOptions(tracked=watch.list_tracked()) if first else FORWARD
        ran = launch.run(buffers, options)
        _compare_configurations(watch, others, before, buffers)
        if ran.unwritten_reads:
            self._note_unwritten_reads(watch, seen, call, ran, before, options)
        self._note_unwritten(watch, seen, call, buffers, before if check or others else ())
        _note_outside(seen, launch, ran, buffers)
        if check or (first and (ran.meeting is not None or ran.ordered_atomics)):
            seen.checked += check
            # An addition to the first canary, a NaN, hides the addend; the second canary is close to zero.
            prepare = partial(watch.prepare, other=bool(ran.unwritten_reads))
            after: Sequence[Array] = buffers
            if ran.unwritten_reads:
                after = copy_buffers(before)
                prepare(after)
                launch.run(after, FORWARD)
            launched = RepeatableLaunch(
                launch=launch,
                operands=len(operands),
                before=before,
                after=after,
                ran=ran,
                meetings=_describe_meetings(launch, ran.meeting or ()),
                ordered_atomics=_describe_meetings(launch, ran.ordered_atomics, are_atomic=True),
                prepare=prepare,
            )
            races = find_grid_races(launched, all_ways=check)
            for operand, difference in races.racing.items():
                seen.racing[operand] = max(seen.racing.get(operand, 0.0), difference)
            if races.order > seen.order or (races.largest > seen.largest and not seen.order):
                seen.order, seen.meetings = races.order, races.meetings
                seen.largest, seen.tried = races.largest, races.tried
        restore_booleans([outputs[number] for number in watch.watched_outputs])

    def numbers(self) -> tuple[LaunchNumbers, ...]:
        """Returns the observations of each kernel call, in the order in which the calls were first launched."""
        return tuple(
            LaunchNumbers(
                kernel=seen.kernel,
                instruction=instruction,
                launches=seen.launches,
                checked=seen.checked,
                unwritten={**later.unwritten, **seen.unwritten},
                unwritten_later=tuple(output for output in later.unwritten if output not in seen.unwritten),
                racing=dict(seen.racing),
                operands=seen.operands,
                order_difference=seen.order,
                meetings=seen.meetings,
                order_tried=seen.tried,
                old_reads=tuple(seen.old_reads.values()),
                outside=(
                    *seen.outside.values(),
                    *(replace(one, is_later=True) for key, one in later.outside.items() if key not in seen.outside),
                ),
            )
            for instruction, seen in self._observed.items()
            for later in (self._later.get(instruction, _NO_OBSERVATIONS),)
        )

    def is_reading_unwritten(self, call: HloInstruction) -> bool:
        """Returns whether a launch of the call read unwritten bytes of its outputs, or left some unwritten. Launches of
        the same payload in another module count as well.
        """
        return compute_payload_key(call) in self._reading

    def launch_otherwise(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], tried: OrderTried | None
    ) -> None:
        """Runs the call's kernel with its programs in another order, or on other memory, and records no observations.
        Raises NotCoveredError if replay cannot run the kernel.

        tried: the order of the programs of the kernel's grid, or separate bytes for the outputs (see `OrderTried`). If
        `tried` is None, the programs run in the usual order on outputs that hold the second canary (see
        `Watch.prepare`).
        """
        buffers = (*operands, *outputs)
        launch, *_ = self._find_launches(call, len(buffers))
        watch = make_watch(launch, operands, outputs)
        if tried is OrderTried.APART:
            unshared = copy_unshared(launch, buffers, len(operands))
            watch.prepare(unshared)
            launch.run(unshared, FORWARD)
            for buffer, other in zip(outputs, unshared[len(operands) :], strict=True):
                buffer[...] = other
            return
        watch.prepare(buffers, other=tried is None)
        options = FORWARD
        if tried is OrderTried.BACKWARD:
            options = replace(BACKWARD, batch_bytes=1) if launch.programs <= MOST_ALONE else BACKWARD
        elif tried in {OrderTried.TOGETHER, OrderTried.CROSSED}:
            crossed = tried is OrderTried.CROSSED
            options = make_concurrent_options(self._observed[call.name].meetings, launch.programs, crossed=crossed)
        launch.run(buffers, options)
        restore_booleans([outputs[number] for number in watch.watched_outputs])

    def _note_unwritten_reads(  # noqa: PLR0917
        self,
        watch: Watch,
        seen: _Observations,
        call: HloInstruction,
        ran: GridOutcome,
        before: Sequence[Array],
        options: GridOptions,
    ) -> None:
        """Records the reads of unwritten bytes that occur when programs run from first to last and also from last to
        first.
        """
        other = {one.argument: one.mask for one in ran.unwritten_reads}
        if watch.launch.programs > 1:
            again = copy_buffers(before)
            watch.prepare(again)
            backward = watch.launch.run(again, replace(options, order="reverse"))
            other = {one.argument: one.mask for one in backward.unwritten_reads}
        for one in ran.unwritten_reads:
            mask = one.mask & other.get(one.argument, False)
            count = int(np.count_nonzero(mask))
            output = int(watch.launch.arguments[one.argument]) - watch.operands
            known = seen.old_reads.get(output)
            if not count or (known is not None and known.bytes >= count):
                continue
            self._reading.add(compute_payload_key(call))
            seen.old_reads[output] = UnwrittenRead(
                output=output,
                bytes=count,
                size=mask.size,
                is_atomic=one.is_atomic,
                program=one.program,
                first_byte=one.first_byte,
                line=one.place,
            )

    def _find_launches(self, call: HloInstruction, buffers: int) -> tuple[Launch, ...]:
        key = compute_payload_key(call)
        if key not in self._launches:
            self._launches[key] = read_launches(call, buffers, self._modules)
        return self._launches[key]

    def _note_unwritten(
        self,
        watch: Watch,
        seen: _Observations,
        call: HloInstruction,
        buffers: Sequence[Array],
        before: Sequence[Array],
    ) -> None:
        """Records how many elements of each output a launch leaves unwritten; keeps the worst launch of each output."""
        found = dict(watch.find_unwritten(buffers))
        if found and before:
            again = copy_buffers(before)
            watch.prepare(again, other=True)
            watch.launch.run(again, FORWARD)
            confirmed = watch.find_unwritten(again, other=True)
            found = {output: mask & confirmed[output] for output, mask in found.items() if output in confirmed}
        may_copy = bool(found) and not before and (watch.list_tracked() or _hold_canary(buffers[: watch.operands]))
        for output, mask in found.items():
            buffer = buffers[watch.operands + output]
            is_certain = bool(before) or not (needs_confirmation(buffer) or may_copy)
            count = int(mask.sum())
            if count > seen.unwritten.get(output, (0, 0))[0] and is_certain:
                seen.unwritten[output] = (count, buffer.size)
                self._reading.add(compute_payload_key(call))


def _describe_meetings(
    launch: Launch, meetings: Sequence[Meeting], *, are_atomic: bool = False
) -> tuple[ProgramMeeting, ...]:
    return tuple(
        ProgramMeeting(
            buffer=launch.arguments[one.argument],
            other_buffer=launch.arguments[one.other_argument],
            writer=one.writer,
            other=one.other,
            other_writes=one.other_writes,
            first_byte=one.first_byte,
            bytes=one.bytes,
            line=one.place,
            other_line=one.other_place,
            are_atomic=are_atomic,
        )
        for one in meetings
    )


def _note_outside(seen: _Observations, launch: Launch, ran: GridOutcome, buffers: Sequence[Array]) -> None:
    """Records accesses outside of the buffers; keeps the worst launch of each operation and buffer."""
    for one in ran.out_of_bounds:
        buffer = None if one.argument is None else launch.arguments[one.argument]
        key = one.place, one.kind, buffer
        if key not in seen.outside or one.count > seen.outside[key].elements:
            seen.outside[key] = OutsideAccess(
                kind=MemoryOperation(one.kind),
                buffer=buffer,
                size=0 if buffer is None else buffers[buffer].nbytes,
                first_byte=one.first_byte,
                width=one.width,
                elements=one.count,
                program=one.program,
                line=one.place,
            )


def _compare_configurations(
    watch: Watch, others: Sequence[Launch], before: Sequence[Array], after: Sequence[Array]
) -> None:
    """Raises NotCoveredError if the configurations of an autotuned kernel have different results.

    others: the launches of all configurations but the first one. before, after: contents of the buffers before and after
    the first configuration has run.
    """
    for other in others:
        again = copy_buffers(before)
        watch.prepare(again)
        other.run(again, FORWARD)
        if any(compute_difference(x, y, atomics=True) for x, y in zip(after, again, strict=True)):
            raise NotCoveredError(
                f"kernel `{other.kernel}` is autotuned, and its configurations have different results"
            )
