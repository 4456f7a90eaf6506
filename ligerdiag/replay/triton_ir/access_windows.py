"""Finds the *window* of a memory access from its addresses and its mask: the start and the regular steps that lead to
its elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.triton_ir.values import REGION_BITS, Active, Sum, make_sum

_HALF = 1 << (REGION_BITS - 1)


def make_address(argument: int) -> int:
    """Returns the address of the first byte of a kernel's argument. `argument` is its number.

    Addresses are made up: each argument has a region of its own (see `values`).
    """
    return (argument + 1) << REGION_BITS


def find_argument(address: int) -> int:
    """Returns the number of the argument whose region contains the address. The kernel need not have such an argument."""
    return ((address + _HALF) >> REGION_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """The elements that an access reads or writes, all within one argument of the kernel. Each program of the grid has
    its own start. The offsets from the start to the elements are the same in all programs.
    """

    argument: int
    programs: Array | None
    """i64[n]: the accessing programs' ascending numbers within the batch; None if all programs of the batch access
    elements.
    """
    starts: Array
    """i64[n]: offset of each accessing program's first element, in bytes from the start of the argument; [1] if all of
    them share one start.
    """
    counts: tuple[int, ...]
    """Number of accessed elements along each axis of the block; 1 along an axis that is broadcast from a single
    element.
    """
    steps: tuple[int, ...]
    """Bytes from one element to the next along each axis of the block."""
    corner: tuple[int | None, ...]
    """Coordinate of the first accessed element along each axis; None if the axis is broadcast from a single element."""

    def get_ends(self, width: int) -> tuple[int, int]:
        """Returns the offset of the first byte that a program accesses, and the offset after the last such byte.

        width: bytes of an element.
        """
        reach = [step * (count - 1) for step, count in zip(self.steps, self.counts, strict=True)]
        low = int(self.starts.min()) + sum(min(0, distance) for distance in reach)
        return low, int(self.starts.max()) + sum(max(0, distance) for distance in reach) + width

    def find_stride(self) -> int | None:
        """Returns the number of bytes from one program's start to the next program's. Returns None if these distances
        differ.
        """
        if self.starts.size < 2:
            return 0
        differences = np.diff(self.starts)
        return int(differences[0]) if bool((differences == differences[0]).all()) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """The elements of a block that a mask selects, if they form a box. Every program that accesses an element has the
    same box.
    """

    programs: Array | None
    """i64[n]: numbers, within the batch, of the programs that access elements; None for all programs."""
    corner: tuple[int | None, ...]
    """Coordinate of the first selected element along each axis; None along an axis that the mask does not restrict."""
    counts: tuple[int | None, ...]

    @property
    def is_empty(self) -> bool:
        """Returns whether no element is selected in any program."""
        return (self.programs is not None and not self.programs.size) or 0 in self.counts


def find_box(mask: Array | None, active: Active, rank: int) -> Box | None:
    """Returns the box of elements that the mask selects in the active programs. Returns None if they form no box.

    mask: bool[programs or 1, *block], None for all elements. active: bool[programs], None for all programs. rank:
    number of the block's axes.
    """
    whole: tuple[None, ...] = (None,) * rank
    chosen = active
    if mask is not None and not mask.all():
        rows = mask.reshape(mask.shape[0], -1)
        full, some = rows.all(axis=1), rows.any(axis=1)
        if active is not None:
            full, some = full & active, some & active
        if bool((full == some).all()):
            if full.size == 1 or not bool(full.any()):
                return Box(programs=np.zeros(0, np.int64), corner=whole, counts=whole)
            chosen = full
        else:
            if mask.shape[0] > 1:
                return None
            bounds = _find_bounds(mask[0])
            if bounds is None:
                return None
            programs = None if active is None else np.flatnonzero(active)
            return Box(programs=programs, corner=bounds[0], counts=bounds[1])
    return Box(programs=None if chosen is None else np.flatnonzero(chosen), corner=whole, counts=whole)


def _find_bounds(mask: Array) -> tuple[tuple[int | None, ...], tuple[int | None, ...]] | None:
    corner: list[int | None] = []
    counts: list[int | None] = []
    for axis, size in enumerate(mask.shape):
        if size == 1:
            corner.append(None)
            counts.append(None)
            continue
        line = mask if mask.ndim == 1 else mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis))
        first = int(line.argmax())
        last = size - int(line[::-1].argmax())
        corner.append(first)
        counts.append(last - first)
    inside = prod(count for count in counts if count is not None)
    return (tuple(corner), tuple(counts)) if int(np.count_nonzero(mask)) == inside else None


def find_window(address: Array | Sum, box: Box) -> Window | None:
    """Returns the window of the addresses in a box. Returns None if their steps are irregular, or if they belong to
    several arguments.

    address: i64[programs or 1, *block].
    """
    terms: list[Array] = []
    for term in make_sum(address).terms:
        parts = _split(term)
        if parts is None:
            return None
        terms += parts
    rank = terms[0].ndim - 1
    starts = np.zeros(1, np.int64)
    lines: list[Array | None] = [None] * rank
    for term in terms:
        along = next((axis for axis, size in enumerate(term.shape) if size > 1), 0)
        if along == 0:
            starts = starts + term.reshape(-1)
        else:
            line = lines[along - 1]
            lines[along - 1] = term.reshape(-1) if line is None else line + term.reshape(-1)
    counts, steps = [1] * rank, [0] * rank
    corner: list[int | None] = [None] * rank
    for axis, line in enumerate(lines):
        first, count = box.corner[axis], box.counts[axis]
        if line is None:
            counts[axis], corner[axis] = count if count is not None else 1, first
            continue
        corner[axis] = first or 0
        counts[axis] = line.size if count is None else count
        steps[axis] = int(line[1] - line[0])
        if line.size > 2 and not bool((np.diff(line) == steps[axis]).all()):
            return None
        starts = starts + (line[0] + (first or 0) * steps[axis])
    if box.programs is not None and starts.size > 1:
        starts = starts[box.programs]
    argument = find_argument(int(starts.min()))
    if argument != find_argument(int(starts.max())):
        return None
    return Window(
        argument=argument,
        programs=box.programs,
        starts=starts - make_address(argument),
        counts=tuple(counts),
        steps=tuple(steps),
        corner=tuple(corner),
    )


def _split(term: Array) -> Sequence[Array] | None:
    """Returns arrays that vary along one axis each and whose sum is the given one; None if there are none."""
    wide = [axis for axis, size in enumerate(term.shape) if size > 1]
    if len(wide) < 2:
        return (term,)
    parts: list[Array] = []
    total: Array | None = None
    origin = term[(slice(0, 1),) * term.ndim]
    for axis in wide:
        place = tuple(slice(None) if a == axis else slice(0, 1) for a in range(term.ndim))
        part = term[place] if total is None else term[place] - origin
        total = part if total is None else total + part
        parts.append(part)
    return parts if total is not None and bool(np.array_equal(total, term)) else None
