"""Attribution: compares an output's values with the intended and the stale ones, within the limits of rounding.

The stale values are those of program order in isolated memory, where no kernel overwrites an operand. A hidden write is such
an overwrite, of which XLA does not know. `error` is the relative error of the actual values compared with the intended ones.
`stale_error` is their error compared with the stale ones, and `distance` is the error of the stale values compared with the
intended ones. Norms are Euclidean, computed in f64 from blocks. Errors are relative to ||intended|| or ||stale||; where that
is 0, to the other one's norm, or to 1. Integers and booleans have no rounding: their tolerance is 0, and their error is the
share of elements that differ.

The first match decides:

- Undecided: `intended` has a NaN or an infinity. Neither: only `actual` has one. NaN and infinity equal nothing, but
  `nan_as_stale` says whether `actual` and `stale` have NaN in the same elements.
- Fresh: error <= tolerance, whatever the stale values are. So an output that no hidden write reaches is fresh.
- Stale: stale_error <= tolerance. If distance <= tolerance as well, the two predictions (intended and stale) agree, and
  the output is undecided.
- Partly stale by elements, such as columns: sort each element to the nearer prediction; each part is within tolerance
  of its own prediction and not of the other. Needs distance > 4 tolerance, because sorting halves the error of noise of
  the size of the distance.
- Partly stale by rows: each row equals the intended or the stale one, and both kinds occur among the rows in which the
  two differ. A row's error is relative to its own norm, at least to the root mean square of the rows' norms, so that
  rows of rounding noise do not count as different. A row that equals both is fresh.
- Lossy: error < 0.5, and `actual` is 10 times nearer to intended than to stale. A bias gradient that lost its small elements
  to `x + s - s`, by which its author makes readers of `x` wait for the kernel that computes `s`, has error 0.25, and its
  stale values are at distance 4e4. The other gradients of that program have error 0.005 and distance 1. A sum with one stale
  term among many also looks lossy; `rounding.is_overwritten` tells the two cases apart.
- Neither: any other output.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.model.findings import FAR, Attribution, OutputNumbers, WorstElement
from ligerdiag.replay.ops.dtypes import DType
from ligerdiag.replay.ops.scope import Array

_BY_EPSILON = ((2.0**-52, 1e-12), (2.0**-23, 1e-4), (2.0**-10, 4e-3), (2.0**-7, 2e-2), (2.0**-3, 0.3))
_WIDEST = 0.5


def compute_tolerance(dtypes: Iterable[DType]) -> float:
    """Returns the largest relative error, in norm, that rounding explains. Returns 0 if there are no floating point
    values.

    dtypes: the dtypes of the instructions that an output depends on. The narrowest floating point dtype decides, with
    eps the step above 1:

    - f32, f64: sums in another order, and exp and log that differ by ulps. k roundings of at most eps / 2 add up to
      sqrt(k) eps / 2; k = 50304 terms (a vocabulary) and a factor of 8 for terms that cancel give 1.1e-4 for f32 and
      2e-13 for f64. The tolerances are 1e-4 and 1e-12.
    - f16: some 4 roundings of eps each, not averaged: 4e-3.
    - bf16: rounding errs by eps / 2 = 2^-8 at most, the truncation of Triton's interpreter by eps = 2^-7 at most and
      eps / 3 on average. Seven average truncations that all go one way: 2e-2.
    - f8: one rounding is eps / 2 = 0.06 (e4m3) or 0.125 (e5m2): 0.3 and 0.5, which reveals only gross errors.
    """
    epsilons = [_find_epsilon(dtype) for dtype in dtypes]
    widest = max(epsilons, default=0.0)
    if not widest:
        return 0.0
    return next((tolerance for epsilon, tolerance in _BY_EPSILON if widest <= epsilon), _WIDEST)


def _find_epsilon(dtype: DType) -> float:
    """Returns the step from 1 to the next larger number of a dtype; 0 for integers and booleans."""
    if dtype.kind in "biu":
        return 0.0
    if dtype.kind == "c":
        dtype = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    find: Any = ml_dtypes.finfo  # the stubs of finfo know only some of its types
    return float(find(dtype).eps)


BLOCK = 1 << 18
"""Number of elements of an output that are compared at a time. The comparison then needs a few temporary arrays of 2
MB, which stay in the cache.
"""

_LOSSY_NEARNESS = 0.1
_DISTANCE_TO_SORT = 4.0

type Block = tuple[Array, Array, Array]
"""The same part of (actual, intended, stale), each [rows, elements]; floats as f64, scaled by one power of two."""


def compare_output(
    actual: Array, intended: Array, stale: Array, *, tolerance: float, rows: bool = False
) -> OutputNumbers:
    """Compares an output's actual values with the intended and the stale ones, and returns the errors and the
    attribution. Raises ArtifactError if the shapes differ.

    tolerance: as `compute_tolerance` returns it; 0 is used for integers and booleans. rows: whether to count fresh and
    stale rows.
    """
    if not actual.shape == intended.shape == stale.shape:
        raise ArtifactError(
            f"expected arrays of one shape but got {actual.shape} (actual), {intended.shape} (intended)"
            f" and {stale.shape} (stale)"
        )
    views = _Views(actual, intended, stale)
    limit = 0.0 if views.exact else tolerance
    sums = _sum_up(views)
    error, stale_error, distance = sums.error, sums.stale_error, sums.distance
    counts = _Rows(total=views.rows)
    if not sums.finite_intended:
        attribution = Attribution.UNDECIDED
    elif not sums.finite_actual:
        attribution = Attribution.NEITHER
    elif error <= limit:
        attribution = Attribution.FRESH
    elif stale_error <= limit:
        attribution = Attribution.STALE if distance > limit else Attribution.UNDECIDED
    elif _is_partly_stale_by_elements(views, sums, limit) or (counts := _count_rows(views, sums, limit)).partly_stale:
        attribution = Attribution.PARTLY_STALE
    elif error < FAR and not sums.to_intended >= _LOSSY_NEARNESS * sums.to_stale:
        attribution = Attribution.LOSSY
    else:
        attribution = Attribution.NEITHER
    if rows and sums.finite_intended and not counts.counted:
        counts = _count_rows(views, sums, limit)
    return OutputNumbers(
        attribution=attribution,
        error=error,
        stale_error=stale_error,
        distance=distance,
        tolerance=limit,
        rows_fresh=counts.fresh if rows else 0,
        rows_stale=counts.stale if rows else 0,
        rows=views.rows if rows else 0,
        nan_as_stale=sums.finite_intended and sums.has_nan and sums.same_nan,
        worst=None if attribution in _WITHOUT_WORST else _find_worst(actual, intended),
    )


_WITHOUT_WORST = (Attribution.FRESH, Attribution.UNDECIDED)


def _find_worst(actual: Array, intended: Array) -> WorstElement | None:
    """Returns the element in which two arrays of one shape differ most, where a NaN or an infinity in `actual` differs
    most of all; None for complex numbers and for arrays without elements.
    """
    if not actual.size or "c" in (actual.dtype.kind, intended.dtype.kind):
        return None
    left, right = actual.reshape(-1), intended.reshape(-1)
    place, most = 0, -1.0
    for start in range(0, actual.size, BLOCK):
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = np.abs(
                left[start : start + BLOCK].astype(np.float64) - right[start : start + BLOCK].astype(np.float64)
            )
        gaps[~np.isfinite(gaps)] = math.inf
        at = int(np.argmax(gaps))
        if gaps[at] > most:
            place, most = start + at, float(gaps[at])
    return WorstElement(
        dtype=actual.dtype.name,
        shape=tuple(actual.shape),
        index=tuple([int(one) for one in np.unravel_index(place, actual.shape)]),
        intended=float(right[place]),
        actual=float(left[place]),
    )


def compute_error(actual: Array, intended: Array) -> float:
    """Returns ||actual - intended|| / ||intended||. Raises ArtifactError if the shapes differ.

    If ||intended|| is 0, returns ||actual||. For integers, returns the share of elements that differ. If either array
    is not finite, returns NaN.
    """
    return compare_output(actual, intended, intended, tolerance=math.inf).error


def rank_error(error: float) -> float:
    """Returns a sort key for a relative error. NaN, the error of values that are not finite, ranks as infinite."""
    return math.inf if math.isnan(error) else error


@dataclass(slots=True)
class _Sums:
    """Sums over all elements: the squares of the intended and of the stale values, and for each pair of arrays, such as
    `actual_intended`, the squares of the differences. For integers and booleans, these are the number of elements, and
    the numbers of elements that differ.
    """

    exact: bool
    intended: float = 0.0
    stale: float = 0.0
    actual_intended: float = 0.0
    actual_stale: float = 0.0
    stale_intended: float = 0.0
    finite_actual: bool = True
    finite_intended: bool = True
    finite_stale: bool = True
    has_nan: bool = False
    """Whether the actual values have a NaN."""
    same_nan: bool = True
    """Whether the actual and the stale values have NaN in the same elements."""

    @property
    def to_intended(self) -> float:
        return self._root(self.actual_intended)

    @property
    def to_stale(self) -> float:
        return self._root(self.actual_stale) if self.finite_stale else math.inf

    @property
    def error(self) -> float:
        finite = self.finite_actual and self.finite_intended
        return self.to_intended / self.scale_intended if finite else math.nan

    @property
    def stale_error(self) -> float:
        finite = self.finite_actual and self.finite_stale
        return self.to_stale / self.scale_stale if finite else math.nan

    @property
    def distance(self) -> float:
        finite = self.finite_intended and self.finite_stale
        return self._root(self.stale_intended) / self.scale_intended if finite else math.nan

    @property
    def scale_intended(self) -> float:
        return self._scale(self.intended, self.stale)

    @property
    def scale_stale(self) -> float:
        return self._scale(self.stale, self.intended)

    def _scale(self, own: float, other: float) -> float:
        # a norm of the other prediction that is not finite is no scale
        return self._root(own) or (self._root(other) if math.isfinite(other) else 0.0) or 1.0

    def _root(self, total: float) -> float:
        return total if self.exact else math.sqrt(total)


class _Views:
    """The arrays `actual`, `intended` and `stale` as rows of elements, without a copy where they are contiguous,
    readable block by block.
    """

    def __init__(self, actual: Array, intended: Array, stale: Array) -> None:
        arrays = (actual, intended, stale)
        self.exact = all(a.dtype.kind in "biu" for a in arrays)
        self.complex = any(a.dtype.kind == "c" for a in arrays)
        self.rows = actual.shape[0] if actual.ndim else 1
        self.size = actual.size
        self.row_size = self.size // self.rows if self.rows else 0
        self._arrays = [a.reshape(self.rows, self.row_size) for a in arrays] if self.size else []
        if self.size and intended is stale:
            self._arrays[2] = self._arrays[1]
        self._exponent = 0 if self.exact else -self._find_exponent()

    def iterate_blocks(self) -> Iterator[tuple[int, Block]]:
        """Divides all elements into blocks and yields (number of the block's first row, block). A block has whole rows,
        or a part of one long row.
        """
        if not self.size:
            return
        height, width = max(1, BLOCK // self.row_size), min(self.row_size, BLOCK)
        for top in range(0, self.rows, height):
            for left in range(0, self.row_size, width):
                actual, intended, stale = (a[top : top + height, left : left + width] for a in self._arrays)
                intended_values = self._read(intended)
                stale_values = intended_values if self._arrays[1] is self._arrays[2] else self._read(stale)
                yield top, (self._read(actual), intended_values, stale_values)

    def _read(self, piece: Array) -> Array:
        if self.exact:
            return piece
        wide = np.ascontiguousarray(piece, np.complex128).view(np.float64) if self.complex else piece.astype(np.float64)
        return np.ldexp(wide, self._exponent) if self._exponent else wide

    def _find_exponent(self) -> int:
        """Returns the exponent of the power of two just above all intended and stale values; 0 for dtypes whose squares
        always fit into f64.

        Values divided by that power have squares that neither overflow nor vanish.
        """
        largest = 0.0
        if any(a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) > 4 for a in self._arrays):
            self._exponent = 0
            for _, (_, *predictions) in self.iterate_blocks():
                for values in predictions:
                    magnitudes = np.abs(values)
                    largest = max(largest, float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes))))
        return math.frexp(largest)[1]


def _sum_up(views: _Views) -> _Sums:
    sums = _Sums(exact=views.exact)
    with np.errstate(invalid="ignore", over="ignore"):
        for _, (actual, intended, stale) in views.iterate_blocks():
            _add_block(sums, actual, intended, stale)
    return sums


def _add_block(sums: _Sums, actual: Array, intended: Array, stale: Array) -> None:
    pairs = (actual, intended), (actual, stale), (stale, intended)
    if sums.exact:
        own, other, between = (float(np.count_nonzero(left != right)) for left, right in pairs)
        weights = float(actual.size), float(actual.size)
    else:
        own, other, between = (_sum_squares(left - right) for left, right in pairs)
        weights = _sum_squares(intended), _sum_squares(stale)
        sums.finite_actual &= math.isfinite(own) or bool(np.isfinite(actual).all())
        sums.finite_intended &= math.isfinite(weights[0])
        sums.finite_stale &= math.isfinite(weights[1])
        if not (math.isfinite(own) and math.isfinite(weights[1])):
            nans = np.isnan(actual)
            sums.has_nan |= bool(nans.any())
            sums.same_nan &= np.array_equal(nans, np.isnan(stale))
    sums.actual_intended += own
    sums.actual_stale += other
    sums.stale_intended += between
    sums.intended += weights[0]
    sums.stale += weights[1]


def _sum_squares(values: Array) -> float:
    """Returns the sum of the squares of f64 values, whose squares must not overflow; finite if all values are."""
    flat = values.reshape(-1)
    return float(np.dot(flat, flat))


def _sum_parts(views: _Views) -> list[list[float]]:
    """Assigns each element to the nearer prediction, intended or stale; returns three sums for each of the two parts.

    The sums of a part are taken over its elements: the squares of the error, of the part's own prediction, and of the
    difference between the two predictions.
    """
    parts = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    with np.errstate(invalid="ignore", over="ignore"):
        for _, (actual, intended, stale) in views.iterate_blocks():
            pairs = (actual, intended), (actual, stale), (stale, intended)
            own, other, between = (_square(views.exact, *pair) for pair in pairs)
            weights = [np.ones(actual.shape)] * 2 if views.exact else [intended * intended, stale * stale]
            nearer_stale = other < own
            for part, chosen, errors, weight in (
                (parts[0], ~nearer_stale, own, weights[0]),
                (parts[1], nearer_stale, other, weights[1]),
            ):
                for number, values in enumerate((errors, weight, between)):
                    part[number] += float(np.sum(values, where=chosen))
    return parts


def _square(exact: bool, left: Array, right: Array) -> Array:
    """Returns the squared difference of two arrays; if `exact` (integers and booleans), 1.0 for elements that differ."""
    if exact:
        return (left != right).astype(np.float64)
    difference = left - right
    return np.multiply(difference, difference, out=difference)


def _is_partly_stale_by_elements(views: _Views, sums: _Sums, limit: float) -> bool:
    """Returns whether some elements of the output equal the intended ones and all others the stale ones, up to
    rounding.

    limit: the largest relative error that rounding explains; 0 for integers and booleans.
    """
    if not (sums.finite_stale and sums.distance > _DISTANCE_TO_SORT * limit):
        return False
    return all(error <= limit**2 * weight < between for error, weight, between in _sum_parts(views))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """How many rows an output has, and how many of them equal the row of the intended values (fresh) or that of the stale
    values; 0 if not `counted`.
    """

    total: int
    fresh: int = 0
    stale: int = 0
    distinct_fresh: int = 0
    """Number of fresh rows in which the stale values differ from the intended ones."""
    counted: bool = False

    @property
    def partly_stale(self) -> bool:
        return self.fresh + self.stale == self.total and self.stale > 0 and self.distinct_fresh > 0


def _count_rows(views: _Views, sums: _Sums, limit: float) -> _Rows:
    """Counts an output's fresh and stale rows. Sums a row that is longer than a block over its blocks, which are
    consecutive.

    limit: the largest relative error that rounding explains; 0 for integers and booleans.
    """
    fresh = stale = distinct = 0
    floors = (sums.intended / max(views.rows, 1), sums.stale / max(views.rows, 1))
    pending: tuple[int, Array] | None = None

    def close(row_sums: Array) -> None:
        nonlocal fresh, stale, distinct
        own, other, between, intended, former = row_sums
        least = 1.0 if views.exact else limit**2
        if views.exact:
            is_fresh, is_stale, differs = own == 0, other == 0, between > 0
        else:
            is_fresh = own <= least * np.maximum(intended, floors[0])
            is_stale = (other <= least * np.maximum(former, floors[1])) & (other < own)
            differs = ~(between <= least * np.maximum(intended, floors[0]))
        fresh += int(is_fresh.sum())
        stale += int((is_stale & ~is_fresh).sum())
        distinct += int((is_fresh & differs).sum())

    with np.errstate(invalid="ignore", over="ignore"):
        for top, (a, i, s) in views.iterate_blocks():
            squares = [_square(views.exact, *pair) for pair in ((a, i), (a, s), (s, i))]
            squares += [np.zeros(a.shape), np.zeros(a.shape)] if views.exact else [i * i, s * s]
            row_sums = np.stack([square.sum(axis=1) for square in squares])
            if pending is not None and pending[0] == top:
                pending = (top, pending[1] + row_sums)
                continue
            if pending is not None:
                close(pending[1])
            pending = (top, row_sums)
        if pending is not None:
            close(pending[1])
    if not views.size:
        fresh = views.rows
    return _Rows(total=views.rows, fresh=fresh, stale=stale, distinct_fresh=distinct, counted=True)
