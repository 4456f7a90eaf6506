"""Represents the integers, booleans and addresses of a kernel for all programs of a launch at once.

The first dimension of every array is the program; its size is 1 if all programs agree. The dimensions of the tensor
follow.

- `Linear` is the integer `base + sum(step[k] * i[k])` at position `i`: the usual form of offsets, and cheap at any
  size.
- `MaskBox` is true where the program's gate is true and each coordinate is in an interval: the usual form of masks.
- `Dense` holds every element.
- `Unknown` is anything else: data from memory, floats, and values that are not followed.

Integers have 64 bits; `wrap` reduces them to the range of their type. A value beyond 62 bits is Unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

type IndexArray = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]
type Elements = npt.NDArray[np.int64 | np.bool_]
type Shape = tuple[int, ...]

LARGEST = 2**62


class TooLargeError(Exception):
    """Raised if following the launch would take more than the budget."""


class TooManyElementsError(TooLargeError):
    """Raised if one array would have more elements than the budget allows."""


class Budget:
    """A budget for following one launch: how many array elements and operations may still be computed.

    It is a count rather than a time, so that the result is reproducible.
    """

    def __init__(self, *, elements: int, operations: int, array: int) -> None:
        """Sets the limits. elements, operations: the most of each for the whole launch. array: the most elements of one
        array.
        """
        self._elements, self._operations, self._array = elements, operations, array

    def spend(self, elements: int) -> None:
        """Subtracts one operation on `elements` elements from the budget. Raises TooManyElementsError if one array is too
        large, TooLargeError if the budget is exceeded.
        """
        if elements > self._array:
            raise TooManyElementsError
        self._elements -= elements
        self._operations -= 1
        if self._elements < 0 or self._operations < 0:
            raise TooLargeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A value that is not known. If it may be a pointer, `roots` says into whose buffers it may point."""

    roots: frozenset[int] = frozenset()
    """Numbers of the kernel's arguments from which a pointer may come, with ELSEWHERE among them if it may also come from
    no argument, as an address that was loaded from memory does; empty for a value that is no pointer.
    """


ELSEWHERE = -1
"""Represents, among the numbers of arguments, an address that comes from no known argument."""

UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """A tensor of integers: `base + sum(step[k] * i[k])` at position `i`."""

    base: IndexArray
    """The integer at position 0 of each program's tensor: [programs], or [1] if all programs agree."""
    steps: tuple[IndexArray | None, ...] = ()
    """For each dimension the step from one element to the next, [programs] or [1]; None if the elements along it are
    equal, as in every dimension of size 1.
    """
    shape: Shape = ()

    @property
    def is_uniform(self) -> bool:
        """Returns whether all elements of the tensor are equal in each program."""
        return all(step is None for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskBox:
    """A tensor of booleans: true where the program's gate is true and each coordinate is in its interval."""

    gate: Mask
    """Whether any element of each program's tensor can be true: [programs], or [1] if all programs agree."""
    intervals: tuple[tuple[IndexArray, IndexArray] | None, ...] = ()
    """For each dimension, the interval as (first coordinate, last coordinate + 1), each [programs] or [1]; None if all
    coordinates are in the interval.
    """
    shape: Shape = ()

    @property
    def is_uniform(self) -> bool:
        """Returns whether all elements of the tensor are equal in each program."""
        return all(interval is None for interval in self.intervals)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dense:
    """A tensor of integers or booleans with every element stored."""

    data: Elements
    """The elements, [programs or 1, *shape]. A dimension may have size 1 if all elements along it are equal."""
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pointer:
    """Addresses in the buffer of one kernel argument. `root` is the argument's number."""

    root: int
    offset: "Linear | Dense"
    """The addresses in bytes from the start of the buffer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AbstractBlockPointer:
    """A tensor descriptor or a block pointer. Only a block pointer has offsets."""

    base: "Pointer"
    sizes: tuple[Linear, ...]
    strides: tuple[Linear, ...]
    """Distance, in elements, between neighbours along each dimension."""
    offsets: tuple[Linear, ...]
    """Position of the block, in elements along each dimension; () for a descriptor: each operation on it gives the
    position itself."""
    block: Shape


type Number = Linear | MaskBox | Dense
type IndexValue = Number | Unknown | Pointer | AbstractBlockPointer


def make_scalar(value: int | IndexArray) -> Linear:
    """Returns a scalar integer. value: [programs], or one number for all programs."""
    return Linear(base=np.atleast_1d(np.asarray(value, np.int64)))


def make_splat(value: int, shape: Shape) -> Linear:
    """Returns a tensor whose elements all equal the integer `value`."""
    return Linear(base=np.array([value], np.int64), steps=(None,) * len(shape), shape=shape)


def make_truth(value: bool, shape: Shape) -> MaskBox:
    """Returns a tensor whose elements all equal the boolean `value`."""
    return MaskBox(gate=np.array([value]), intervals=(None,) * len(shape), shape=shape)


def make_range(start: int, end: int) -> Linear:
    """Returns the integers from `start` to `end` (exclusive), as `tt.make_range` does."""
    size = max(end - start, 0)
    step = np.array([1], np.int64) if size > 1 else None
    return Linear(base=np.array([start], np.int64), steps=(step,), shape=(size,))


def _along[T: (np.int64, np.bool_)](array: npt.NDArray[T], rank: int) -> npt.NDArray[T]:
    return array.reshape(-1, *(1,) * rank)


def make_dense(value: Number, budget: Budget) -> Dense:
    """Returns a value as a `Dense`, in which every element is stored."""
    if isinstance(value, Dense):
        return value
    rank = len(value.shape)
    if isinstance(value, Linear):
        parts = [step for step in value.steps if step is not None]
        budget.spend(_count(value.shape, value.steps) * max([value.base.size, *(part.size for part in parts)]))
        data = _along(value.base, rank)
        for axis, step in enumerate(value.steps):
            if step is not None:
                data = data + _along(step, rank) * _make_coordinates(axis, value.shape)
        return Dense(data=data, shape=value.shape)
    sizes = [value.gate.size, *(bound.size for interval in value.intervals if interval for bound in interval)]
    budget.spend(_count(value.shape, value.intervals) * max(sizes))
    mask = _along(value.gate, rank)
    for axis, interval in enumerate(value.intervals):
        if interval is not None:
            coordinates = _make_coordinates(axis, value.shape)
            mask = mask & (coordinates >= _along(interval[0], rank)) & (coordinates < _along(interval[1], rank))
    return Dense(data=mask, shape=value.shape)


def _count(shape: Shape, axes: Sequence[object]) -> int:
    return prod(size for size, axis in zip(shape, axes, strict=True) if axis is not None)


def _make_coordinates(axis: int, shape: Shape) -> IndexArray:
    sizes = [1] * (len(shape) + 1)
    sizes[axis + 1] = shape[axis]
    return np.arange(shape[axis], dtype=np.int64).reshape(sizes)


def compute_bounds(value: Linear | Dense) -> tuple[int, int]:
    """Returns a lower and an upper bound of all elements. The bounds of a `Dense` are exact."""
    if isinstance(value, Dense):
        if not value.data.size:
            return 0, 0
        return int(value.data.min()), int(value.data.max())
    low, high = int(value.base.min(initial=LARGEST)), int(value.base.max(initial=-LARGEST))
    for step, size in zip(value.steps, value.shape, strict=True):
        if step is not None:
            ends = int(step.min()) * (size - 1), int(step.max()) * (size - 1)
            low += min(0, *ends)
            high += max(0, *ends)
    return (low, high) if low <= high else (0, 0)


def wrap(value: Linear | Dense, bits: int, budget: Budget) -> Linear | Dense | Unknown:
    """Returns integers reduced to the range of a signed integer of `bits` bits. Unknown if they may be too large to
    represent.
    """
    low, high = compute_bounds(value)
    if low < -LARGEST or high > LARGEST:
        return UNKNOWN
    half = 1 << (bits - 1)
    if -half <= low and high < half:
        return value
    if bits >= 63:
        return UNKNOWN
    data = (make_dense(value, budget).data.astype(np.int64) + half) % (2 * half) - half
    if isinstance(value, Linear) and value.is_uniform:
        return Linear(base=data.reshape(-1), steps=value.steps, shape=value.shape)
    return Dense(data=data, shape=value.shape)


def choose(taken: Mask, new: IndexValue, old: IndexValue, budget: Budget) -> IndexValue:
    """Returns `new` for the programs in `taken`, and `old` for the programs that are not. taken: bool[programs]."""
    if new is old or taken.all():
        return new
    if not taken.any():
        return old
    try:
        return _choose(taken, new, old, budget)
    except TooManyElementsError:
        return forget(new, old)


def _choose(taken: Mask, new: IndexValue, old: IndexValue, budget: Budget) -> IndexValue:
    match new, old:
        case Linear(), Linear() if new.shape == old.shape:
            budget.spend(taken.size)
            zero = np.zeros(1, np.int64)
            steps = tuple(
                None if a is None and b is None else np.where(taken, zero if a is None else a, zero if b is None else b)
                for a, b in zip(new.steps, old.steps, strict=True)
            )
            return Linear(base=np.where(taken, new.base, old.base), steps=steps, shape=new.shape)
        case MaskBox(), MaskBox() if new.shape == old.shape and new.is_uniform and old.is_uniform:
            return MaskBox(gate=np.where(taken, new.gate, old.gate), intervals=new.intervals, shape=new.shape)
        case ((Linear() | Dense() | MaskBox()), (Linear() | Dense() | MaskBox())) if new.shape == old.shape:
            one, other = make_dense(new, budget), make_dense(old, budget)
            budget.spend(taken.size * max(one.data[0].size, other.data[0].size) if one.data.size else 0)
            data = np.where(_along(taken, len(new.shape)), one.data, other.data)
            return Dense(data=data, shape=new.shape)
        case Pointer(), Pointer() if new.root == old.root:
            offset = choose(taken, new.offset, old.offset, budget)
            if isinstance(offset, Linear | Dense):
                return Pointer(root=new.root, offset=offset)
        case AbstractBlockPointer(), AbstractBlockPointer() if new.block == old.block:
            merged = _choose_blocks(taken, new, old, budget)
            if merged is not None:
                return merged
        case _:
            pass
    return forget(new, old)


def _choose_blocks(
    taken: Mask, new: AbstractBlockPointer, old: AbstractBlockPointer, budget: Budget
) -> AbstractBlockPointer | None:
    base = choose(taken, new.base, old.base, budget)
    parts: list[tuple[Linear, ...]] = []
    for ours, theirs in ((new.sizes, old.sizes), (new.strides, old.strides), (new.offsets, old.offsets)):
        if len(ours) != len(theirs):
            return None
        chosen = [choose(taken, a, b, budget) for a, b in zip(ours, theirs, strict=True)]
        parts.append(tuple(value for value in chosen if isinstance(value, Linear)))
    if not isinstance(base, Pointer) or any(len(part) != len(new.block) for part in parts[:2]):
        return None
    return AbstractBlockPointer(base=base, sizes=parts[0], strides=parts[1], offsets=parts[2], block=new.block)


def get_roots(value: IndexValue) -> frozenset[int]:
    """Returns the numbers of the kernel arguments into whose buffers a value may point."""
    match value:
        case Pointer():
            return frozenset((value.root,))
        case AbstractBlockPointer():
            return frozenset((value.base.root,))
        case Unknown():
            return value.roots
        case _:
            return frozenset()


def forget(*values: IndexValue) -> Unknown:
    """Returns an `Unknown` in place of some values, or of a value computed from them. It may point into every buffer into
    which one of the values may point.
    """
    return Unknown(roots=frozenset[int]().union(*(get_roots(value) for value in values)))
