"""Runs the kernels of a program on bytes, from the Triton IR that their calls carry, and says what was seen of each launch.

(1) An output with bytes of its own is filled with a canary before the launch. An element that still holds the canary
    afterwards was not written. If a kernel could have written that very value, another canary has to agree.
(2) A launch races when its results change as the programs of the grid run last to first, or when an operand and the
    output in its place get bytes of their own. The latter says nothing about a kernel that writes through the operand.
    Programs that touch none of each other's bytes have the same results in any order; those that do are run in the other
    one, whatever that takes.
(3) If atomics were used, the order of the programs may show in the rounding, and that alone is no race.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.model.findings import LaunchNumbers, MemoryOperation, OutsideAccess, ProgramMeeting, SourceLine
from ligerdiag.replay.interpreter.dtypes import have_same_bits
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.runs.launch import Launch, compute_payload_key, copy_buffers, do_share, read_launches
from ligerdiag.replay.triton_ir.outcome import GridOptions, GridOutcome

type Run = Callable[[Sequence[Array], GridOptions], GridOutcome]
"""Runs the programs of a launch on operands and outputs."""

FORWARD, BACKWARD = GridOptions(), GridOptions(order="reverse")

ROUNDING = 1e-5
"""Relative difference that may be rounding: then an operand's own is not the one that tells."""
MOST_MEETINGS = 4
"""Examples that are kept of a launch."""

ATOMIC_ROUNDING = 64
"""Units of the last place by which results may differ as atomic additions come in another order."""

_CANARIES = {1: 0xA5, 2: 0x7FDB, 4: 0x7FDBA5A5, 8: 0x7FFBDBA5A5A5A5A5}
"""By bytes of an element: odd, and a NaN in every float type of two bytes or more, with a payload that no computation
gives."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watch:
    """One launch under observation."""

    launch: Launch
    operands: int
    fresh: tuple[int, ...]
    """Numbers of the outputs that are watched: neither zeroed nor sharing bytes with any other buffer."""

    def prepare(self, buffers: Sequence[Array], *, other: bool = False) -> None:
        """Zeroes the buffers that the launcher zeroes and fills the watched ones with a canary; other: with the other
        canary."""
        self.launch.zero(buffers)
        for output in self.fresh:
            bits = _view_bits(buffers[self.operands + output])
            bits[...] = _make_canary(bits, other)

    def find_unwritten(self, buffers: Sequence[Array], *, other: bool = False) -> Mapping[int, Array]:
        """Output number to a mask of the elements that hold the canary, for outputs that have any."""
        found: dict[int, Array] = {}
        for output in self.fresh:
            bits = _view_bits(buffers[self.operands + output])
            mask = bits == _make_canary(bits, other)
            if mask.any():
                found[output] = mask
        return found


def make_watch(launch: Launch, operands: Sequence[Array], outputs: Sequence[Array]) -> Watch:
    """See 1 above for what is watched."""
    buffers = (*operands, *outputs)
    zeroed = {number - len(operands) for number, _ in launch.zeroed}
    fresh = tuple(
        number
        for number, output in enumerate(outputs)
        if number not in zeroed
        and output.size
        and sum(do_share(output, other) for other in buffers) == 1  # with itself
    )
    return Watch(launch=launch, operands=len(operands), fresh=fresh)


def needs_confirmation(output: Array) -> bool:
    """Returns whether a kernel may have written the canary itself; no truth value is the canary, and no NaN of a
    float."""
    if output.dtype == np.bool_:
        return False
    return output.itemsize == 1 or (output.itemsize == 2 and output.dtype.kind in "iu")


def settle_truth_values(buffers: Sequence[Array]) -> None:
    """A canary in an array of truth values becomes true: NumPy relies on bytes of 0 and 1."""
    for buffer in buffers:
        if buffer.dtype == np.bool_:
            bits = buffer.view(np.uint8)
            bits[bits > 1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Races:
    """See 2 above."""

    racing: Mapping[int, float] = field(default_factory=dict[int, float])
    """operand_number to the relative difference of the results."""
    order: float = 0.0
    """The largest relative difference of a buffer as the programs run last to first that no operand in `racing` explains."""
    meetings: tuple[ProgramMeeting, ...] = ()
    """Examples of what makes `order`; empty where these are not known."""


def find_races(  # noqa: PLR0917
    watch: Watch,
    before: Sequence[Array],
    after: Sequence[Array],
    ran: GridOutcome,
    meetings: Sequence[ProgramMeeting],
    run: Run,
    *,
    all_ways: bool,
) -> Races:
    """See 2 above; `before` is unprepared.

    before, after: operands, then outputs, sharing their bytes as in the schedule. all_ways: run also what surely is no
    race of programs that were seen to meet.
    """
    operands, outputs = range(watch.operands), range(watch.operands, len(before))
    sharing = {i: [o for o in outputs if do_share(before[i], before[o])] for i in operands}
    written = [i for i in operands if sharing[i] or not _are_equal(before[i], after[i])]
    races, order = dict[int, float](), 0.0
    apart_meetings: list[ProgramMeeting] = []
    if ran.meeting is not None or (all_ways and not ran.meetings_known):
        again = copy_buffers(before)
        watch.prepare(again)
        run(again, BACKWARD)
        differences = [_compute_difference(x, y, ran.used_atomics) for x, y in zip(again, after, strict=True)]
        met = [i for i in written if not meetings or any(_is_met(after, i, one) for one in meetings)]
        apart_meetings = [one for one in meetings if not any(_is_met(after, i, one) for i in met)]
        own = {i: differences[i] for i in met if differences[i] > ROUNDING}
        largest = max(differences, default=0.0)
        races = own or dict.fromkeys(met, largest) if largest else {}
        if apart_meetings and races:
            # Both may make the difference of what is not overwritten in place: neither keeps silent.
            told = (x for b, x in enumerate(differences) if not any(do_share(after[b], after[i]) for i in met))
            order = max(told, default=0.0)
        elif not races:
            order = largest
    if all_ways and any(sharing.values()):
        apart = (*copy_buffers(before[: watch.operands]), *copy_buffers(before[watch.operands :]))
        watch.prepare(apart)
        run(apart, FORWARD)
        through_operand = {i for i in operands if sharing[i] and not _are_equal(before[i], apart[i])}
        told = [o for o in outputs if not any(o in sharing[i] for i in through_operand)]
        difference = max((_compute_difference(apart[o], after[o], ran.used_atomics) for o in told), default=0.0)
        for i in operands:
            if difference and sharing[i] and i not in through_operand:
                races[i] = max(races.get(i, 0.0), difference)
    return Races(racing=races, order=order, meetings=tuple(apart_meetings[:MOST_MEETINGS]) if order else ())


def _is_met(buffers: Sequence[Array], operand: int, meeting: ProgramMeeting) -> bool:
    """Whether the programs meet in the operand's bytes, through whichever buffer."""
    return any(do_share(buffers[operand], buffers[one]) for one in (meeting.buffer, meeting.other_buffer))


def _make_canary(bits: Array, other: bool) -> Any:
    canary = _CANARIES[bits.itemsize]
    return bits.dtype.type(canary ^ ((1 << 8 * bits.itemsize) - 1) if other else canary)


def _view_bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def _are_equal(one: Array, other: Array) -> bool:
    return have_same_bits(one, other)


def _compute_difference(one: Array, other: Array, atomics: bool) -> float:
    """||one - other|| over the larger norm, in f64; 1 where something is not finite, 0 where all bits agree."""
    differs = _view_bits(one) != _view_bits(other)
    if not differs.any():
        return 0.0
    x, y = one.astype(np.float64), other.astype(np.float64)
    apart = np.where(differs, x - y, 0.0)
    if not np.isfinite(apart).all():
        return 1.0
    x, y = (np.where(np.isfinite(values), values, 0.0) for values in (x, y))
    norm = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    difference = float(np.linalg.norm(apart)) / norm if norm else 0.0
    return 0.0 if atomics and difference <= ATOMIC_ROUNDING * _get_epsilon(one) else difference


def _get_epsilon(array: Array) -> float:
    if array.dtype.kind in "biu":
        return 0.0
    library: Any = ml_dtypes
    return float(library.finfo(array.dtype).eps)


SECONDS_PER_BYTE = 6e-9
"""Of all buffers: each element is loaded, computed with a few times and stored."""
SECONDS_PER_PROGRAM = 1e-5


def estimate_seconds(programs: int, buffer_bytes: int) -> float:
    """Returns a rough estimate of one core's seconds for a launch; buffer_bytes: of operands and outputs together."""
    return SECONDS_PER_BYTE * buffer_bytes + SECONDS_PER_PROGRAM * programs


@dataclass(slots=True, kw_only=True, eq=False)
class _Seen:
    """Observations of the launches of one call so far."""

    kernel: str
    operands: int
    launches: int = 0
    checked: int = 0
    unwritten: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    racing: dict[int, float] = field(default_factory=dict[int, float])
    order: float = 0.0
    meetings: tuple[ProgramMeeting, ...] = ()
    outside: dict[tuple[SourceLine | None, str, int | None], OutsideAccess] = field(
        default_factory=dict[tuple[SourceLine | None, str, int | None], OutsideAccess]
    )


class KernelRunner:
    """Runs the kernels of custom calls.

    check_seconds, checks: races are looked for where one run is estimated to take at most so long, in so many launches of
    each call. modules: files with the operations of modules of Triton IR that another Triton than ours reads, by the
    sha256 of a module.
    """

    def __init__(
        self, *, check_seconds: float = 0.5, checks: int = 2, modules: Mapping[str, Path] | None = None
    ) -> None:
        self._modules = modules or {}
        self._launches: dict[str, tuple[Launch, ...]] = {}
        self._seen: dict[str, _Seen] = {}
        self._check_seconds, self._checks = check_seconds, checks

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Runs the call's kernel on these bytes: flat contiguous arrays in the order of the call's buffers.

        Operands and outputs may share memory; what the kernel writes, it writes there, also to operands. watched: what is
        seen of it goes to `numbers`. Raises NotCoveredError.
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
        seen = self._seen.setdefault(call.name, _Seen(kernel=launch.kernel, operands=len(operands)))
        seen.launches += 1
        size = sum(buffer.nbytes for buffer in buffers)
        first = seen.launches <= self._checks
        check = seen.checked < self._checks and estimate_seconds(launch.programs, size) <= self._check_seconds
        before = before or (copy_buffers(buffers) if first or check else ())
        watch.prepare(buffers)
        ran = launch.run(buffers, FORWARD)
        _compare_configurations(watch, others, before, buffers)
        self._note_unwritten(watch, seen, buffers, before if check or others else ())
        _note_outside(seen, launch, ran, buffers)
        if check or (first and ran.meeting is not None):
            seen.checked += check
            meetings = _describe_meetings(launch, ran)
            races = find_races(watch, before, buffers, ran, meetings, launch.run, all_ways=check)
            for operand, difference in races.racing.items():
                seen.racing[operand] = max(seen.racing.get(operand, 0.0), difference)
            if races.order > seen.order:
                seen.order, seen.meetings = races.order, races.meetings
        settle_truth_values([outputs[number] for number in watch.fresh])

    def numbers(self) -> tuple[LaunchNumbers, ...]:
        """Returns the observations by instruction, in the order of the first launch of each."""
        return tuple(
            LaunchNumbers(
                kernel=seen.kernel,
                instruction=instruction,
                launches=seen.launches,
                checked=seen.checked,
                unwritten=dict(seen.unwritten),
                racing=dict(seen.racing),
                operands=seen.operands,
                order_difference=seen.order,
                meetings=seen.meetings,
                outside=tuple(seen.outside.values()),
            )
            for instruction, seen in self._seen.items()
        )

    def _find_launches(self, call: HloInstruction, buffers: int) -> tuple[Launch, ...]:
        key = compute_payload_key(call)
        if key not in self._launches:
            self._launches[key] = read_launches(call, buffers, self._modules)
        return self._launches[key]

    def _note_unwritten(self, watch: Watch, seen: _Seen, buffers: Sequence[Array], before: Sequence[Array]) -> None:
        """Keeps the worst launch of each output."""
        found = dict(watch.find_unwritten(buffers))
        if found and before:
            again = copy_buffers(before)
            watch.prepare(again, other=True)
            watch.launch.run(again, FORWARD)
            confirmed = watch.find_unwritten(again, other=True)
            found = {output: mask & confirmed[output] for output, mask in found.items() if output in confirmed}
        for output, mask in found.items():
            buffer = buffers[watch.operands + output]
            count = int(mask.sum())
            if count > seen.unwritten.get(output, (0, 0))[0] and (before or not needs_confirmation(buffer)):
                seen.unwritten[output] = (count, buffer.size)


def _describe_meetings(launch: Launch, ran: GridOutcome) -> tuple[ProgramMeeting, ...]:
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
        )
        for one in ran.meeting or ()
    )


def _note_outside(seen: _Seen, launch: Launch, ran: GridOutcome, buffers: Sequence[Array]) -> None:
    """Keeps the worst launch of each operation and buffer."""
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
    """NotCoveredError where the configurations of an autotuned kernel have different results."""
    for other in others:
        again = copy_buffers(before)
        watch.prepare(again)
        other.run(again, FORWARD)
        if any(_compute_difference(x, y, atomics=True) for x, y in zip(after, again, strict=True)):
            raise NotCoveredError(
                f"kernel `{other.kernel}` is autotuned, and its configurations have different results"
            )
