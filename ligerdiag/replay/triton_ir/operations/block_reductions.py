"""Evaluates reductions, scans and maps of blocks by a function of scalars: `tt.reduce`, `tt.scan`,
`tt.map_elementwise`.

A sum in f32, f64 or integers over one operand is NumPy's: pairwise along the last axis, sequential along another, as in
Triton's own interpreter. The order does not matter for minima, maxima, products of integers and bitwise operations. Any
other reduction is a tree that combines neighbours level by level: elements 0 and 1, 2 and 3, ...; a last odd one waits
for the next level. Elements keep their order, so the function need not be commutative. A scan combines element after
element, from the end if it is reversed. The function is evaluated as if each element were a program of the grid.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ligerdiag.effects.libtriton import parse_integer
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.operations.shaping import fill_to
from ligerdiag.replay.triton_ir.values import DType, Value, is_float, is_narrow, match_programs, parse_type, to_array

type Combine = Callable[[Sequence[Array]], Sequence[Array]]
"""Runs the region of a reduction or scan on arrays of shape [elements]; the first half of them are the left operands.
"""

_UFUNCS: dict[str, Any] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.muli": np.multiply,
    "arith.mulf": np.multiply,
}
_ENDS = frozenset({"tt.reduce.return", "tt.scan.return", "tt.return"})
_MOST_CALLS = 8


def find_ufunc(functions: Mapping[str, Function], function: Function, op: Operation) -> str:
    """Returns the name of the operation that a reduction's region computes. Returns an empty string if the region
    computes several operations.

    If the region only calls a function, the operation that this function computes counts.
    """
    blocks = op.regions[0] if op.regions else ()
    if not blocks:
        return ""
    body, arguments = function.get_operations(op.index, 0, 0), blocks[0].arguments
    for _ in range(_MOST_CALLS):
        if len(body) != 2 or body[0].operands != arguments or body[1].name not in _ENDS:
            return ""
        if body[1].operands != body[0].results or len(body[0].results) != 1:
            return ""
        if body[0].name != "tt.call":
            return body[0].name
        callee = functions.get(body[0].callee)
        if callee is None or not callee.blocks:
            return ""
        body, arguments = callee.get_operations(-1, 0, 0), callee.arguments
    return ""


def _get_axis(op: Operation) -> int:
    axis = parse_integer(op.text, "axis")
    if axis is None:
        raise NotCoveredError(f"a {op.name} whose axis could not be read")
    return axis + 1


def reduce(op: Operation, function: Function, name: str, values: Sequence[Value], combine: Combine) -> list[Array]:
    """Evaluates a `tt.reduce`.

    name: the name of the only operation in its region, see `find_ufunc`. combine: runs the region.
    """
    shapes = [parse_type(function.types[operand]).shape for operand in op.operands]
    arrays = match_programs([fill_to(to_array(value), shape) for value, shape in zip(values, shapes, strict=True)])
    axis = _get_axis(op)
    ufunc = _find_reduction(name, arrays[0].dtype) if len(arrays) == 1 else None
    if ufunc is not None:
        (array,) = arrays
        if array.dtype == np.bool_ and ufunc in (np.add, np.multiply):
            ufunc = np.bitwise_xor if ufunc is np.add else np.bitwise_and
        found: Any = ufunc.reduce(array, axis=axis, dtype=array.dtype)
        return [np.asarray(found, array.dtype)]
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    while moved[0].shape[-1] > 1:
        size = moved[0].shape[-1]
        rest = [array[..., size - 1 :] for array in moved] if size % 2 else []
        left, right = ([array[..., start : size - size % 2 : 2] for array in moved] for start in (0, 1))
        results = _apply(combine, [*left, *right])
        moved = [np.concatenate(pair, -1) for pair in zip(results, rest, strict=True)] if rest else results
    return [array[..., 0] for array in moved]


def _find_reduction(name: str, dtype: DType) -> Any:
    """Returns NumPy's ufunc for the operation called `name`; None if the order matters, so that a tree must reduce."""
    if name not in _UFUNCS:
        return None
    if name in ("arith.addf", "arith.mulf"):
        return np.add if name == "arith.addf" and not is_narrow(dtype) else None
    return None if is_float(dtype) and is_narrow(dtype) and dtype != np.float16 else _UFUNCS[name]


def scan(op: Operation, function: Function, name: str, values: Sequence[Value], combine: Combine) -> list[Array]:
    """Evaluates a `tt.scan`.

    name: the name of the only operation in its region, see `find_ufunc`. combine: runs the region.
    """
    shapes = [parse_type(function.types[operand]).shape for operand in op.operands]
    arrays = match_programs([fill_to(to_array(value), shape) for value, shape in zip(values, shapes, strict=True)])
    axis = _get_axis(op)
    reverse = re.search(r"reverse = (\w+)", op.text)
    if reverse is None:
        raise NotCoveredError("a tt.scan whose direction could not be read")
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    if reverse[1] == "true":
        moved = [array[..., ::-1] for array in moved]
    dtype = moved[0].dtype
    if len(moved) == 1 and name in _UFUNCS and not is_narrow(dtype) and dtype != np.bool_:
        results = [_UFUNCS[name].accumulate(moved[0], axis=-1, dtype=dtype)]
    else:
        columns = [[array[..., 0] for array in moved]]
        for place in range(1, moved[0].shape[-1]):
            columns.append(_apply(combine, [*columns[-1], *(array[..., place] for array in moved)]))
        results = [np.stack(column, -1) for column in zip(*columns, strict=True)]
    if reverse[1] == "true":
        results = [array[..., ::-1] for array in results]
    return [np.moveaxis(array, -1, axis) for array in results]


def map_elements(op: Operation, function: Function, values: Sequence[Value], combine: Combine) -> list[Array]:
    """Evaluates a `tt.map_elementwise`. combine: runs its region."""
    pack = parse_integer(op.text, "pack") or 1
    shapes = [parse_type(function.types[operand]).shape for operand in op.operands]
    arrays = match_programs([fill_to(to_array(value), shape) for value, shape in zip(values, shapes, strict=True)])
    if pack == 1:
        return _apply(combine, arrays)
    shape = arrays[0].shape
    packed = [array.reshape(-1, pack)[:, place] for array in arrays for place in range(pack)]
    results = combine([np.ascontiguousarray(array) for array in packed])
    size = packed[0].size
    found = [np.broadcast_to(result, (size,)) for result in results]
    return [np.stack(found[start : start + pack], -1).reshape(shape) for start in range(0, len(found), pack)]


def _apply(combine: Combine, arrays: Sequence[Array]) -> list[Array]:
    shape = arrays[0].shape
    flat = [array.reshape(-1) for array in arrays]
    return [np.broadcast_to(result, flat[0].shape).reshape(shape) for result in combine(flat)]
