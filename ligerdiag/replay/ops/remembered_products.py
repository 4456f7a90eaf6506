"""Remembers large matrix products, so that the runs of a replay, and of replays with equal arguments, compute each once.

The runs of a replay mostly multiply the same arrays, and so do cases that run variants of one operation. A product is
found again by the contents of its operands and by the way in which they lie in memory: only then does BLAS compute the
same bits. Contents are kept as flat bytes, in the operand's own dtype. So an array, its transpose and a view of it as a
batch of matrices are kept once.

If the products take more than `limit` bytes, the product of the least worth is forgotten (GreedyDual-Size, Cao and
Irani 1997). Each use of a product sets its worth to its multiplications per byte plus the worth of the product that was
forgotten last. So the first to be forgotten are products that are cheap to compute, and products that were not used for
a long time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ligerdiag.replay.ops.dtypes import DType, have_same_bits
from ligerdiag.replay.ops.products import choose_transposed, multiply
from ligerdiag.replay.ops.scope import Array

WORTHWHILE = 1 << 24
"""A product is remembered only if it has at least this many multiplications, which take 0.3 ms of one core."""
WORTHWHILE_PER_BYTE = 16
"""A product is remembered only if it has at least this many multiplications for each byte of its operands. To compare
these with the operands of earlier products then takes far less time than to multiply, so little is lost if none is
equal.
"""
_SAMPLES = 64
"""Number of elements of an operand that are compared first; all others are compared only if these are equal."""

type _Form = tuple[int, str, bytes]
"""Number of elements, dtype and a sample of the contents."""
type _Place = tuple[tuple[int, ...], tuple[int, ...], bool]
"""Shape and strides of an operand, and whether BLAS gets its matrices transposed."""
type _Key = tuple[int, _Place, int, _Place, str]


@dataclass(slots=True, eq=False)
class _Contents:
    """The kept contents of an operand."""

    flat: Array
    form: _Form
    products: int = 0
    """Number of kept products that have this operand."""


@dataclass(slots=True, eq=False)
class _Product:
    result: Array
    operands: tuple[_Contents, _Contents]
    density: float
    """Multiplications for each byte of the result."""
    worth: float = 0.0


@dataclass(slots=True, eq=False)
class RememberedProducts:
    """Computes matrix products and keeps the large ones, so that none of these is computed twice. All kept operands and
    results together take at most `limit` bytes.
    """

    limit: int
    """The most bytes of operands and products to keep."""
    hits: int = 0
    size: int = 0
    """Bytes of the kept operands and products."""
    _contents: dict[_Form, list[_Contents]] = field(default_factory=dict["_Form", list[_Contents]])
    _products: dict[_Key, _Product] = field(default_factory=dict["_Key", _Product])
    """The remembered products, from the one that was used longest ago to the one that was used last."""
    _least: float = 0.0
    """The worth (see the module's docstring) of the product that was forgotten last."""

    def multiply(self, left: Array, right: Array, dtype: DType) -> Array:
        """Returns the product of two stacks of matrices in this dtype. A product that was computed before is not
        computed again.
        """
        times = left.size * right.shape[2]
        if times < WORTHWHILE or times < WORTHWHILE_PER_BYTE * (left.nbytes + right.nbytes):
            return multiply(left, right, dtype)
        transposed = choose_transposed(left, right, dtype)
        flats = _flatten(left), _flatten(right)
        operands = self._find(flats[0]), self._find(flats[1])
        places = [
            (one.shape, _list_strides(one), swapped) for one, swapped in zip((left, right), transposed, strict=True)
        ]
        key = id(operands[0]), places[0], id(operands[1]), places[1], dtype.str
        found = self._products.pop(key, None)
        if found is not None:
            self.hits += 1
            self._use(key, found)
            return found.result
        result = multiply(left, right, dtype)
        new = {id(one): one for one in operands if not one.products}
        needed = result.nbytes + sum(one.flat.nbytes for one in new.values())
        if needed > self.limit:
            return result
        for one in new.values():
            if not _is_constant(one.flat):
                one.flat = np.array(one.flat)
            self.size += one.flat.nbytes
            self._contents.setdefault(one.form, []).append(one)
        for one in operands:
            one.products += 1
        result.flags.writeable = False  # if it becomes an operand, it need not be copied
        self.size += result.nbytes
        self._use(key, _Product(result, operands, times / result.nbytes))
        self._forget()
        return result

    def _use(self, key: _Key, product: _Product) -> None:
        product.worth = self._least + product.density
        self._products[key] = product

    def _find(self, flat: Array) -> _Contents:
        """Returns the kept contents that have the same bits as the array; if there are none, contents that are not kept
        yet.
        """
        form = flat.size, flat.dtype.name, flat[:: max(1, flat.size // _SAMPLES)].tobytes()
        alike = self._contents.get(form, ())
        found = next((one for one in alike if have_same_bits(one.flat, flat)), None)
        return found or _Contents(flat, form)

    def _forget(self) -> None:
        while self.size > self.limit:
            key = min(self._products, key=lambda one: self._products[one].worth)
            product = self._products.pop(key)
            self._least = product.worth
            self.size -= product.result.nbytes
            for one in product.operands:
                one.products -= 1
                if not one.products and one in self._contents.get(one.form, ()):
                    self.size -= one.flat.nbytes
                    self._contents[one.form].remove(one)
                    if not self._contents[one.form]:
                        del self._contents[one.form]


def _flatten(array: Array) -> Array:
    """Returns the elements of the array in the order in which they lie in memory, without a copy if they lie there
    without gaps; otherwise in row-major order.
    """
    ordered = array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return (ordered if ordered.flags.c_contiguous else np.ascontiguousarray(array)).reshape(-1)


def _list_strides(array: Array) -> tuple[int, ...]:
    """Returns the strides of the array; 0 for an axis of one element, whose stride says nothing."""
    return tuple([step if size > 1 else 0 for step, size in zip(array.strides, array.shape, strict=True)])


def _iterate_views(array: Array) -> Iterator[Any]:
    """Yields the array, the array of which it is a view, and so on."""
    view: Any = array
    while view is not None:
        yield view
        view = view.base if isinstance(view, np.ndarray) else None


def _is_constant(array: Array) -> bool:
    """Returns whether the array cannot change: neither it nor any array of which it is a view is writable."""
    return all(isinstance(view, np.ndarray) and not view.flags.writeable for view in _iterate_views(array))
