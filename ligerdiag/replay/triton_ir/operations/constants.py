"""Constants: `arith.constant`, `ub.poison` and `llvm.mlir.undef`, `tt.make_range`, and numbers of the grid."""

import re
from collections.abc import Callable

import numpy as np

from ligerdiag.effects.ttir.libtriton import parse_integer
from ligerdiag.effects.ttir.module import Function, Operation
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.values import DType, ValueType, is_float, parse_type

_CONSTANT = re.compile(r"arith\.constant (?:\{.*?\} )?(.*?)(?: : [^:]*)?$")
_NUMBER = re.compile(r"-?0x[0-9A-Fa-f]+|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|true|false")
MOST_LISTED = 1 << 16


def make_constant(op: Operation, function: Function) -> Array:
    """Returns the value of an `arith.constant`: [1] or [1, *ones], or all elements where they differ."""
    kind = parse_type(function.types[op.results[0]])
    dtype = kind.get_dtype()
    match = _CONSTANT.search(op.text)
    if match is None:
        raise NotCoveredError("a constant in a form that is not known")
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
        raise NotCoveredError("a constant of very many elements")
    numbers = [parse_number(word, dtype) for word in _NUMBER.findall(text)]
    return np.array([number[()] for number in numbers], dtype).reshape(1, *kind.shape)


def parse_number(text: str, dtype: DType) -> Array:
    """Returns the number that MLIR prints like this, with its bits in hexadecimal where it is a NaN or infinite."""
    if text in ("true", "false"):
        return np.array(-1 if text == "true" and dtype.kind == "i" else text == "true").astype(dtype)
    if _NUMBER.fullmatch(text) is None:
        raise NotCoveredError(f"a constant `{text[:40]}`")
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
    """Zeros: whoever uses them has a program without a meaning."""
    kind = parse_type(function.types[op.results[0]])
    return np.zeros((1,) * (1 + len(kind.shape)), kind.get_dtype())


def make_range(op: Operation, function: Function) -> Array:
    """Returns the integers of a `tt.make_range`, [1, end - start]."""
    start, end = parse_integer(op.text, "start"), parse_integer(op.text, "end")
    size = parse_type(function.types[op.results[0]]).shape
    if start is None or end is None or size != (end - start,):
        raise NotCoveredError("a range whose bounds could not be told")
    return np.arange(start, end, dtype=np.int32).reshape(1, -1)


CONSTANTS: dict[str, Callable[[Operation, Function], Array]] = {
    "arith.constant": make_constant,
    "llvm.mlir.undef": make_poison,  # until Triton 3.1 or so
    "ub.poison": make_poison,
    "tt.make_range": make_range,
}
