"""Numbers slices by the expressions of the values from which they are taken.

The *expression number* of an array names the expression that computes it: arrays with one number are equal (see
`expression_table`).

A slice of a sum, a product of matrices, a concatenation, a broadcast or a transpose is the same operation on slices of
its operands. XLA computes one form where the author has written the other (DotMerger, SliceSinker), so the number is
always that of the second form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

type Number = int
"""Number of an array, or of another leaf of a result (see `expression_table`)."""
type Dimensions = tuple[int, ...]
type Operand = tuple[Number, Dimensions]
"""An array's number and dimensions."""


@dataclass(frozen=True, slots=True)
class IndexRange:
    """A range of indices in one dimension of an array, from `start` to `limit`, exclusive."""

    axis: int
    start: int
    limit: int


DEEPEST = 50
"""The number of operations through which a slice is followed at most."""
type Axes = Sequence[int] | None
"""For each operand, the dimension with the same indices as a dimension of the result; -1 if the operand has none. None if
slices of the result in this dimension are not known to be operations on slices.
"""


@dataclass(frozen=True, slots=True)
class Sliceable:
    """The result of an operation whose slices can be computed by the same operation on slices of its operands."""

    operands: Sequence[Operand]
    axes: Sequence[Axes]
    """The axes for each dimension of the result."""
    rebuild: Callable[[Dimensions, list[Operand]], Number]
    """Returns the number of the operation with a result of these dimensions on these operands."""

    def slice(
        self, dimensions: Dimensions, part: IndexRange, take: Callable[[Number, Dimensions, IndexRange], Number]
    ) -> Number:
        """Returns the expression number of a part of the array. dimensions: dimensions of the array. take: returns the
        number of a part of an operand.
        """
        size = part.limit - part.start
        taken = [
            (number, own)
            if axis < 0
            else (take(number, own, IndexRange(axis, part.start, part.limit)), replace_size(own, axis, size))
            for (number, own), axis in zip(self.operands, self.axes[part.axis] or (), strict=True)
        ]
        return self.rebuild(replace_size(dimensions, part.axis, size), taken)


@dataclass(frozen=True, slots=True)
class Joined:
    """A concatenation of arrays along the dimension `axis`."""

    axis: int
    pieces: Sequence[Operand]
    rebuild: Callable[[int, Sequence[Operand]], Number]
    """Returns the number of the concatenation of other pieces in this dimension."""


@dataclass(slots=True, eq=False)
class SliceNumbers:
    """Gives each slice of an array its expression number."""

    number_parts: Callable[[Number, Dimensions, tuple[IndexRange, ...]], Number]
    """Returns the number of some parts of an array, with at most one part for each dimension, as a new expression."""
    _found: dict[Number, Sliceable | Joined] = field(default_factory=dict[Number, Sliceable | Joined])
    _parts: dict[Number, tuple[Number, Dimensions, tuple[IndexRange, ...]]] = field(
        default_factory=dict[Number, tuple[Number, Dimensions, tuple[IndexRange, ...]]]
    )
    """Maps the number of a slice to (the array, its dimensions, the parts that the slice takes)."""
    _known: dict[tuple[Number, IndexRange], Number] = field(default_factory=dict[tuple[Number, IndexRange], Number])
    _depth: int = 0
    """The number of operations between the slice that was asked for and the array that is looked at."""

    def add(self, number: Number, found: Sliceable | Joined) -> None:
        """Records how the slices of an array are computed. number: expression number of the array."""
        self._found.setdefault(number, found)

    def take(self, array: Number, dimensions: Dimensions, part: IndexRange) -> Number:
        """Returns the expression number of a part of an array. array: number of the array. dimensions: its dimensions."""
        if part.start == 0 and part.limit == dimensions[part.axis]:
            return array
        key = array, part
        if key not in self._known:
            self._depth += 1
            self._known[key] = self._take(array, dimensions, part)
            self._depth -= 1
        return self._known[key]

    def _take(self, array: Number, dimensions: Dimensions, part: IndexRange) -> Number:
        found = self._found.get(array) if self._depth < DEEPEST else None
        if isinstance(found, Joined):
            return found.rebuild(found.axis, self._take_pieces(found, part))
        if found is not None and found.axes[part.axis] is not None:
            return found.slice(dimensions, part, self.take)
        base, whole, earlier = self._parts.get(array, (array, dimensions, ()))
        parts = {one.axis: one for one in earlier}
        start = parts[part.axis].start if part.axis in parts else 0
        parts[part.axis] = IndexRange(part.axis, start + part.start, start + part.limit)
        every = tuple([parts[axis] for axis in sorted(parts)])
        number = self.number_parts(base, whole, every)
        self._parts[number] = base, whole, every
        return number

    def _take_pieces(self, joined: Joined, part: IndexRange) -> list[Operand]:
        if part.axis != joined.axis:
            size = part.limit - part.start
            return [(self.take(number, own, part), replace_size(own, part.axis, size)) for number, own in joined.pieces]
        taken: list[Operand] = []
        ends = accumulate(own[part.axis] for _, own in joined.pieces)
        for (number, own), end in zip(joined.pieces, ends, strict=True):
            begin = end - own[part.axis]
            start, limit = max(part.start, begin) - begin, min(part.limit, end) - begin
            if start < limit:
                piece = self.take(number, own, IndexRange(part.axis, start, limit))
                taken.append((piece, replace_size(own, part.axis, limit - start)))
        return taken


def replace_size(dimensions: Dimensions, axis: int, size: int) -> Dimensions:
    """Returns a copy of `dimensions` in which dimension `axis` has the size `size`."""
    return (*dimensions[:axis], size, *dimensions[axis + 1 :])


def match_reshaped(before: Dimensions, after: Dimensions) -> list[Axes]:
    """Returns, for each dimension of a reshape's result, the operand's dimension with the same indices; None if none has."""
    axes: list[Axes] = [None] * len(after)
    kept, left = ([axis for axis, size in enumerate(one) if size != 1] for one in (before, after))
    if [before[axis] for axis in kept] == [after[axis] for axis in left]:
        for axis, own in zip(left, kept, strict=True):
            axes[axis] = (own,)
        return axes
    for forward in (range(min(len(before), len(after))), range(-1, -min(len(before), len(after)) - 1, -1)):
        for place in forward:
            if before[place] != after[place]:
                break
            axes[place] = (place % len(before),)
    return axes
