"""Defines the values of Triton IR for all programs of a batch: types, arrays, and sums that are computed only on
demand.

A value of type `tensor<AxBxT>` is an array of shape [programs, A, B], a scalar one of shape [programs]. An axis along which
all elements are equal may have length 1, including the axis of programs; NumPy broadcasts it. A pointer is an address, an
i64: argument n has the addresses around (n + 1) * 2**44. So programs can select, load, store and convert pointers like any
integers, and each access identifies its argument. A `Sum` keeps integers or addresses as terms that are added only when the
elements are needed. So a row's address and the columns' offsets stay separate, and the code for a load can find that its
bytes are consecutive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.effects.libtriton import parse_element, parse_pointee, parse_shape
from ligerdiag.replay.ops.scope import Array, NotCoveredError

type DType = np.dtype[Any]

MOST_ELEMENTS = 1 << 22
"""The most elements that a tensor may have; Triton's own limit is 2**20."""

REGION_BITS = 44
"""Each argument of a kernel has a region of 2**REGION_BITS made-up addresses."""

_DTYPES: dict[str, DType] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}
_NARROW = frozenset(dtype for name, dtype in _DTYPES.items() if name.startswith(("f8", "bf16", "f16")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """A type of Triton IR, with the dtype in which its elements are kept."""

    text: str
    shape: tuple[int, ...]
    """Shape of the tensor, or of the block behind a block pointer or tensor descriptor; () for a scalar."""
    element: str
    dtype: DType | None
    """NumPy dtype of an element, i64 for a pointer; None for block pointers, descriptors, and types that are not
    covered.
    """
    pointee: str
    """Type of one element behind a pointer; empty if the type is not a pointer."""

    @property
    def is_pointer(self) -> bool:
        """Returns whether the elements are addresses."""
        return bool(self.pointee) and self.dtype is not None

    def get_dtype(self) -> DType:
        """Returns the dtype of the elements. Raises NotCoveredError if NumPy has no dtype for them."""
        if self.dtype is None:
            raise NotCoveredError(f"a value of type {self.text[:80]}")
        return self.dtype


@lru_cache(maxsize=4096)
def parse_type(text: str) -> ValueType:
    """Parses a type that MLIR has printed. Raises NotCoveredError for a tensor of more than `MOST_ELEMENTS` elements."""
    shape, element = parse_shape(text), parse_element(text)
    if prod(shape) > MOST_ELEMENTS:
        raise NotCoveredError(f"a tensor of {prod(shape)} elements, more than {MOST_ELEMENTS}")
    pointee = parse_pointee(text)
    is_block = "tensordesc" in element or "tensor<" in element
    dtype = None if is_block else np.dtype(np.int64) if element.startswith("!tt.ptr") else _DTYPES.get(element)
    return ValueType(text=text, shape=shape, element=element, dtype=dtype, pointee=pointee)


def find_dtype(element: str) -> DType:
    """Returns the dtype of an element type such as `bf16` or `!tt.ptr<f32>`. Raises NotCoveredError if NumPy has none
    for it.
    """
    if element.startswith("!tt.ptr"):
        return np.dtype(np.int64)
    name = (
        element.lstrip("su") if element[:2] in ("si", "ui") else element
    )  # the type of a descriptor's elements says whether they are signed
    if name not in _DTYPES:
        raise NotCoveredError(f"elements of type {element[:80]}")
    return _DTYPES[name]


def is_float(dtype: DType) -> bool:
    """Returns whether the dtype is a floating-point one, including bf16, f16 and f8."""
    return dtype.kind == "f" or dtype in _NARROW


def is_narrow(dtype: DType) -> bool:
    """Returns whether the dtype is bf16, f16 or f8. Arithmetic on these runs in f32 and is rounded."""
    return dtype in _NARROW


@dataclass(slots=True, eq=False)
class Sum:
    """An array of integers, kept as terms that are added only when the elements are needed."""

    terms: tuple[Array, ...]
    """i64 arrays of the same rank that broadcast."""
    dtype: DType
    """Dtype of the elements; the sum does not overflow it, except that addresses may wrap."""
    low: int
    """A lower bound of all elements."""
    high: int
    """An upper bound of all elements."""
    _array: Array | None = field(default=None)

    @property
    def ndim(self) -> int:
        """Returns the rank of the array, including the axis of programs."""
        return self.terms[0].ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the array, including the axis of programs."""
        return np.broadcast_shapes(*(term.shape for term in self.terms))

    def to_array(self) -> Array:
        """Returns the elements. The first call adds the terms."""
        if self._array is None:
            total = self.terms[0]
            for term in self.terms[1:]:
                total = total + term
            self._array = total.astype(self.dtype, copy=False)
        return self._array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockPointer:
    """A block pointer or tensor descriptor of all programs. Each of its arrays has the shape [programs]."""

    base: Array
    """Address of the tensor's first element."""
    shape: tuple[Array, ...]
    strides: tuple[Array, ...]
    """Distance, in elements, between neighbours along each axis of the tensor."""
    offsets: tuple[Array, ...]
    """Position of the block, in elements along each axis; zeros for a descriptor."""
    pads_nan: bool = False
    """Whether a load through a descriptor gives NaN, not 0, for elements outside the tensor."""


type Value = Array | Sum | BlockPointer
type Active = Array | None
"""The programs of the grid that run an operation, as bool[programs]; None for all programs of the batch that is
evaluated.
"""


def to_array(value: Value) -> Array:
    """Returns the elements of a value as an array. Raises NotCoveredError for a block pointer."""
    if isinstance(value, Sum):
        return value.to_array()
    if isinstance(value, BlockPointer):
        raise NotCoveredError("arithmetic with a block pointer")
    return value


_INT64 = np.dtype(np.int64)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def add_address(address: Array | Sum, offset: Array | Sum, width: int) -> Array | Sum:
    """Returns address + width * offset, modulo 2**64. width: bytes of an element."""
    small = isinstance(address, np.ndarray) and isinstance(offset, np.ndarray) and offset.size <= max(256, address.size)
    if small:
        return to_array(address) + to_array(offset).astype(np.int64) * width
    terms = list(_get_terms(address))
    for term in _get_terms(offset):
        _add_term(terms, term * width if width != 1 else term)
    if len(terms) > 6:
        terms = [sum(terms[1:], start=terms[0])]
    return Sum(tuple(terms), _INT64, _LOWEST, _HIGHEST)


def _get_terms(value: Array | Sum) -> tuple[Array, ...]:
    return value.terms if isinstance(value, Sum) else (value.astype(np.int64, copy=False),)


def _add_term(terms: list[Array], term: Array) -> None:
    for place, other in enumerate(terms):
        if other.shape == term.shape or term.size == 1:
            terms[place] = other + term
            return
    terms.append(term)


def add_lazily(left: Array | Sum, right: Array | Sum, dtype: DType, sign: int = 1) -> Array | Sum:
    """Returns the integers left + sign * right. The result is a `Sum` if that is smaller and cannot overflow, otherwise
    an array.
    """
    one = left if isinstance(left, Sum) else None
    two = right if isinstance(right, Sum) else None
    if one is None and two is None:
        x, y = left.shape, right.shape
        size = prod(np.broadcast_shapes(x, y))
        if size <= 256 or size in (prod(x), prod(y)):
            return _add(to_array(left), to_array(right), sign)
    a, b = one or make_sum(left), two or make_sum(right)
    low = a.low + (b.low if sign > 0 else -b.high)
    high = a.high + (b.high if sign > 0 else -b.low)
    limits = np.iinfo(dtype)
    if low < limits.min or high > limits.max:
        return _add(to_array(left), to_array(right), sign)
    terms = list(a.terms)
    for term in b.terms:
        _add_term(terms, term if sign > 0 else -term)
    if len(terms) > 6:
        return Sum((sum(terms[1:], start=terms[0]),), dtype, low, high)
    return Sum(tuple(terms), dtype, low, high)


def _add(left: Array, right: Array, sign: int) -> Array:
    result: Array = left + right if sign > 0 else left - right
    return result


def make_sum(value: Array | Sum) -> Sum:
    """Returns integers as a `Sum`. An array becomes a `Sum` of one term."""
    if isinstance(value, Sum):
        return value
    wide = value.astype(np.int64, copy=False)
    if not wide.size:
        return Sum((wide,), value.dtype, 0, 0)
    return Sum((wide,), value.dtype, int(wide.min()), int(wide.max()))


def scale_lazily(value: Sum, factor: int, dtype: DType) -> Sum | None:
    """Returns the product of a `Sum` and an integer as a `Sum`. Returns None if the product might overflow."""
    ends = (value.low * factor, value.high * factor)
    limits = np.iinfo(dtype)
    if min(ends) < limits.min or max(ends) > limits.max:
        return None
    return Sum(tuple(term * factor for term in value.terms), dtype, min(ends), max(ends))


def reshape_terms(value: Value, change: Callable[[Array], Array]) -> Array | Sum:
    """Applies `change` to an array, or to each term of a `Sum`, and returns the result."""
    if isinstance(value, Sum):
        return Sum(tuple(change(term) for term in value.terms), value.dtype, value.low, value.high)
    return change(to_array(value))


def select_programs(chosen: Array, new: Value, old: Value) -> Value:
    """Returns the new value for the chosen programs and the old value for all others.

    chosen: bool[programs].
    """
    if new is old:
        return new
    if isinstance(new, BlockPointer) and isinstance(old, BlockPointer):
        pairs = [
            [_choose(chosen, a, b) for a, b in zip(one, two, strict=True)]
            for one, two in ((new.shape, old.shape), (new.strides, old.strides), (new.offsets, old.offsets))
        ]
        return BlockPointer(
            base=_choose(chosen, new.base, old.base),
            shape=tuple(pairs[0]),
            strides=tuple(pairs[1]),
            offsets=tuple(pairs[2]),
            pads_nan=new.pads_nan,
        )
    return _choose(chosen, to_array(new), to_array(old))


def _choose(chosen: Array, new: Array, old: Array) -> Array:
    if new is old:
        return new
    condition = chosen.reshape(-1, *(1,) * (max(new.ndim, old.ndim) - 1))
    result: Array = np.where(condition, new, old)
    return result


def fill(value: Array, shape: Sequence[int]) -> Array:
    """Broadcasts the array to the shape [n, *shape] and returns a read-only view. The length of the array's first axis,
    the axis of programs, is `n`.
    """
    return np.broadcast_to(value, (value.shape[0], *shape))


def match_programs(arrays: Sequence[Array]) -> list[Array]:
    """Returns the arrays with the same number of programs: an array that all programs share has one, in dimension 0."""
    programs = max(array.shape[0] for array in arrays)
    return [np.broadcast_to(array, (programs, *array.shape[1:])) for array in arrays]
