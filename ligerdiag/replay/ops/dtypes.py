"""Has NumPy's dtypes for XLA's element types. Rounds results, compares them bit by bit, and converts them between
types.

Arithmetic of narrow floats (f16, bf16, f8) runs in f32 and is rounded to the result's dtype once, as XLA:GPU does after
it has normalized them. An instruction's declared dimensions are ignored and only its element type is used, because a
computation of scalars may be called with whole arrays.

`convert` from a float to an integer truncates towards zero; a value out of range becomes the nearest end of the range,
and NaN becomes 0. From anything to pred, it gives true unless the value is 0; NaN is true. From an integer to a
narrower one, it keeps the low bits; from a complex number to a real one, the real part. From a float to a narrower one,
it rounds to nearest, ties to even, and keeps subnormals. `bitcast-convert` reinterprets the bytes (little endian);
between types of different width, the result has one minor dimension more or less. `reduce-precision` rounds mantissas
to nearest even; exponents out of range become infinity and zero.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import DTYPE_NAMES
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value

type DType = np.dtype[Any]

_DTYPES: dict[str, DType] = {
    "pred": np.dtype(np.bool_),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3b11fnuz": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "f8e3m4": np.dtype(ml_dtypes.float8_e3m4),
}

NARROW_FLOATS = frozenset(dtype for name, dtype in _DTYPES.items() if name in ("bf16", "f16") or name.startswith("f8"))
"""Floating point dtypes whose arithmetic runs in f32 and is then rounded."""


def get_dtype(shape: ShapeProto) -> DType:
    """Returns the dtype of an array shape. Raises NotCoveredError for element types that NumPy cannot store, such as
    `s4`."""
    name = DTYPE_NAMES.get(shape.element_type, f"type {shape.element_type}")
    if name not in _DTYPES:
        raise NotCoveredError(f"element type {name}")
    return _DTYPES[name]


def get_dimensions(shape: ShapeProto) -> tuple[int, ...]:
    """Returns the dimensions of an array shape."""
    return tuple(shape.dimensions)


def elementwise(compute: Callable[..., Any]) -> Evaluate:
    """Turns a function of arrays into an `Evaluate`, a function that computes the result of an HLO instruction.

    The given function gets narrow floats as f32, and its operands may broadcast. Its result is rounded to the dtype of
    the instruction.
    """

    def evaluate(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
        arrays = [get_array(instruction, operand) for operand in operands]
        with np.errstate(all="ignore"):  # division by zero, overflow and NaN are values, not events
            if max([array.size for array in arrays], default=0) > 2 * _BLOCK:
                return _compute_in_blocks(compute, arrays, get_dtype(instruction.shape))
            return round_to(compute(*[widen(array) for array in arrays]), instruction)

    return evaluate


_BLOCK = 1 << 17
"""Number of elements of large arrays that are computed at a time: widened values stay in the cache and take no extra
memory. Allocating a page of memory costs more than computing its contents.
"""


def _compute_in_blocks(compute: Callable[..., Any], arrays: Sequence[Array], dtype: DType) -> Array:
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    whole = [array if array.ndim == 0 else np.broadcast_to(array, shape) for array in arrays]
    result = np.empty(shape, dtype)
    for block in _list_blocks(shape):
        parts = [widen(array if array.ndim == 0 else array[block]) for array in whole]
        result[block] = compute(*parts)
    return result


def _list_blocks(shape: tuple[int, ...]) -> Iterator[tuple[int | slice, ...]]:
    """Yields indices that cut an array of this shape into blocks of at most `_BLOCK` elements.

    As many inner axes as fit into a block stay whole. Each block takes a range of the axis outside of these, and a
    single index of each axis further out.
    """
    axis, inner = len(shape) - 1, 1
    while axis > 0 and inner * shape[axis] <= _BLOCK:
        inner *= shape[axis]
        axis -= 1
    rows = max(1, _BLOCK // inner)
    for outer in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield *outer, slice(start, start + rows)


_COMPARED_WORDS = 1 << 17
"""Number of words that are compared at a time, so that they stay in the cache."""


def have_same_bits(one: Array, other: Array) -> bool:
    """Returns whether two arrays of equal shape and dtype are equal bit for bit."""
    if one is other:
        return True
    left, right = _view_bytes(one), _view_bytes(other)
    if left.ctypes.data == right.ctypes.data:
        return True
    whole = left.size - left.size % 8
    words, others = left[:whole].view(np.uint64), right[:whole].view(np.uint64)
    return np.array_equal(left[whole:], right[whole:]) and all(
        np.array_equal(words[start : start + _COMPARED_WORDS], others[start : start + _COMPARED_WORDS])
        for start in range(0, words.size, _COMPARED_WORDS)
    )


def count_different(one: Array, other: Array) -> int:
    """Counts the elements that differ in at least one bit between two arrays of equal shape and dtype."""
    if have_same_bits(one, other):
        return 0
    width = min(one.itemsize, 8)
    left, right = (_view_bytes(array).view(f"u{width}").reshape(one.size, -1) for array in (one, other))
    return sum(
        int(
            np.count_nonzero(
                (left[start : start + _COMPARED_WORDS] != right[start : start + _COMPARED_WORDS]).any(axis=1)
            )
        )
        for start in range(0, one.size, _COMPARED_WORDS)
    )


def _view_bytes(array: Array) -> Array:
    # NumPy may have made a scalar of the array
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def get_array(instruction: HloInstruction, operand: Value) -> Array:
    """Returns the operand if it is an array. Raises ArtifactError, with the instruction's name, if it is a tuple."""
    if isinstance(operand, tuple):
        raise ArtifactError(
            f"expected an array as operand of `{instruction.name}` ({instruction.opcode}) but got a tuple"
        )
    return operand


def widen(array: Array) -> Array:
    """Returns an array of narrow floats as f32, exactly. An array of another type is returned unchanged."""
    return array.astype(np.float32) if array.dtype in NARROW_FLOATS else array


def round_to(computed: Any, instruction: HloInstruction) -> Array:
    """Returns the computed values, rounded to the element type of the instruction's result."""
    return np.asarray(computed).astype(get_dtype(instruction.shape), copy=False)


_where: Any = np.where  # the overloads of `where` cannot follow a dtype made at run time

_MANTISSA_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def _convert(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return convert(get_array(instruction, operands[0]), get_dtype(instruction.shape))


def convert(array: Array, dtype: DType) -> Array:
    """Returns the array in another element type, converted as XLA converts it."""
    if array.dtype == dtype:
        return array
    source = widen(array)
    with np.errstate(all="ignore"):
        if dtype == np.bool_:
            return np.asarray(source != 0)
        if source.dtype.kind == "c" and dtype.kind != "c":
            source = source.real
        if source.dtype.kind == "f" and dtype.kind in "iu":
            return _truncate(source, dtype)
        return source.astype(dtype, copy=np.may_share_memory(source, array))


def _truncate(floats: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype)
    wide: Any = floats.astype(np.float64)
    above = wide >= float(limits.max)  # 2**63 for s64: float() rounds up, and from there on nothing fits
    inside = np.where(above | (wide <= float(limits.min)) | np.isnan(wide), 0.0, wide)
    result: Any = np.where(above, limits.max, inside.astype(dtype))
    return np.where(wide <= float(limits.min), limits.min, result).astype(dtype)


def _convert_bits(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    array, dtype = get_array(instruction, operands[0]), get_dtype(instruction.shape)
    if array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    if array.dtype.itemsize > dtype.itemsize:
        return np.ascontiguousarray(array[..., np.newaxis]).view(dtype)
    if array.shape[-1:] != (dtype.itemsize // array.dtype.itemsize,):
        raise ArtifactError(
            f"`{instruction.name}` cannot reinterpret the bytes of {array.dtype} of shape {array.shape} as {dtype}"
        )
    return np.ascontiguousarray(array).view(dtype)[..., 0]


def _reduce_precision(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    array = get_array(instruction, operands[0])
    mantissa = _MANTISSA_BITS.get(array.dtype.name)
    if mantissa is None:
        raise NotCoveredError(f"reduce-precision of {array.dtype}")
    return reduce_precision(array, mantissa, instruction.proto.exponent_bits, instruction.proto.mantissa_bits)


def reduce_precision(array: Array, mantissa: int, exponent_bits: int, mantissa_bits: int) -> Array:
    """Returns the floats of `array` in their own dtype, rounded to a narrower format.

    mantissa: number of mantissa bits of the dtype of `array`. exponent_bits, mantissa_bits: numbers of bits of the
    narrower format.
    """
    width = 8 * array.dtype.itemsize
    bits: Any = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    unsigned = bits.dtype.type
    sign: Any = bits & unsigned(1 << (width - 1))
    exponents: Any = unsigned(((1 << (width - 1 - mantissa)) - 1) << mantissa)
    is_nan: Any = (bits & ~unsigned(1 << (width - 1))) > exponents
    result: Any = bits
    if mantissa_bits < mantissa:
        dropped = mantissa - mantissa_bits
        is_odd = (bits >> unsigned(dropped)) & unsigned(1)
        result = (bits + is_odd + unsigned((1 << (dropped - 1)) - 1)) & ~unsigned((1 << dropped) - 1)
    if exponent_bits < width - 1 - mantissa:
        bias, reduced_bias = (1 << (width - 2 - mantissa)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = result & exponents
        infinity: Any = sign | exponents
        result = _where(exponent > unsigned((bias + reduced_bias) << mantissa), infinity, result)
        result = _where(exponent <= unsigned((bias - reduced_bias) << mantissa), sign, result)
    return _where(is_nan, bits if mantissa_bits else sign | exponents, result).view(array.dtype)


CONVERSION: Mapping[str, Evaluate] = {
    "bitcast-convert": _convert_bits,
    "convert": _convert,
    "reduce-precision": _reduce_precision,
}
