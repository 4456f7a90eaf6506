"""Comparing and choosing, element by element.

(1) `compare` orders floats as IEEE 754 does (NaN is unordered), or, with `TOTALORDER`, by sign and magnitude of their
    bits: -NaN < -inf < -0 < 0 < inf < NaN.
(2) `maximum`, `minimum` and `clamp` hand NaN on. Of two zeros of different sign either one may come out.
(3) The bounds of `clamp` and the predicate of `select` may be scalars beside arrays.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.opcodes.rounding import elementwise, get_array, widen
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value

_where: Any = np.where  # its overloads cannot follow a dtype made at run time

_DIRECTIONS: Mapping[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def _compare(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    left, right = [get_array(instruction, operand) for operand in operands]
    compute = _DIRECTIONS.get(instruction.proto.comparison_direction)
    if compute is None:
        raise ArtifactError(f"`{instruction.name}` compares in direction `{instruction.proto.comparison_direction}`")
    if instruction.proto.comparison_type == "TOTALORDER" and left.dtype.kind not in "iub":
        return np.asarray(compute(_rank(left), _rank(right)))
    with np.errstate(invalid="ignore"):
        return np.asarray(compute(widen(left), widen(right)))


def _rank(floats: Array) -> Any:
    """Signed integers in the total order of the floats."""
    bits: Any = floats.view(np.dtype(f"i{floats.dtype.itemsize}"))
    most: int = np.iinfo(bits.dtype).max
    return _where(bits < 0, bits ^ most, bits)


def _clamp(low: Array, operand: Array, high: Array) -> Any:
    return np.minimum(np.maximum(operand, low), high)


def _select(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    predicate, on_true, on_false = [get_array(instruction, operand) for operand in operands]
    if predicate.ndim == 0 and on_true.shape == on_false.shape:
        return on_true if predicate else on_false
    return np.where(predicate, on_true, on_false)


CHOICE: Mapping[str, Evaluate] = {
    "clamp": elementwise(_clamp),
    "compare": _compare,
    "is-finite": elementwise(np.isfinite),
    "maximum": elementwise(np.maximum),
    "minimum": elementwise(np.minimum),
    "select": _select,
}
