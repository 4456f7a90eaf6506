"""Evaluates operations that only move elements, and operations without operands, such as `arith.constant` and
`tt.make_range`.
"""

import re
from collections.abc import Callable

import numpy as np

from ligerdiag.effects.libtriton import parse_integer, parse_integers
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.operations.integers import Compute, Prepare, on_one
from ligerdiag.replay.triton_ir.values import (
    DType,
    Value,
    ValueType,
    fill,
    is_float,
    match_programs,
    parse_type,
    reshape_terms,
    to_array,
)


def _splat(op: Operation, function: Function) -> Compute:
    rank = len(parse_type(function.types[op.results[0]]).shape)

    def change(array: Array) -> Array:
        return array.reshape(array.shape[0], *(1,) * rank)

    return on_one(lambda value: reshape_terms(value, change))


def _unsplat(op: Operation, function: Function) -> Compute:
    del op, function

    def change(array: Array) -> Array:
        return array.reshape(array.shape[0], -1)[:, 0]

    return on_one(lambda value: reshape_terms(value, change))


def _expand_dims(op: Operation, function: Function) -> Compute:
    del function
    axis = parse_integer(op.text, "axis")
    if axis is None:
        raise NotCoveredError("a tt.expand_dims whose axis could not be read")

    def change(array: Array) -> Array:
        return np.expand_dims(array, axis + 1)

    return on_one(lambda value: reshape_terms(value, change))


def _keep(op: Operation, function: Function) -> Compute:
    """Returns the function that computes a broadcast: it returns the value unchanged, because an axis may stay of
    length 1.
    """
    del op, function
    return on_one(lambda value: value)


def _trans(op: Operation, function: Function) -> Compute:
    del function
    order = parse_integers(op.text, "order")
    if order is None:
        raise NotCoveredError("a tt.trans whose order could not be read")
    axes = (0, *(axis + 1 for axis in order))

    def change(array: Array) -> Array:
        return array.transpose(axes)

    return on_one(lambda value: reshape_terms(value, change))


def _reshape(op: Operation, function: Function) -> Compute:
    source = parse_type(function.types[op.operands[0]]).shape
    target = parse_type(function.types[op.results[0]]).shape
    if source == target:
        return on_one(lambda value: value)

    def change(array: Array) -> Array:
        if array.size == array.shape[0]:
            return array.reshape(array.shape[0], *(1,) * len(target))
        return fill_to(array, source).reshape(array.shape[0], *target)

    def move(array: Array) -> Array:
        return _move_ones(array, source, target)

    def compute(value: Value) -> Value:
        if [size for size in source if size != 1] == [size for size in target if size != 1]:
            return reshape_terms(value, move)
        return change(to_array(value))

    return compute


def _move_ones(array: Array, source: tuple[int, ...], target: tuple[int, ...]) -> Array:
    kept = iter([own for own, size in zip(array.shape[1:], source, strict=True) if size != 1])
    return array.reshape(array.shape[0], *(1 if size == 1 else next(kept) for size in target))


def fill_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Broadcasts the array to the shape [n, *shape], as `values.fill` does. The length of the array's first axis, the
    axis of programs, is `n`. An array that has this shape already is returned itself.
    """
    return array if array.shape[1:] == shape else fill(array, shape)


def _get_shape(op: Operation, function: Function, operand: int = 0) -> tuple[int, ...]:
    return parse_type(function.types[op.operands[operand]]).shape


def _join(op: Operation, function: Function) -> Compute:
    shape = _get_shape(op, function)

    def compute(left: Value, right: Value) -> Array:
        pair = match_programs([fill_to(to_array(left), shape), fill_to(to_array(right), shape)])
        return np.stack(pair, axis=-1)

    return compute


def _split(op: Operation, function: Function) -> Compute:
    shape = _get_shape(op, function)

    def compute(value: Value) -> tuple[Array, Array]:
        array = fill_to(to_array(value), shape)
        return array[..., 0], array[..., 1]

    return compute


def _cat(op: Operation, function: Function) -> Compute:
    shapes = [_get_shape(op, function, operand) for operand in range(2)]

    def compute(left: Value, right: Value) -> Array:
        pair = [fill_to(to_array(value), shape) for value, shape in zip((left, right), shapes, strict=True)]
        return np.concatenate(match_programs(pair), axis=1)

    return compute


def _gather(op: Operation, function: Function) -> Compute:
    axis = parse_integer(op.text, "axis")
    shape, indexed = _get_shape(op, function), _get_shape(op, function, 1)
    if axis is None:
        match = re.search(r"axis = (\d+)", op.text)
        if match is None:
            raise NotCoveredError("a tt.gather whose axis could not be read")
        axis = int(match[1])
    along = axis + 1

    def compute(source: Value, indices: Value) -> Array:
        array, index = match_programs([fill_to(to_array(source), shape), fill_to(to_array(indices), indexed)])
        inside = (index >= 0) & (index < array.shape[along])
        found = np.take_along_axis(array, np.where(inside, index, 0).astype(np.int64), axis=along)
        return np.where(inside, found, found.dtype.type(0))

    return compute


def _histogram(op: Operation, function: Function) -> Compute:
    (size,), (bins,) = _get_shape(op, function), parse_type(function.types[op.results[0]]).shape
    dtype = parse_type(function.types[op.results[0]]).get_dtype()

    def compute(source: Value, mask: Value | None = None) -> Array:
        array = fill_to(to_array(source), (size,))
        counted = np.ones((1, size), bool) if mask is None else fill_to(to_array(mask), (size,))
        array, counted = match_programs([array, counted])
        counted = counted & (array >= 0) & (array < bins)
        picked: Array = np.where(counted, array, array.dtype.type(0))
        places = picked.astype(np.int64) + bins * np.arange(array.shape[0], dtype=np.int64)[:, np.newaxis]
        counts = np.bincount(places[counted], minlength=bins * array.shape[0])
        return counts.reshape(-1, bins).astype(dtype)

    return compute


SHAPING: dict[str, Prepare] = {
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _keep,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.split": _split,
    "tt.cat": _cat,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
}


_CONSTANT = re.compile(r"arith\.constant (?:\{.*?\} )?(.*?)(?: : [^:]*)?$")
_NUMBER = re.compile(r"-?0x[0-9A-Fa-f]+|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|true|false")
MOST_LISTED = 1 << 16


def make_constant(op: Operation, function: Function) -> Array:
    """Returns the value of an `arith.constant`. If all elements are equal, the result has a single element and the
    shape [1] or [1, 1, ...].
    """
    kind = parse_type(function.types[op.results[0]])
    dtype = kind.get_dtype()
    match = _CONSTANT.search(op.text)
    if match is None:
        raise NotCoveredError("an arith.constant in an unknown notation")
    text = match[1].strip()
    if text.startswith("dense<"):
        return _make_dense(text[len("dense<") : text.rindex(">")], kind, dtype)
    return _make_splat(text, kind, dtype)


def _make_splat(text: str, kind: ValueType, dtype: DType) -> Array:
    number = parse_number(text, dtype)
    return number.reshape((1,) * (1 + len(kind.shape)))


def _make_dense(text: str, kind: ValueType, dtype: DType) -> Array:
    if text.startswith('"0x'):
        data = bytes.fromhex(text[3:].rstrip('"'))
        array = np.frombuffer(data, np.uint8 if dtype == np.bool_ else dtype)
        if dtype == np.bool_:
            array = np.unpackbits(array, bitorder="little")[: int(np.prod(kind.shape))].astype(bool)
        if array.size == 1:
            return array.reshape((1,) * (1 + len(kind.shape)))
        return array.reshape(1, *kind.shape)
    if not text.startswith("["):
        return _make_splat(text, kind, dtype)
    if len(text) > 32 * MOST_LISTED:
        raise NotCoveredError(f"a constant that lists its elements in more than {32 * MOST_LISTED} characters")
    numbers = [parse_number(word, dtype) for word in _NUMBER.findall(text)]
    return np.array([number[()] for number in numbers], dtype).reshape(1, *kind.shape)


def parse_number(text: str, dtype: DType) -> Array:
    """Parses a number that MLIR has printed: decimal, or hexadecimal bits if it is NaN or infinite."""
    if text in ("true", "false"):
        return np.array(-1 if text == "true" and dtype.kind == "i" else text == "true").astype(dtype)
    if _NUMBER.fullmatch(text) is None:
        raise NotCoveredError(f"a constant whose value is written as `{text[:40]}`")
    if is_float(dtype):
        if text.startswith("0x"):
            return np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)
        return np.array(np.float64(float(text))).astype(dtype)
    value = int(text, 0)
    if dtype == np.bool_:
        return np.array(bool(value))
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return np.array(value, f"u{dtype.itemsize}").view(dtype)


def make_poison(op: Operation, function: Function) -> Array:
    """Returns zeros for a poison or undefined value. The results of a kernel that uses such a value are undefined."""
    kind = parse_type(function.types[op.results[0]])
    return np.zeros((1,) * (1 + len(kind.shape)), kind.get_dtype())


def make_range(op: Operation, function: Function) -> Array:
    """Returns the integers of a `tt.make_range`, as an array [1, end - start]."""
    start, end = parse_integer(op.text, "start"), parse_integer(op.text, "end")
    size = parse_type(function.types[op.results[0]]).shape
    if start is None or end is None or size != (end - start,):
        raise NotCoveredError("a range with unknown bounds")
    return np.arange(start, end, dtype=np.int32).reshape(1, -1)


CONSTANTS: dict[str, Callable[[Operation, Function], Array]] = {
    "arith.constant": make_constant,
    "llvm.mlir.undef": make_poison,  # until Triton 3.1 or so
    "ub.poison": make_poison,
    "tt.make_range": make_range,
}
