"""Adds up the values that are alive at each step of a schedule.

A value is alive from the instruction that defines it to its last use. Arguments, constants and the bytes of outputs are
in use from the beginning to the end, as in XLA's own `peak_memory_in_bytes`. A loop's body, a branch and a called
computation run at their place: a value outside that they need is alive while they run. Values in the same bytes count
once. The sum is at most what XLA reserves, and less where XLA leaves gaps or cannot reuse freed bytes. An element of a
loop's state counts from the first to the last iteration: XLA may use its bytes for something else within an iteration,
between the last use of the old value and the next one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.memory.value_uses import ValueUses

_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)
_LAUNCHES_NOTHING = having(Trait.LAUNCHES_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveBytes:
    """The memory in use over a schedule."""

    steps: tuple[HloInstruction, ...]
    """Instructions in the order in which they run, those of a loop's body once."""
    sizes: tuple[int, ...]
    """Bytes in use while each of them runs."""
    values: Mapping[int, tuple[HloInstruction, ShapeIndex]]
    """Slice number to the first value in it."""
    spans: Mapping[int, tuple[tuple[int, int], ...]]
    """Slice number to the spans (first step, last step) in which it holds a value, ordered."""

    @property
    def peak(self) -> int:
        """The number of the first step with the most bytes in use."""
        return max(range(len(self.sizes)), key=self.sizes.__getitem__, default=0)

    def list_alive(self, step: int) -> Iterator[int]:
        """Yields the numbers of the slices that hold a value while this step runs."""
        for number, spans in self.spans.items():
            if any(first <= step <= last for first, last in spans):
                yield number


def compute_live_bytes(uses: ValueUses) -> LiveBytes:
    """Returns the memory in use over the schedule."""
    walk = _Walk(uses)
    walk.run(uses.module.entry)
    return walk.finish()


class _Walk:
    def __init__(self, uses: ValueUses) -> None:
        self._uses = uses
        self._steps: list[HloInstruction] = []
        self._born: dict[tuple[int, ShapeIndex], int] = {}
        self._died: dict[tuple[int, ShapeIndex], int] = {}
        self._seen: set[int] = set()

    def run(self, computation: HloComputation) -> None:
        """Appends the steps of a computation, once."""
        if computation.id in self._seen:
            return
        self._seen.add(computation.id)
        for one in computation.sequence or computation.instructions:
            if one.opcode in _RUNS_SCHEDULED:
                self._touch(one)
                for number in reversed(one.called_computations):  # the condition of a loop runs before its body
                    self.run(self._uses.module.computations[number])
            if one.opcode in _LAUNCHES_NOTHING:
                continue
            self._steps.append(one)
            self._touch(one)
        self._extend(computation.root, self._step)

    @property
    def _step(self) -> int:
        return max(len(self._steps) - 1, 0)

    def _touch(self, one: HloInstruction) -> None:
        """Notes that the operands and the results are in use at the last step so far."""
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
            if number is None or not buffers.slices[number].size:
                continue
            place = buffers.slices[number]
            values.setdefault(number, (instruction, index))
            spans[number].append((0, last) if place.allocation in kept else (born, self._died[key]))
        merged = {number: _merge(found) for number, found in spans.items()}
        return LiveBytes(steps=tuple(self._steps), sizes=self._add_up(merged, last + 1), values=values, spans=merged)

    def _add_up(self, spans: Mapping[int, tuple[tuple[int, int], ...]], count: int) -> tuple[int, ...]:
        """Returns the bytes in use at each step; a slice within another one that is in use does not count."""
        slices = self._uses.buffers.slices
        changes = [0] * (count + 1)
        by_allocation: defaultdict[int, list[int]] = defaultdict(list)
        for number in spans:
            by_allocation[slices[number].allocation].append(number)
        for numbers in by_allocation.values():
            numbers.sort(key=lambda number: (slices[number].offset, -slices[number].size))
            outer: list[int] = []
            for number in numbers:
                outer = [one for one in outer if slices[one].offset + slices[one].size > slices[number].offset]
                covering = [span for one in outer for span in spans[one]]
                for first, last in _subtract(spans[number], covering):
                    changes[first] += slices[number].size
                    changes[last + 1] -= slices[number].size
                outer.append(number)
        sizes: list[int] = []
        total = 0
        for change in changes[:count]:
            total += change
            sizes.append(total)
        return tuple(sizes)


def _merge(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Joins spans that meet."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def _subtract(spans: tuple[tuple[int, int], ...], covering: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yields the parts of the spans outside of the covering ones."""
    covered = _merge(covering)
    for first, last in spans:
        start = first
        for low, high in covered:
            if high < start or low > last:
                continue
            if low > start:
                yield start, low - 1
            start = high + 1
        if start <= last:
            yield start, last
