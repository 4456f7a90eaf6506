"""Finds programs of a launch that touch each other's bytes.

A *run* is a range of consecutive bytes that one program accessed. The range is given by addresses in this process, not
by argument and offset, because arguments may share memory. Programs *meet* where one writes a byte that another one
reads or writes. Two atomic accesses do not meet; an atomic and a plain one do. If all programs of a batch read the same
bytes, only the first and the last program are recorded. A program that writes these bytes then still meets at least one
of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ligerdiag.effects.ttir_module import Operation
from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.triton_ir.access_windows import Window
from ligerdiag.replay.triton_ir.launch_memory import Buffer, LoggedAccess
from ligerdiag.replay.triton_ir.outcome import Meeting

MOST_RUNS = 1 << 22
"""The most runs of accessed bytes that one launch may have; with more, it is unknown whether programs of different
batches touch each other's bytes.
"""
MOST_EXAMPLES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Ranges of consecutive bytes, each with the program and the operation that accessed it. Run k is bytes start[k] to
    stop[k] (exclusive), accessed by operation site[k] of program[k].

    All four arrays are i64[runs]; a site is a number in `Sites`.
    """

    start: Array
    stop: Array
    program: Array
    site: Array

    def __len__(self) -> int:
        return self.start.size

    def pick(self, chosen: Array) -> "Runs":
        """Returns the runs at these positions. chosen: i64[n], positions in `start`, `stop`, `program` and `site`."""
        return Runs(
            start=self.start[chosen], stop=self.stop[chosen], program=self.program[chosen], site=self.site[chosen]
        )


def concatenate(parts: Sequence[Runs]) -> Runs:
    """Joins several sets of runs to one set."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Runs(start=none, stop=none, program=none, site=none)
    return Runs(
        start=np.concatenate([part.start for part in parts]),
        stop=np.concatenate([part.stop for part in parts]),
        program=np.concatenate([part.program for part in parts]),
        site=np.concatenate([part.site for part in parts]),
    )


def make_runs(access: LoggedAccess, site: int, buffer: Buffer, programs: Array) -> Runs:
    """Returns the runs of bytes of one logged access.

    site: number of the access's operation in `Sites`. programs: the number, in the grid, of each program of the batch.
    """
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
    runs = Runs(start=start, stop=start + length, program=programs[owners], site=np.full(start.size, site))
    return merge(runs)


def _expand(window: Window, width: int) -> tuple[Array, int]:
    """Returns the starts of a window's runs (ranges of consecutive bytes), [programs, runs], and the length of each run
    in bytes. width: bytes of an element.
    """
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


def merge(runs: Runs, *, by_site: bool = True) -> Runs:
    """Joins overlapping runs of the same program, and returns the joined runs. They cover the same bytes.

    by_site: whether to join only runs of the same operation.
    """
    if len(runs) < 2:
        return runs
    order = np.lexsort((runs.start, runs.site, runs.program) if by_site else (runs.start, runs.program))
    runs = runs.pick(order)
    same = runs.program[1:] == runs.program[:-1]
    if by_site:
        same &= runs.site[1:] == runs.site[:-1]
    reach = _accumulate_stops(runs, np.cumsum(np.r_[0, ~same]))
    first = np.flatnonzero(np.r_[True, ~same | (runs.start[1:] > reach[:-1])])
    last = np.r_[first[1:], len(runs)] - 1
    return Runs(start=runs.start[first], stop=reach[last], program=runs.program[first], site=runs.site[first])


def _accumulate_stops(runs: Runs, group: Array) -> Array:
    """Returns, for each run, the largest `stop` among this run and the earlier runs of its group. group: for each run,
    the number of its group, counted up from 0.
    """
    low = int(runs.start.min())
    span = int(runs.stop.max()) - low + 1
    if span < (1 << 62) // (int(group[-1]) + 1):
        return np.maximum.accumulate(runs.stop - low + group * span) - group * span + low
    stops = runs.stop.copy()
    for place in range(1, stops.size):
        if group[place] == group[place - 1]:
            stops[place] = max(stops[place], stops[place - 1])
    return stops


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """The runs of bytes that a group of programs read, wrote, or accessed with atomic operations (see `Runs`)."""

    reads: Runs
    writes: Runs
    atomics: Runs


type Site = tuple[str, int, Operation]
"""An operation that accessed memory: (kind of the access, number of the argument, operation)."""


class Sites:
    """Numbers the operations that accessed memory. The number of an operation is its index in the list `all`."""

    def __init__(self) -> None:
        self.all: list[Site] = []
        self._numbers: dict[tuple[str, int, int], int] = {}

    def find(self, access: LoggedAccess) -> int:
        """Returns the number of the operation that made an access."""
        key = (access.kind, access.argument, id(access.operation))
        if key not in self._numbers:
            self._numbers[key] = len(self.all)
            self.all.append((access.kind, access.argument, access.operation))
        return self._numbers[key]


def make_traffic(
    accesses: Sequence[LoggedAccess], sites: Sites, buffers: Sequence[Buffer | None], programs: Array
) -> Traffic:
    """Returns the runs of bytes that a batch accessed.

    programs: the number, in the grid, of each program of the batch.
    """
    parts: dict[str, list[Runs]] = {"load": [], "store": [], "atomic": []}
    for access in accesses:
        buffer = buffers[access.argument]
        assert buffer is not None
        parts[access.kind].append(make_runs(access, sites.find(access), buffer, programs))
    reads, writes, atomics = (merge(concatenate(parts[kind])) for kind in ("load", "store", "atomic"))
    return Traffic(reads=reads, writes=writes, atomics=atomics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Bytes that one program writes and another program accesses: addresses `start` to `stop` (exclusive) in this
    process.

    writer, other: the programs' numbers in the grid.
    """

    start: int
    stop: int
    writer: int
    other: int
    writes: Runs
    others: Runs
    """Runs among which are all accesses of the program `other` to these bytes. Among the runs in `writes` are all
    accesses of the program `writer` to them. The sites of the runs show which operations accessed the bytes.
    """


def find_meetings(traffic: Traffic) -> list[Overlap]:
    """Returns examples of bytes that one program writes and another program accesses. The list is empty only if there
    are no such bytes.
    """
    writes, atomics = (
        runs.pick(np.argsort(runs.start, kind="stable"))
        for runs in (merge(runs, by_site=False) for runs in (traffic.writes, traffic.atomics))
    )
    found = _meet_within(writes, traffic.writes)
    for writers, by_site, others in (
        (writes, traffic.writes, traffic.atomics),
        (writes, traffic.writes, traffic.reads),
        (atomics, traffic.atomics, traffic.reads),
    ):
        found += _meet(writers, by_site, others)
    return found


def find_meetings_by_place(traffic: Traffic, buffers: Sequence[Buffer | None]) -> list[Overlap]:
    """Returns examples, for each buffer, of bytes that one program of the grid writes and another program accesses.
    Buffers that overlap count as one buffer.
    """
    parts: list[list[int]] = []
    for buffer in sorted((one for one in buffers if one is not None), key=lambda one: one.address):
        stop = buffer.address + buffer.data.size
        if parts and buffer.address < parts[-1][1]:
            parts[-1][1] = max(parts[-1][1], stop)
        else:
            parts.append([buffer.address, stop])
    return [
        one
        for start, stop in parts
        for one in find_meetings(
            Traffic(
                reads=_pick_within(traffic.reads, start, stop),
                writes=_pick_within(traffic.writes, start, stop),
                atomics=_pick_within(traffic.atomics, start, stop),
            )
        )
    ]


def find_ordered_atomics(traffic: Traffic, sites: Sites, ordered: frozenset[int]) -> list[Overlap]:
    """Returns up to `MOST_EXAMPLES` overlaps of two programs' atomic operations. At least one of the two operations is
    in `ordered`, a set of `id()`s.
    """
    is_ordered = np.array([id(op) in ordered for _, _, op in sites.all])
    chosen = traffic.atomics.pick(np.flatnonzero(is_ordered[traffic.atomics.site])) if len(traffic.atomics) else None
    if chosen is None or not len(chosen):
        return []
    writers = merge(chosen, by_site=False)
    return _meet(writers.pick(np.argsort(writers.start, kind="stable")), chosen, traffic.atomics)


def _pick_within(runs: Runs, start: int, stop: int) -> Runs:
    return runs.pick(np.flatnonzero((runs.start < stop) & (runs.stop > start)))


def _meet_within(runs: Runs, by_site: Runs) -> list[Overlap]:
    """Returns up to `MOST_EXAMPLES` overlaps of runs of different programs.

    runs: sorted by start, disjoint within each program. by_site: the same bytes, with a separate run for each
    operation.
    """
    if len(runs) < 2:
        return []
    reach = np.maximum.accumulate(runs.stop)
    late = np.flatnonzero(runs.start[1:] < reach[:-1]) + 1
    found: list[Overlap] = []
    for place in late[:MOST_EXAMPLES]:
        before = int(np.flatnonzero(runs.stop[:place] > runs.start[place])[-1])
        found.append(_describe((runs, before), (runs, int(place)), by_site, by_site))
    return found


def _meet(writers: Runs, by_site: Runs, others: Runs) -> list[Overlap]:
    """Returns up to `MOST_EXAMPLES` overlaps of a run in `writers` and a run of another program in `others`.

    writers: sorted by start, disjoint within each program. by_site: the same bytes, with a separate run for each
    operation. If all writers are disjoint, those that overlap a given run lie next to each other, so two binary
    searches find the first and the last of them.
    """
    if not len(writers) or not len(others):
        return []
    low = np.searchsorted(np.maximum.accumulate(writers.stop), others.start, "right")
    high = np.searchsorted(writers.start, others.stop, "left")
    touched = np.flatnonzero(low < high)
    changes = np.cumsum(np.r_[0, writers.program[1:] != writers.program[:-1]])
    first, last = low[touched], high[touched] - 1
    differs = (writers.program[first] != others.program[touched]) | (changes[last] != changes[first])
    found: list[Overlap] = []
    for place in np.flatnonzero(differs):
        other = int(touched[place])
        span = slice(int(first[place]), int(last[place]) + 1)
        overlaps = (writers.stop[span] > others.start[other]) & (writers.program[span] != others.program[other])
        if overlaps.any():
            writer = span.start + int(overlaps.argmax())
            found.append(_describe((writers, writer), (others, other), by_site, others))
        if len(found) >= MOST_EXAMPLES:
            break
    return found


def _describe(one: tuple[Runs, int], two: tuple[Runs, int], writes: Runs, accesses: Runs) -> Overlap:
    (writers, writer), (others, other) = one, two
    return Overlap(
        start=max(int(writers.start[writer]), int(others.start[other])),
        stop=min(int(writers.stop[writer]), int(others.stop[other])),
        writer=int(writers.program[writer]),
        other=int(others.program[other]),
        writes=writes,
        others=accesses,
    )


def describe_meeting(overlap: Overlap, sites: Sites, buffers: Sequence[Buffer | None]) -> Meeting:
    """Returns the arguments, programs and source lines of an overlap between two programs' accesses."""
    write = sites.all[_find_site(overlap.writes, overlap.writer, overlap)]
    other = sites.all[_find_site(overlap.others, overlap.other, overlap)]
    buffer = buffers[write[1]]
    return Meeting(
        argument=write[1],
        other_argument=other[1],
        writer=overlap.writer,
        other=overlap.other,
        other_writes=other[0] != "load",
        first_byte=overlap.start - (buffer.address if buffer is not None else 0),
        bytes=overlap.stop - overlap.start,
        place=write[2].place,
        other_place=other[2].place,
    )


def _find_site(runs: Runs, program: int, overlap: Overlap) -> int:
    found = (runs.program == program) & (runs.start < overlap.stop) & (runs.stop > overlap.start)
    return int(runs.site[int(found.argmax())])


def add_traffic(parts: Sequence[Traffic]) -> Traffic:
    """Joins several records of traffic to one. Each program may be in one of them only."""
    return Traffic(
        reads=concatenate([part.reads for part in parts]),
        writes=concatenate([part.writes for part in parts]),
        atomics=concatenate([part.atomics for part in parts]),
    )
