"""From one element type to another.

(1) A float to an integer truncates towards zero; what is out of range becomes the nearest end of the range, NaN 0.
(2) Anything to pred is whether it is not 0; NaN is not 0.
(3) An integer to a narrower one keeps the low bits; a complex number to a real one keeps the real part.
(4) To a narrower float: to nearest, ties to even, subnormals kept.
(5) `bitcast-convert` reads the bytes (little endian); between widths there is one minor dimension more or less.
(6) `reduce-precision` rounds mantissas to nearest even; exponents out of range become infinity and zero.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.dtypes import DType, get_dtype
from ligerdiag.replay.opcodes.rounding import get_array, widen
from ligerdiag.replay.opcodes.scope import Array, Evaluate, NotCoveredError, Scope, Value

_where: Any = np.where  # its overloads cannot follow a dtype made at run time

_MANTISSA_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def _convert(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return convert(get_array(instruction, operands[0]), get_dtype(instruction.shape))


def convert(array: Array, dtype: DType) -> Array:
    """Returns the array in another element type, as XLA converts; see (1) to (4)."""
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
        return source.astype(dtype)


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
        raise ArtifactError(f"`{instruction.name}` reads {dtype} from {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(array).view(dtype)[..., 0]


def _reduce_precision(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    array = get_array(instruction, operands[0])
    mantissa = _MANTISSA_BITS.get(array.dtype.name)
    if mantissa is None:
        raise NotCoveredError(f"reduce-precision of {array.dtype}")
    return reduce_precision(array, mantissa, instruction.proto.exponent_bits, instruction.proto.mantissa_bits)


def reduce_precision(array: Array, mantissa: int, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats with `mantissa` mantissa bits as if they had had that format, in their own dtype; see (6)."""
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
