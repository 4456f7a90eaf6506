"""Do programs touch each other's bytes?

1. A run is consecutive bytes that one program accessed, at their place in this process, whatever the argument: arguments may
   share memory.
2. Programs meet where one writes a byte that another one reads or writes. Two atomic accesses do not meet; an atomic one and
   another do.
3. Of a read that is the same for all programs of a batch, only the first and the last program are noted: if the writer is one
   of them, the other meets it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ligerdiag.replay.interpreter.scope import Array
from ligerdiag.replay.triton_ir.memory import Access, Buffer
from ligerdiag.replay.triton_ir.outcome import Meeting
from ligerdiag.replay.triton_ir.windows import Window

MOST_RUNS = 1 << 23
"""Of a launch; beyond, meetings across batches are not known."""
MOST_EXAMPLES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Run k: bytes start[k] to stop[k] (excluded) of program[k], by access[k]. All i64[runs]."""

    start: Array
    stop: Array
    program: Array
    access: Array

    def __len__(self) -> int:
        return self.start.size

    def pick(self, chosen: Array) -> "Runs":
        """Returns these runs."""
        return Runs(
            start=self.start[chosen], stop=self.stop[chosen], program=self.program[chosen], access=self.access[chosen]
        )


def concatenate(parts: Sequence[Runs]) -> Runs:
    """Returns all runs."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Runs(start=none, stop=none, program=none, access=none)
    return Runs(
        start=np.concatenate([part.start for part in parts]),
        stop=np.concatenate([part.stop for part in parts]),
        program=np.concatenate([part.program for part in parts]),
        access=np.concatenate([part.access for part in parts]),
    )


def make_runs(access: Access, number: int, buffer: Buffer, programs: Array) -> Runs:
    """Returns the runs of one access; programs: numbers in the grid, of the batch's."""
    if access.window is None:
        start, length = access.offsets, access.width
        owners = access.programs
    else:
        start, length = _expand(access.window, access.width)
        rows = access.programs
        start = np.broadcast_to(start, (rows.size, start.shape[1]))
        owners = np.broadcast_to(rows[:, np.newaxis], start.shape).reshape(-1)
        start = start.reshape(-1)
    start = start + buffer.address
    runs = Runs(start=start, stop=start + length, program=programs[owners], access=np.full(start.size, number))
    return merge(runs)


def _expand(window: Window, width: int) -> tuple[Array, int]:
    """Returns the starts of runs, [programs, runs], and their length."""
    start, length = window.starts[:, np.newaxis], width
    axes = sorted(
        (abs(step), step, count) for step, count in zip(window.steps, window.counts, strict=True) if count > 1 and step
    )
    for distance, step, count in axes:
        if step < 0:
            start = start + step * (count - 1)
        if distance <= length:
            length = distance * (count - 1) + length
        else:
            start = (start[:, :, np.newaxis] + distance * np.arange(count)).reshape(start.shape[0], -1)
    return start, length


def merge(runs: Runs) -> Runs:
    """Returns runs that do not overlap within a program."""
    if len(runs) < 2:
        return runs
    order = np.lexsort((runs.start, runs.program))
    runs = runs.pick(order)
    new = np.ones(len(runs), bool)
    # No run of one program reaches into the next program's: their starts are told apart by the program itself.
    same = runs.program[1:] == runs.program[:-1]
    reach = _accumulate_stops(runs)
    new[1:] = ~same | (runs.start[1:] > reach[:-1])
    first = np.flatnonzero(new)
    last = np.r_[first[1:], len(runs)] - 1
    return Runs(start=runs.start[first], stop=reach[last], program=runs.program[first], access=runs.access[first])


def _accumulate_stops(runs: Runs) -> Array:
    """The furthest stop so far, within each program; runs are in order of program and start."""
    program = np.cumsum(np.r_[0, runs.program[1:] != runs.program[:-1]])
    low = int(runs.start.min())
    span = int(runs.stop.max()) - low + 1
    if span < (1 << 62) // (int(program[-1]) + 1):
        return np.maximum.accumulate(runs.stop - low + program * span) - program * span + low
    stops = runs.stop.copy()
    for place in range(1, stops.size):
        if program[place] == program[place - 1]:
            stops[place] = max(stops[place], stops[place - 1])
    return stops


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """Runs of some programs, by what they are."""

    reads: Runs
    writes: Runs
    atomics: Runs


def make_traffic(
    accesses: Sequence[Access], first: int, buffers: Sequence[Buffer | None], programs: Array
) -> Traffic:
    """Returns the runs of a batch's accesses, which have the numbers from `first` on."""
    parts: dict[str, list[Runs]] = {"load": [], "store": [], "atomic": []}
    for number, access in enumerate(accesses, first):
        buffer = buffers[access.argument]
        assert buffer is not None
        parts[access.kind].append(make_runs(access, number, buffer, programs))
    reads, writes, atomics = (merge(concatenate(parts[kind])) for kind in ("load", "store", "atomic"))
    return Traffic(reads=reads, writes=writes, atomics=atomics)


def find_meetings(traffic: Traffic) -> list[tuple[int, int, int, int, int, int]]:
    """Returns some meetings: the access that writes, the other, their programs, and the first and the last byte but one."""
    found: list[tuple[int, int, int, int, int, int]] = []
    writes = _sort(traffic.writes)
    found += _meet_within(writes)
    atomics = _sort(traffic.atomics)
    for writers, others in ((writes, traffic.atomics), (writes, traffic.reads), (atomics, traffic.reads)):
        found += _meet(writers, others)
    return found


def _sort(runs: Runs) -> Runs:
    return runs.pick(np.argsort(runs.start, kind="stable"))


def _meet_within(runs: Runs) -> list[tuple[int, int, int, int, int, int]]:
    if len(runs) < 2:
        return []
    reach = np.maximum.accumulate(runs.stop)
    late = np.flatnonzero(runs.start[1:] < reach[:-1]) + 1
    found: list[tuple[int, int, int, int, int, int]] = []
    for place in late[:MOST_EXAMPLES]:
        before = np.flatnonzero(runs.stop[:place] > runs.start[place])
        found.append(_describe(runs, int(before[-1]), runs, int(place)))
    return found


def _meet(writers: Runs, others: Runs) -> list[tuple[int, int, int, int, int, int]]:
    """writers: by start; several may overlap only where that is a meeting of its own, or where they are atomic."""
    if not len(writers) or not len(others):
        return []
    reach = np.maximum.accumulate(writers.stop)
    low = np.searchsorted(reach, others.start, "right")
    high = np.searchsorted(writers.start, others.stop, "left")
    touched = np.flatnonzero(low < high)
    if not touched.size:
        return []
    changes = np.cumsum(np.r_[0, writers.program[1:] != writers.program[:-1]])
    first, last = low[touched], high[touched] - 1
    differs = (writers.program[first] != others.program[touched]) | (changes[last] != changes[first])
    found: list[tuple[int, int, int, int, int, int]] = []
    for place in np.flatnonzero(differs)[: 4 * MOST_EXAMPLES]:
        other = int(touched[place])
        for writer in range(int(first[place]), int(last[place]) + 1):
            overlaps = writers.start[writer] < others.stop[other] and others.start[other] < writers.stop[writer]
            if overlaps and writers.program[writer] != others.program[other]:
                found.append(_describe(writers, writer, others, other))
                break
        if len(found) >= MOST_EXAMPLES:
            break
    return found


def _describe(writers: Runs, writer: int, others: Runs, other: int) -> tuple[int, int, int, int, int, int]:
    return (
        int(writers.access[writer]),
        int(others.access[other]),
        int(writers.program[writer]),
        int(others.program[other]),
        max(int(writers.start[writer]), int(others.start[other])),
        min(int(writers.stop[writer]), int(others.stop[other])),
    )


def describe_meeting(
    meeting: tuple[int, int, int, int, int, int], accesses: Sequence[Access], buffers: Sequence[Buffer | None]
) -> Meeting:
    """Returns what is said of a meeting."""
    one, two, writer, other, start, stop = meeting
    write, touch = accesses[one], accesses[two]
    buffer = buffers[write.argument]
    return Meeting(
        argument=write.argument,
        other_argument=touch.argument,
        writer=writer,
        other=other,
        other_writes=touch.kind != "load",
        first_byte=start - (buffer.address if buffer is not None else 0),
        bytes=stop - start,
        has_atomics="atomic" in (write.kind, touch.kind),
        place=write.operation.place,
        other_place=touch.operation.place,
    )


def add_traffic(one: Traffic, two: Traffic) -> Traffic:
    """Returns both; their programs are different ones."""
    return Traffic(
        reads=concatenate((one.reads, two.reads)),
        writes=concatenate((one.writes, two.writes)),
        atomics=concatenate((one.atomics, two.atomics)),
    )
