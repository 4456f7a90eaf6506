"""Finds races in a kernel launch: runs the programs of its grid again in other orders, and compares the results.

If no program writes bytes that another one reads or writes, the results are the same in any order. Otherwise the launch
runs again from the last program to the first, whatever that costs. A launch whose atomic operations make the order
visible (see `find_atomic_order`) runs again, too. If both orders give the same results and one program reads what
another writes, the programs also run concurrently, operation by operation. Two programs that load, add and store then
lose one of the two sums, unlike two programs that run one after the other. Programs that only write the same bytes run
concurrently with their stores crossed: a program whose atomic operation came first may store last. A kernel whose
programs wait for each other, as at a lock, does not run concurrently, because the code that a lock protects does not
either.

If an output shares the bytes of an operand, the launch also runs with separate bytes for the two. The results differ if a
program reads an element of the operand that has already been overwritten through the output. Bytes that the launcher zeroes
are zeroed in both. This run cannot show anything if the kernel writes through the operand's pointer, because the output then
lacks these values. If atomics were used, a difference within rounding is not a race.
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
"""The most iterations of a kernel's loop in a concurrent run; a program that needs more is waiting for another program.
"""

MOST_ALONE = 1024
"""The programs of a launch whose atomic operations touch the same bytes run one by one if the launch has at most this
many programs. The programs of a larger launch run in batches, branch by branch.
"""

ROUNDING = 1e-5
"""The largest relative difference between two runs that may come from rounding; up to it, a difference does not show a
race.
"""
MOST_MEETINGS = 4
"""The most examples of meetings (bytes that one program writes and another touches) that are kept for one launch."""
ATOMIC_ROUNDING = 64
"""Units in the last place by which another order of atomic additions may change results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRaces:
    """The differences in a launch's results when the programs of its grid run in other orders."""

    racing: Mapping[int, float] = field(default_factory=dict[int, float])
    """Maps the number of an operand that is overwritten in place to the relative difference that its race makes in the
    results.
    """
    order: float = 0.0
    """The largest relative difference of a buffer that no operand in `racing` explains."""
    meetings: tuple[ProgramMeeting, ...] = ()
    """Examples of bytes that several programs touch. They explain `order` or, if `order` is 0, `racing`; empty if none
    are known.
    """
    tried: OrderTried = OrderTried.NONE
    """The way of running the launch that showed the largest difference."""

    @property
    def largest(self) -> float:
        """Returns the largest relative difference in any buffer, whether or not an operand in `racing` explains it."""
        return max((self.order, *self.racing.values()))


def make_concurrent_options(meetings: Sequence[ProgramMeeting], programs: int, *, crossed: bool = False) -> GridOptions:
    """Returns the options that run all programs of a launch concurrently. Programs that touch the same bytes are put
    first, so that they run side by side.

    meetings: pairs of programs that touch the same bytes. programs: number of programs of the launch. crossed: whether
    the first program's store comes last if several programs store to the same bytes.
    """
    first = dict.fromkeys(number for one in meetings for number in (one.writer, one.other))
    order = (*first, *(number for number in range(programs) if number not in first)) if first else None
    return GridOptions(
        together=True, first_stays=crossed, programs=order, most_rounds=_MOST_ROUNDS, records_meetings=False
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RepeatableLaunch:
    """A launch that has run once, from its first program to its last. It has all that is needed to run it again."""

    launch: Launch
    operands: int
    before: Sequence[Array]
    """Contents of the operands, then of the outputs, from before the launch, when `prepare` had not yet zeroed or filled
    any of them; the arrays share bytes as in the schedule.
    """
    after: Sequence[Array]
    ran: GridOutcome
    meetings: Sequence[ProgramMeeting]
    ordered_atomics: Sequence[ProgramMeeting]
    prepare: Callable[[Sequence[Array]], None]
    """A function that prepares buffers for a run of the launch: it zeroes some of them and fills others with a canary."""

    def compare(self, options: GridOptions) -> list[float]:
        """Runs the launch again with these options. Returns, for each buffer, the relative difference from the first
        run. Raises NotCoveredError if a program waits for another program.
        """
        again = copy_buffers(self.before)
        self.prepare(again)
        self.launch.run(again, options)
        return [compute_difference(x, y, self.ran.used_atomics) for x, y in zip(again, self.after, strict=True)]

    def list_sharing(self, operand: int) -> list[int]:
        """Returns the buffer numbers of the outputs that share bytes with the operand. Buffers are numbered from the
        first operand to the last output.
        """
        outputs = range(self.operands, len(self.before))
        return [o for o in outputs if do_share(self.before[operand], self.before[o])]


def find_grid_races(launched: RepeatableLaunch, *, all_ways: bool) -> GridRaces:
    """Runs the launch in other orders of its programs and returns the differences.

    all_ways: whether to run the launch also with separate bytes for operands and outputs, and in another order even if
    it is unknown whether programs touch the same bytes.
    """
    ran, races = launched.ran, GridRaces()
    if ran.meeting is not None or launched.ordered_atomics or (all_ways and not ran.meetings_known):
        alone = launched.ordered_atomics and launched.launch.programs <= MOST_ALONE
        differences = launched.compare(replace(BACKWARD, batch_bytes=1) if alone else BACKWARD)
        races = replace(_explain(launched, differences), tried=OrderTried.BACKWARD)
        if races.largest <= ROUNDING and not ran.waited and any(not one.other_writes for one in launched.meetings):
            together = _compare_concurrent(launched)
            if max(together, default=0.0) > ROUNDING:
                races = replace(_explain(launched, together), tried=OrderTried.TOGETHER)
        if races.largest <= ROUNDING and not ran.waited and any(one.other_writes for one in launched.meetings):
            crossed = _compare_concurrent(launched, crossed=True)
            if max(crossed, default=0.0) > ROUNDING:
                races = replace(_explain(launched, crossed), tried=OrderTried.CROSSED)
    return _compare_unshared(launched, races) if all_ways else races


def _compare_concurrent(launched: RepeatableLaunch, *, crossed: bool = False) -> list[float]:
    try:
        return launched.compare(make_concurrent_options(launched.meetings, launched.launch.programs, crossed=crossed))
    except NotCoveredError:
        return []  # a program waits for another one


def _explain(launched: RepeatableLaunch, differences: Sequence[float]) -> GridRaces:
    """Attributes the differences of another run to operands that are overwritten in place, or else to the order of the
    programs.
    """
    before, after, meetings = launched.before, launched.after, launched.meetings
    operands = range(launched.operands)
    written = [i for i in operands if launched.list_sharing(i) or not have_same_bits(before[i], after[i])]
    only_atomics_meet = bool(launched.ordered_atomics) and not meetings
    met = [i for i in written if not meetings or any(_is_met(after, i, one) for one in meetings)]
    if only_atomics_meet:
        met = []  # where atomics meet, nothing is overwritten in place
    other_meetings = [one for one in meetings if not any(_is_met(after, i, one) for i in met)]
    own = {i: differences[i] for i in met if differences[i] > ROUNDING}
    largest = max(differences, default=0.0)
    racing = own or dict.fromkeys(met, largest) if largest else {}
    order = 0.0
    if (other_meetings or launched.ordered_atomics) and racing:
        # Either may cause the differences outside of overwritten operands, so both are reported.
        elsewhere = (x for b, x in enumerate(differences) if not any(do_share(after[b], after[i]) for i in met))
        order = max(elsewhere, default=0.0)
    elif not racing:
        order = largest
    examples = (other_meetings or launched.ordered_atomics) if order else meetings
    return GridRaces(racing=racing, order=order, meetings=tuple(examples[:MOST_MEETINGS]) if largest else ())


def copy_unshared(launch: Launch, before: Sequence[Array], operands: int) -> tuple[Array, ...]:
    """Copies the buffers in such a way that no output shares bytes with an operand.

    Bytes that the launcher zeroes in a shared buffer are zeroed in the operand's copy. `Watch.prepare` zeroes them in
    the output's copy. operands: the number of operands, which come first in `before`.
    """
    unshared = (*copy_buffers(before[:operands]), *copy_buffers(before[operands:]))
    for number, size in launch.zeroed:
        for other in range(operands):
            if do_share(before[number], before[other]):
                start = max(0, before[number].ctypes.data - before[other].ctypes.data)
                unshared[other].view(np.uint8)[start : start + size] = 0
    return unshared


def _compare_unshared(launched: RepeatableLaunch, races: GridRaces) -> GridRaces:
    """Runs the launch with operands that share no bytes with outputs; returns `races` with the differences of this run
    added.
    """
    operands = range(launched.operands)
    sharing = {i: launched.list_sharing(i) for i in operands}
    if not any(sharing.values()):
        return races
    unshared = copy_unshared(launched.launch, launched.before, launched.operands)
    before = copy_buffers(unshared[: launched.operands])
    launched.prepare(unshared)
    launched.launch.run(unshared, FORWARD)
    through_operand = {i for i in operands if sharing[i] and not have_same_bits(before[i], unshared[i])}
    outputs = range(launched.operands, len(unshared))
    compared = [o for o in outputs if not any(o in sharing[i] for i in through_operand)]
    atomics = launched.ran.used_atomics
    difference = max((compute_difference(unshared[o], launched.after[o], atomics) for o in compared), default=0.0)
    racing = dict(races.racing)
    for i in operands:
        if difference and sharing[i] and i not in through_operand:
            racing[i] = max(racing.get(i, 0.0), difference)
    tried = OrderTried.APART if difference > max(ROUNDING, races.largest) else races.tried
    return replace(races, racing=racing, tried=tried)


def _is_met(buffers: Sequence[Array], operand: int, meeting: ProgramMeeting) -> bool:
    """Returns whether the bytes at which two programs meet (bytes that one writes and the other touches) may belong to
    this operand.
    """
    return any(do_share(buffers[operand], buffers[one]) for one in (meeting.buffer, meeting.other_buffer))


def compute_difference(one: Array, other: Array, atomics: bool) -> float:
    """Returns ||one - other|| divided by the larger of the norms of `one` and `other`, in f64. Returns 0 if all bits
    agree. Returns 1 if a difference is not finite.

    The norms of integers cover only the elements that differ. Before a launch its outputs are filled with a bit pattern
    that is a large integer (see `Watch.prepare`): the elements that stay unwritten would make the norms so large that a
    real difference seems small. And each difference of integers counts in full, because no rounding explains it.

    atomics: whether the launch used atomic operations; the result is then 0 if another order of atomic additions
    explains the difference.
    """
    differs = one.view(f"u{one.itemsize}") != other.view(f"u{other.itemsize}")
    if not differs.any():
        return 0.0
    x, y = one.astype(np.float64), other.astype(np.float64)
    unshared = np.where(differs, x - y, 0.0)
    if not np.isfinite(unshared).all():
        return 1.0
    counted = differs if one.dtype.kind in "biu" else True
    x, y = (np.where(np.isfinite(values) & counted, values, 0.0) for values in (x, y))
    norm = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    difference = float(np.linalg.norm(unshared)) / norm if norm else 0.0
    return 0.0 if atomics and difference <= ATOMIC_ROUNDING * _get_epsilon(one) else difference


def _get_epsilon(array: Array) -> float:
    if array.dtype.kind in "biu":
        return 0.0
    library: Any = ml_dtypes
    return float(library.finfo(array.dtype).eps)
