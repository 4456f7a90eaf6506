"""Represents the bytes of a buffer that each program of a launch uses, as runs (ranges of consecutive bytes).

A *program* is one instance of the kernel. The runs of all programs form a set; this module has the operations on such sets.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ligerdiag.effects.launches.index_values import (
    Budget,
    Dense,
    IndexArray,
    Linear,
    Mask,
    MaskBox,
    Unknown,
    make_dense,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByteRuns:
    """A set of runs, ranges of consecutive bytes of one buffer. Run k has the bytes from start[k] to stop[k], exclusive, and
    belongs to program number program[k].

    All three arrays have the shape [runs].
    """

    program: IndexArray
    start: IndexArray
    stop: IndexArray

    def __len__(self) -> int:
        return self.start.size

    def clip(self, low: int, high: int) -> "ByteRuns":
        """Returns the parts of the runs between byte `low` and byte `high`, exclusive."""
        start, stop = np.maximum(self.start, low), np.minimum(self.stop, high)
        kept = start < stop
        return ByteRuns(program=self.program[kept], start=start[kept], stop=stop[kept])


def make_empty() -> ByteRuns:
    """Returns a set without any byte."""
    none = np.zeros(0, np.int64)
    return ByteRuns(program=none, start=none, stop=none)


def concatenate(parts: list[ByteRuns]) -> ByteRuns:
    """Returns one set with the runs of all sets in `parts`. Its runs may overlap."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return make_empty()
    return ByteRuns(
        program=np.concatenate([part.program for part in parts]),
        start=np.concatenate([part.start for part in parts]),
        stop=np.concatenate([part.stop for part in parts]),
    )


def make_runs(
    offset: Linear | Dense, width: int, mask: MaskBox | Dense | Unknown | None, active: Mask, budget: Budget
) -> ByteRuns:
    """Returns the bytes that a masked access may use. These are the elements for which the mask is true, or all if it is
    None or Unknown.

    offset: the elements' offsets in the buffer. width: bytes of an element. active: bool[programs], the programs that
    execute the access.
    """
    programs = np.flatnonzero(active).astype(np.int64)
    if not programs.size:
        return make_empty()
    if isinstance(offset, Linear) and not isinstance(mask, Dense):
        box = mask if isinstance(mask, MaskBox) else None
        if box is None or box.shape == offset.shape:
            return _make_linear_runs(offset, width, box, programs, budget)
    return _make_dense_runs(offset, width, None if isinstance(mask, Unknown) else mask, programs, budget)


def _take[T: np.generic](array: npt.NDArray[T], programs: IndexArray) -> npt.NDArray[T]:
    return array[programs] if array.shape[0] > 1 else array


def _make_linear_runs(
    offset: Linear, width: int, mask: MaskBox | None, programs: IndexArray, budget: Budget
) -> ByteRuns:
    rank = len(offset.shape)
    intervals = mask.intervals if mask is not None else (None,) * rank
    valid: Mask = _take(mask.gate, programs) if mask is not None else np.ones(1, bool)
    bounds = [
        (np.zeros(1, np.int64), np.full(1, size, np.int64))
        if interval is None
        else (_take(np.maximum(interval[0], 0), programs), _take(np.minimum(interval[1], size), programs))
        for interval, size in zip(intervals, offset.shape, strict=True)
    ]
    for low, high in bounds:
        valid = valid & (low < high)
    consecutive = [axis for axis, step in enumerate(offset.steps) if step is not None and bool((step == width).all())]
    along = max(consecutive, key=lambda axis: offset.shape[axis], default=-1)
    moving = [axis for axis, step in enumerate(offset.steps) if step is not None and axis != along]
    count = programs.size * int(np.prod([offset.shape[axis] for axis in moving], dtype=np.int64))
    budget.spend(3 * count)
    ones = (1,) * len(moving)
    start = _take(offset.base, programs).reshape(-1, *ones)
    valid = valid.reshape(-1, *ones)
    length = np.full((1, *ones), width, np.int64)
    if along >= 0:
        low, high = bounds[along]
        start = start + (low * width).reshape(-1, *ones)
        length = ((high - low) * width).reshape(-1, *ones)
    for place, axis in enumerate(moving):
        sizes = [1] * (len(moving) + 1)
        sizes[place + 1] = offset.shape[axis]
        coordinates = np.arange(offset.shape[axis], dtype=np.int64).reshape(sizes)
        step = offset.steps[axis]
        assert step is not None
        start = start + _take(step, programs).reshape(-1, *ones) * coordinates
        low, high = bounds[axis]
        valid = valid & (coordinates >= low.reshape(-1, *ones)) & (coordinates < high.reshape(-1, *ones))
    shape = (programs.size, *(offset.shape[axis] for axis in moving))
    kept = np.broadcast_to(valid, shape)
    starts = np.broadcast_to(start, shape)[kept]
    lengths = np.broadcast_to(length, shape)[kept]
    owners = np.broadcast_to(programs.reshape(-1, *ones), shape)[kept]
    return _join_consecutive(ByteRuns(program=owners, start=starts, stop=starts + lengths))


def _make_dense_runs(
    offset: Linear | Dense, width: int, mask: MaskBox | Dense | None, programs: IndexArray, budget: Budget
) -> ByteRuns:
    shape = (programs.size, *offset.shape)
    budget.spend(3 * int(np.prod(shape, dtype=np.int64)))
    starts = np.broadcast_to(_take(make_dense(offset, budget).data, programs), shape)
    owners = np.broadcast_to(programs.reshape(-1, *(1,) * len(offset.shape)), shape)
    if mask is None:
        start, owner = starts.reshape(-1), owners.reshape(-1)
    else:
        truth = _take(make_dense(mask, budget).data, programs)
        if not mask.shape:
            truth = truth.reshape(-1, *(1,) * len(offset.shape))
        kept = np.broadcast_to(truth, shape).astype(bool)
        start, owner = starts[kept], owners[kept]
    start = start.astype(np.int64)
    return _join_consecutive(ByteRuns(program=owner, start=start, stop=start + width))


def _join_consecutive(runs: ByteRuns) -> ByteRuns:
    """Returns the same bytes in fewer runs: merges a run that begins where the previous one ends with that one."""
    if len(runs) < 2:
        return runs
    first = np.ones(len(runs), bool)
    first[1:] = (runs.start[1:] != runs.stop[:-1]) | (runs.program[1:] != runs.program[:-1])
    heads = np.flatnonzero(first)
    tails = np.append(heads[1:], len(runs)) - 1
    return ByteRuns(program=runs.program[heads], start=runs.start[heads], stop=runs.stop[tails])


def merge(runs: ByteRuns, budget: Budget, *, by_program: bool = True) -> ByteRuns:
    """Joins runs that touch or overlap, and sorts the runs. The bytes stay the same.

    by_program: whether to join only runs of one program. If False, the runs of all programs become runs of program 0.
    """
    if not len(runs):
        return runs
    budget.spend(4 * len(runs))
    program = runs.program if by_program else np.zeros_like(runs.program)
    order = np.lexsort((runs.start, program))
    program, start, stop = program[order], runs.start[order], runs.stop[order]
    # A program's stops are lifted above those of the programs before it, so that one running maximum serves all.
    lift = int(stop.max()) - int(start.min()) + 1
    rank = np.cumsum(np.append(0, program[1:] != program[:-1])) * lift
    reach = np.maximum.accumulate(stop + rank)
    first = np.append(True, start[1:] + rank[1:] > reach[:-1])
    heads = np.flatnonzero(first)
    tails = np.append(heads[1:], len(start)) - 1
    return ByteRuns(program=program[heads], start=start[heads], stop=reach[tails] - rank[tails])


def covers(merged: ByteRuns, size: int) -> bool:
    """Returns whether the runs have all bytes from 0 to `size`, exclusive.

    merged: the runs of all programs, merged with `by_program=False`; no run ends after byte `size`.
    """
    return size == 0 or (len(merged) == 1 and int(merged.start[0]) <= 0 and int(merged.stop[0]) >= size)


def _find_owners(runs: ByteRuns, merged: ByteRuns) -> Mask:
    """Returns, for each run, whether a single run of the same program in `merged` contains it.

    merged: runs merged for each program separately.
    """
    if not len(merged):
        return np.zeros(len(runs), bool)
    low = min(int(runs.start.min()), int(merged.start.min()))
    lift = max(int(runs.stop.max()), int(merged.stop.max())) - low + 1
    keys = merged.program * lift + (merged.start - low)
    place = np.searchsorted(keys, runs.program * lift + (runs.start - low), side="right") - 1
    inside = np.maximum(place, 0)
    return (place >= 0) & (merged.program[inside] == runs.program) & (merged.stop[inside] >= runs.stop)


def contains(merged: ByteRuns, runs: ByteRuns) -> bool:
    """Returns whether `merged` has every byte of `runs`, program by program. merged: a result of `merge` with
    `by_program`.
    """
    return not len(runs) or bool(_find_owners(runs, merged).all())


def intersect(one: ByteRuns, other: ByteRuns, budget: Budget) -> ByteRuns:
    """Returns, for each program, the bytes that are in both sets. Both sets must be results of `merge` with `by_program`."""
    if not len(one) or not len(other):
        return make_empty()
    return _select(one, other, 3, budget)


def subtract(one: ByteRuns, other: ByteRuns, budget: Budget) -> ByteRuns:
    """Returns, for each program, the bytes of `one` that are not in `other`. Both sets must be results of `merge` with
    `by_program`.
    """
    if not len(one) or not len(other):
        return one
    return _select(one, other, 1, budget)


def _select(one: ByteRuns, other: ByteRuns, wanted: int, budget: Budget) -> ByteRuns:
    """Returns, for each program, the bytes that `wanted` selects: 1 those in `one` only, 2 those in `other` only, 3
    those in both.

    Both sets must be merged, each program separately.
    """
    budget.spend(8 * (len(one) + len(other)))
    low = min(int(one.start.min()), int(other.start.min()))
    lift = max(int(one.stop.max()), int(other.stop.max())) - low + 1
    edges = [
        (runs.program * lift + (bound - low), np.full(len(runs), change, np.int64))
        for runs, weight in ((one, 1), (other, 2))
        for bound, change in ((runs.start, weight), (runs.stop, -weight))
    ]
    keys = np.concatenate([key for key, _ in edges])
    changes = np.concatenate([change for _, change in edges])
    order = np.argsort(keys, kind="stable")
    keys, sums = keys[order], np.cumsum(changes[order])
    begins = np.flatnonzero(sums[:-1] == wanted)
    begins = begins[keys[begins] < keys[begins + 1]]
    start, stop = keys[begins], keys[begins + 1]
    return ByteRuns(program=start // lift, start=start % lift + low, stop=stop - start // lift * lift + low)


def reaches_others(reads: ByteRuns, writes: ByteRuns, budget: Budget) -> bool:
    """Returns whether any program reads a byte that a different program writes."""
    reads, writes = merge(reads, budget), merge(writes, budget)
    if not len(reads) or not len(writes):
        return False
    budget.spend(8 * (len(reads) + len(writes)))

    def count_before(places: IndexArray) -> IndexArray:
        """Returns the number of written bytes before each place. A place is an offset in the buffer. A byte counts once for
        each program that writes it.
        """
        total = np.zeros(places.size, np.int64)
        for bounds, sign in ((np.sort(writes.start), 1), (np.sort(writes.stop), -1)):
            sums = np.append(0, np.cumsum(bounds))
            number = np.searchsorted(bounds, places, side="left")
            total += sign * (number * places - sums[number])
        return total

    met = int((count_before(reads.stop) - count_before(reads.start)).sum())
    own = intersect(reads, writes, budget)
    return met > int((own.stop - own.start).sum())


def is_disjoint(writes: ByteRuns, reads: ByteRuns, budget: Budget) -> bool:
    """Returns whether no program reads or writes a byte that a different program writes."""
    writes = merge(writes, budget)
    if not len(writes):
        return True
    order = np.argsort(writes.start, kind="stable")
    program, start, stop = writes.program[order], writes.start[order], writes.stop[order]
    if (start[1:] < np.maximum.accumulate(stop)[:-1]).any():
        return False
    if not len(reads):
        return True
    budget.spend(4 * len(reads))
    first = np.searchsorted(stop, reads.start, side="right")
    last = np.searchsorted(start, reads.stop, side="left") - 1
    touched = first <= last
    first, last = first[touched], last[touched]
    group = np.cumsum(np.append(0, program[1:] != program[:-1]))
    return bool(((group[first] == group[last]) & (program[first] == reads.program[touched])).all())
