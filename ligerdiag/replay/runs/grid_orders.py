"""Does the order of the programs of a launch show in its results? Runs it again in other orders, and compares.

1. Programs that touch none of each other's bytes have the same results in any order. Those that do run from the last to
the
   first, whatever that takes; so do those that meet in atomic operations whose order shows (`triton_ir.atomic_order`).
2. Where both orders agree and one program reads what another one writes, they run at the same time, operation by
   operation: two programs that load, add and store lose one of the two sums, and one after the other they do not. A
   kernel whose programs wait for each other, as at a lock, is left alone: nothing runs at the same time behind the
   lock.
3. An operand and the output in its place get bytes of their own, except what the launcher zeroes in the place of both.
   That says nothing about a kernel that writes through the operand.
4. If atomics were used, the order of the programs may show in the rounding, and that alone is no race.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.model.findings import OrderTried, ProgramMeeting
from ligerdiag.replay.ops.dtypes import have_same_bits
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.launch import Launch, copy_buffers, do_share
from ligerdiag.replay.triton_ir.outcome import GridOptions, GridOutcome

FORWARD, BACKWARD = GridOptions(), GridOptions(order="reverse")
_MOST_ROUNDS = 20_000
"""Of a loop while programs run at the same time: one that goes on longer waits."""

MOST_ALONE = 1024
"""Programs that run one by one where their atomic operations meet: those of a batch come branch by branch."""

ROUNDING = 1e-5
"""Relative difference that may be rounding: then an operand's own is not the one that tells."""
MOST_MEETINGS = 4
"""Examples that are kept of a launch."""
ATOMIC_ROUNDING = 64
"""Units of the last place by which results may differ as atomic additions come in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Races:
    """See above."""

    racing: Mapping[int, float] = field(default_factory=dict[int, float])
    """operand_number to the relative difference of the results."""
    order: float = 0.0
    """The largest relative difference of a buffer in another order that no operand in `racing` explains."""
    meetings: tuple[ProgramMeeting, ...] = ()
    """Examples of what makes `order`, or else of what makes `racing`; empty where these are not known."""
    tried: OrderTried = OrderTried.NONE
    """How the largest difference showed."""

    @property
    def largest(self) -> float:
        """Returns the largest difference."""
        return max((self.order, *self.racing.values()))


def make_together(meetings: Sequence[ProgramMeeting], programs: int) -> GridOptions:
    """Returns the options of 2: programs that meet are in one batch."""
    first = dict.fromkeys(number for one in meetings for number in (one.writer, one.other))
    order = (*first, *(number for number in range(programs) if number not in first)) if first else None
    return GridOptions(together=True, programs=order, most_rounds=_MOST_ROUNDS, records_meetings=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RepeatableLaunch:
    """One launch that has run from the first program to the last, and what it needs to run again."""

    launch: Launch
    operands: int
    before: Sequence[Array]
    """Operands, then outputs, unprepared; they share their bytes as in the schedule."""
    after: Sequence[Array]
    ran: GridOutcome
    meetings: Sequence[ProgramMeeting]
    drawn: Sequence[ProgramMeeting]
    prepare: Callable[[Sequence[Array]], None]
    """Zeroes and fills buffers as before any run."""

    def compare(self, options: GridOptions) -> list[float]:
        """Runs the launch again; returns the relative difference of each buffer. Raises NotCoveredError."""
        again = copy_buffers(self.before)
        self.prepare(again)
        self.launch.run(again, options)
        return [compute_difference(x, y, self.ran.used_atomics) for x, y in zip(again, self.after, strict=True)]

    def list_sharing(self, operand: int) -> list[int]:
        """Returns the numbers of the output buffers in the operand's bytes."""
        outputs = range(self.operands, len(self.before))
        return [o for o in outputs if do_share(self.before[operand], self.before[o])]


def find_races(launched: RepeatableLaunch, *, all_ways: bool) -> Races:
    """See above. all_ways: run also what surely is no race of programs that were seen to meet."""
    ran, races = launched.ran, Races()
    if ran.meeting is not None or launched.drawn or (all_ways and not ran.meetings_known):
        alone = launched.drawn and launched.launch.programs <= MOST_ALONE
        differences = launched.compare(replace(BACKWARD, batch_bytes=1) if alone else BACKWARD)
        races = replace(_explain(launched, differences), tried=OrderTried.BACKWARD)
        if races.largest <= ROUNDING and not ran.waited and any(not one.other_writes for one in launched.meetings):
            together = _compare_together(launched)
            if max(together, default=0.0) > ROUNDING:
                races = replace(_explain(launched, together), tried=OrderTried.TOGETHER)
    return _compare_apart(launched, races) if all_ways else races


def _compare_together(launched: RepeatableLaunch) -> list[float]:
    try:
        return launched.compare(make_together(launched.meetings, launched.launch.programs))
    except NotCoveredError:
        return []  # a program that waits for another one


def _explain(launched: RepeatableLaunch, differences: Sequence[float]) -> Races:
    """Tells operands that are overwritten in place from what differs elsewhere."""
    before, after, meetings = launched.before, launched.after, launched.meetings
    operands = range(launched.operands)
    written = [i for i in operands if launched.list_sharing(i) or not have_same_bits(before[i], after[i])]
    is_drawn = bool(launched.drawn) and not meetings
    met = [i for i in written if not meetings or any(_is_met(after, i, one) for one in meetings)]
    if is_drawn:
        met = []  # where atomics meet, nothing is overwritten in place
    apart = [one for one in meetings if not any(_is_met(after, i, one) for i in met)]
    own = {i: differences[i] for i in met if differences[i] > ROUNDING}
    largest = max(differences, default=0.0)
    racing = own or dict.fromkeys(met, largest) if largest else {}
    order = 0.0
    if (apart or launched.drawn) and racing:
        # Both may make the difference of what is not overwritten in place: neither keeps silent.
        told = (x for b, x in enumerate(differences) if not any(do_share(after[b], after[i]) for i in met))
        order = max(told, default=0.0)
    elif not racing:
        order = largest
    examples = (apart or launched.drawn) if order else meetings
    return Races(racing=racing, order=order, meetings=tuple(examples[:MOST_MEETINGS]) if largest else ())


def take_apart(launch: Launch, before: Sequence[Array], operands: int) -> tuple[Array, ...]:
    """Returns copies of buffers of which no output shares bytes with an operand, zeroed as the launcher zeroes them,
    3."""
    apart = (*copy_buffers(before[:operands]), *copy_buffers(before[operands:]))
    for number, size in launch.zeroed:
        for other in range(operands):
            if do_share(before[number], before[other]):
                start = max(0, before[number].ctypes.data - before[other].ctypes.data)
                apart[other].view(np.uint8)[start : start + size] = 0
    return apart


def _compare_apart(launched: RepeatableLaunch, races: Races) -> Races:
    """See 3."""
    operands = range(launched.operands)
    sharing = {i: launched.list_sharing(i) for i in operands}
    if not any(sharing.values()):
        return races
    apart = take_apart(launched.launch, launched.before, launched.operands)
    given = copy_buffers(apart[: launched.operands])
    launched.prepare(apart)
    launched.launch.run(apart, FORWARD)
    through_operand = {i for i in operands if sharing[i] and not have_same_bits(given[i], apart[i])}
    outputs = range(launched.operands, len(apart))
    told = [o for o in outputs if not any(o in sharing[i] for i in through_operand)]
    atomics = launched.ran.used_atomics
    difference = max((compute_difference(apart[o], launched.after[o], atomics) for o in told), default=0.0)
    racing = dict(races.racing)
    for i in operands:
        if difference and sharing[i] and i not in through_operand:
            racing[i] = max(racing.get(i, 0.0), difference)
    tried = OrderTried.APART if difference > max(ROUNDING, races.largest) else races.tried
    return replace(races, racing=racing, tried=tried)


def _is_met(buffers: Sequence[Array], operand: int, meeting: ProgramMeeting) -> bool:
    """Whether the programs meet in the operand's bytes, through whichever buffer."""
    return any(do_share(buffers[operand], buffers[one]) for one in (meeting.buffer, meeting.other_buffer))


def compute_difference(one: Array, other: Array, atomics: bool) -> float:
    """||one - other|| over the larger norm, in f64; 1 where something is not finite, 0 where all bits agree.

    Of integers only elements that differ have a part in the norm: what is left unwritten is large, and nothing is
    rounded.
    """
    differs = one.view(f"u{one.itemsize}") != other.view(f"u{other.itemsize}")
    if not differs.any():
        return 0.0
    x, y = one.astype(np.float64), other.astype(np.float64)
    apart = np.where(differs, x - y, 0.0)
    if not np.isfinite(apart).all():
        return 1.0
    counted = differs if one.dtype.kind in "biu" else True
    x, y = (np.where(np.isfinite(values) & counted, values, 0.0) for values in (x, y))
    norm = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    difference = float(np.linalg.norm(apart)) / norm if norm else 0.0
    return 0.0 if atomics and difference <= ATOMIC_ROUNDING * _get_epsilon(one) else difference


def _get_epsilon(array: Array) -> float:
    if array.dtype.kind in "biu":
        return 0.0
    library: Any = ml_dtypes
    return float(library.finfo(array.dtype).eps)
