"""The largest difference that rounding can cause between two results of one computation."""

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.replay.dtypes import DType

_BY_EPSILON = ((2.0**-52, 1e-12), (2.0**-23, 1e-4), (2.0**-10, 4e-3), (2.0**-7, 2e-2), (2.0**-3, 0.3))
_WIDEST = 0.5


def compute_tolerance(dtypes: Iterable[DType]) -> float:
    """Relative error in norm that rounding explains; `dtypes` are those of the instructions that an output depends on.

    The narrowest floating point dtype decides, with eps the step above 1:

    - f32, f64: sums in another order, and exp and log that differ by ulps. k roundings of at most eps / 2 add up to
      sqrt(k) eps / 2; k = 50304 terms (a vocabulary) and a factor of 8 for terms that cancel give 1.1e-4 for f32 and
      2e-13 for f64. Taken: 1e-4 and 1e-12.
    - f16: some 4 roundings of eps each, not averaged: 4e-3.
    - bf16: rounding errs by eps / 2 = 2^-8 at most, the truncation of Triton's interpreter by eps = 2^-7 at most and
      eps / 3 on average. Seven average truncations that all go one way: 2e-2.
    - f8: one rounding is eps / 2 = 0.06 (e4m3) or 0.125 (e5m2): 0.3 and 0.5, which tells only what is quite wrong.

    0 where there are no floating point values.
    """
    epsilons = [_find_epsilon(dtype) for dtype in dtypes]
    widest = max(epsilons, default=0.0)
    if not widest:
        return 0.0
    return next((tolerance for epsilon, tolerance in _BY_EPSILON if widest <= epsilon), _WIDEST)


def _find_epsilon(dtype: DType) -> float:
    """0 for integers and booleans."""
    if dtype.kind in "biu":
        return 0.0
    if dtype.kind == "c":
        dtype = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    find: Any = ml_dtypes.finfo  # its stubs know some of its own types only
    return float(find(dtype).eps)
