"""Adds up the values that are alive at each step of a schedule.

A value is alive from the instruction that defines it to its last use. Arguments, constants and the bytes of outputs are
in use from the beginning to the end, as in XLA's own `peak_memory_in_bytes`. A loop's body, a branch and a called
computation run at their place: a value outside that they need is alive while they run. An element of a loop's state is
alive in each iteration to its last use, and again from the instruction that computes the next one. Values in the same
bytes count once. The sum is at most what XLA reserves, and less where XLA leaves gaps or cannot reuse freed bytes.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.memory.value_uses import ValueUses

_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)
_LAUNCHES_NOTHING = having(Trait.LAUNCHES_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveBytes:
    """The memory in use at each step of a schedule."""

    steps: tuple[HloInstruction, ...]
    """The instructions in the order in which they run; the instructions of a loop's body occur once."""
    sizes: tuple[int, ...]
    """For each step, the bytes in use while it runs."""
    values: Mapping[int, tuple[HloInstruction, ShapeIndex]]
    """Maps the number of a slice to the first value that the slice holds, as (instruction, leaf)."""
    spans: Mapping[int, tuple[tuple[int, int], ...]]
    """Maps the number of a slice of bytes to the spans of steps in which the slice holds a value: in order, each as (first
    step, last step).
    """

    @property
    def peak(self) -> int:
        """Returns the number of the step at which the most bytes are in use; of several, the first."""
        return max(range(len(self.sizes)), key=self.sizes.__getitem__, default=0)

    def list_alive(self, step: int) -> Iterator[int]:
        """Yields the numbers of the slices that hold a value while a step runs. step: an index into `steps`."""
        for number, spans in self.spans.items():
            if any(first <= step <= last for first, last in spans):
                yield number


def compute_live_bytes(uses: ValueUses, *, without: Collection[int] = ()) -> LiveBytes:
    """Returns the memory in use at each step of the schedule. without: numbers of arguments that are not counted."""
    walk = _Walk(uses, {one.id for number, one in enumerate(uses.module.entry.parameters) if number in without})
    walk.run(uses.module.entry)
    return walk.finish()


class _Walk:
    def __init__(self, uses: ValueUses, without: Collection[int]) -> None:
        self._uses = uses
        self._without = without
        """Ids of the parameters that do not count."""
        self._steps: list[HloInstruction] = []
        self._born: dict[tuple[int, ShapeIndex], int] = {}
        self._died: dict[tuple[int, ShapeIndex], int] = {}
        self._seen: set[int] = set()

    def run(self, computation: HloComputation) -> None:
        """Appends the steps of a computation, in its order. A computation that is called twice is appended once."""
        if computation.id in self._seen:
            return
        self._seen.add(computation.id)
        for one in computation.sequence or computation.instructions:
            if one.opcode in _RUNS_SCHEDULED:
                self._run_called(one)
            if one.opcode in _LAUNCHES_NOTHING:
                continue
            self._steps.append(one)
            self._touch(one)
        self._extend(computation.root, self._step)

    def _run_called(self, caller: HloInstruction) -> None:
        for operand in caller.operands:
            self._extend(operand, self._step)
        for number in reversed(caller.called_computations):  # the condition of a loop runs before its body
            called = self._uses.module.computations[number]
            for parameter in called.parameters:
                self._extend(parameter, self._step)
            self.run(called)

    @property
    def _step(self) -> int:
        return max(len(self._steps) - 1, 0)

    def _touch(self, one: HloInstruction) -> None:
        """Records that the operands and the results of an instruction are in use at the last step so far."""
        if one.opcode != "while":  # its body may overwrite the initial state
            for operand in one.operands:
                self._extend(operand, self._step)
        self._extend(one, self._step)

    def _extend(self, value: HloInstruction, step: int) -> None:
        for index in iterate_leaves(value.shape):
            key = self._uses.positions.resolve(value, index)
            self._born.setdefault(key, step)
            self._died[key] = step

    def finish(self) -> LiveBytes:
        buffers, last = self._uses.buffers, max(len(self._steps) - 1, 0)
        by_id = {one.id: one for one in self._uses.module.instructions}
        for one in (*self._uses.module.entry.parameters, *(i for i in by_id.values() if i.opcode == "constant")):
            self._extend(one, 0)
        root = self._uses.module.entry.root
        kept = {*buffers.parameters, *buffers.constants}
        for index in iterate_leaves(root.shape):
            place = self._uses.find_slice(root, index)
            if place is not None:
                kept.add(place.allocation)
        spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        values: dict[int, tuple[HloInstruction, ShapeIndex]] = {}
        for key, born in sorted(self._born.items(), key=lambda item: item[1]):
            instruction, index = by_id[key[0]], key[1]
            number = self._uses.positions.find(instruction, index)
            if number is None or instruction.id in self._without or not buffers.slices[number].size:
                continue
            place = buffers.slices[number]
            values.setdefault(number, (instruction, index))
            spans[number].append((0, last) if place.allocation in kept else (born, self._died[key]))
        merged = {number: _merge(found) for number, found in spans.items()}
        return LiveBytes(steps=tuple(self._steps), sizes=self._add_up(merged, last + 1), values=values, spans=merged)

    def _add_up(self, spans: Mapping[int, tuple[tuple[int, int], ...]], count: int) -> tuple[int, ...]:
        """Returns the bytes in use at each step; a slice that lies within another one in use adds nothing."""
        slices = self._uses.buffers.slices
        changes = [0] * (count + 1)
        by_allocation: defaultdict[int, list[int]] = defaultdict(list)
        for number in spans:
            by_allocation[slices[number].allocation].append(number)
        for numbers in by_allocation.values():
            events = [event for n in numbers for first, last in spans[n] for event in ((first, 1, n), (last + 1, 0, n))]
            used, ranges = (
                _UsedBytes(),
                {n: _Range(slices[n].offset, slices[n].offset + slices[n].size) for n in numbers},
            )
            for step, is_start, number in sorted(events):
                changes[step] += used.add(ranges[number]) if is_start else used.remove(ranges[number])
        return tuple(accumulate(changes[:count]))


class _Range:
    """A range of bytes in use, with the ranges in use that lie within it."""

    __slots__ = ("end", "inner", "offset", "outer")

    def __init__(self, offset: int, end: int) -> None:
        self.offset = offset
        self.end = end
        self.outer: _Range | None = None
        self.inner: set[_Range] = set()


class _UsedBytes:
    """The ranges of one allocation that are in use. The ranges that no other range covers are kept sorted by offset,
    and do not overlap.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._ranges: list[_Range] = []

    def add(self, new: _Range) -> int:
        """Adds a range, and returns the number of bytes by which the memory in use grows."""
        place = bisect_left(self._offsets, new.offset)
        for number in (place, place - 1):
            if 0 <= number < len(self._ranges) and self._covers(self._ranges[number], new):
                new.outer = self._ranges[number]
                new.outer.inner.add(new)
                return 0
        end = bisect_left(self._offsets, new.end, place)
        covered = self._ranges[place:end]
        for one in covered:
            one.outer = new
            new.inner.add(one)
        self._offsets[place:end], self._ranges[place:end] = [new.offset], [new]
        return new.end - new.offset - sum(one.end - one.offset for one in covered)

    def remove(self, old: _Range) -> int:
        """Removes a range, and returns the change of the memory in use, in bytes. It is 0 or negative."""
        inner, outer = list(old.inner), old.outer
        old.inner.clear()
        old.outer = None
        if outer is not None:
            outer.inner.discard(old)
            for one in inner:
                one.outer = outer
                outer.inner.add(one)
            return 0
        place = bisect_left(self._offsets, old.offset)
        del self._offsets[place], self._ranges[place]
        for one in inner:
            one.outer = None
        return old.offset - old.end + sum(self.add(one) for one in inner)

    @staticmethod
    def _covers(one: _Range, new: _Range) -> bool:
        """Returns whether the range `one` covers the beginning of the range `new`; `new` then counts as part of `one`."""
        return (one.offset < new.offset < one.end) or (one.offset == new.offset and one.end >= new.end)


def _merge(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Returns the spans in ascending order; merges spans that overlap or touch."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)
