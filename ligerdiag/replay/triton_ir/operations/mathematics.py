"""Evaluates mathematical functions: the `math` dialect, and the functions of libdevice (`__nv_*`, for NVIDIA GPUs)
and OCML (`__ocml_*`, for AMD GPUs) by name.

NumPy and SciPy compute a function in the dtype of its operands; for bf16, f16 and f8 they compute in f32. The results
are within 1 to 4 units in the last place of f32, like those of CUDA's own functions (a GPU's approximate `exp2` and
`sin` are off by up to 2 units more). Libdevice's functions are looked up by the part of their name after `__nv_`,
without the `f` of the f32 form, and OCML's by the part between `__ocml_` and the type, such as `_f32`. Triton has a few
of its own for AMD GPUs (`__triton_hip_*`). Unknown functions are not covered.
"""

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.missing_packages import describe_missing, is_missing
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.operations.conversions import to_integer
from ligerdiag.replay.triton_ir.operations.floats import clear_sign, fma, narrow, unary, widen
from ligerdiag.replay.triton_ir.operations.integers import Compute, Prepare, on_one, on_three
from ligerdiag.replay.triton_ir.values import DType, Value, is_float, parse_type, to_array


def _special(name: str, *, in_double: bool = True) -> Callable[[Array], Array]:
    """Returns SciPy's function of this name. SciPy is imported when the function is first called: the import is slow
    and seldom needed.

    in_double: whether to compute in f64 and round to the dtype of the operand, instead of computing in that dtype.
    """

    def compute(array: Array) -> Array:
        if is_missing("scipy"):
            raise NotCoveredError(describe_missing(name, "scipy"))
        function: Any = getattr(importlib.import_module("scipy.special"), name)
        return np.asarray(function(array.astype(np.float64) if in_double else array)).astype(array.dtype)

    return compute


type _Real = Callable[[Array], Array]


def _rsqrt(x: Array) -> Array:
    return x.dtype.type(1) / np.sqrt(x)


def _round_half_away(x: Array) -> Array:
    return np.where(np.abs(x - np.trunc(x)) >= 0.5, np.trunc(x) + np.copysign(x.dtype.type(1), x), np.trunc(x))


def _sinpi(x: Array) -> Array:
    wide = np.remainder(x.astype(np.float64), 2.0)
    return np.where(wide == 1.0, 0.0, np.sin(np.pi * wide)).astype(x.dtype)


def _cospi(x: Array) -> Array:
    wide = np.abs(np.remainder(x.astype(np.float64), 2.0) - 1.0)  # cos(pi x) = -cos(pi (x - 1))
    return np.where(wide == 0.5, 0.0, -np.cos(np.pi * wide)).astype(x.dtype)


def _take_ieee_remainder(x: Array, y: Array) -> Array:
    rest: Any = np.fmod(x, 2 * np.abs(y))
    return np.where(np.isinf(y) & np.isfinite(x), x, rest - y * np.rint(rest / y))


def _in_double(function: Callable[..., Any]) -> Callable[..., Array]:
    def compute(*arrays: Array) -> Array:
        return np.asarray(function(*(array.astype(np.float64) for array in arrays))).astype(arrays[0].dtype)

    return compute


_UNARY: dict[str, _Real] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "erf": _special("erf", in_double=False),
    "erfc": _special("erfc", in_double=False),
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "cbrt": np.cbrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _round_half_away,
    "roundeven": np.rint,
}
"""Functions of one operand in the `math` dialect, without its prefix."""

_LIBDEVICE_UNARY: dict[str, _Real] = {
    **{name: function for name, function in _UNARY.items() if name != "roundeven"},
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "rint": np.rint,
    "nearbyint": np.rint,
    "rcbrt": lambda x: x.dtype.type(1) / np.cbrt(x),
    "sinpi": _sinpi,
    "cospi": _cospi,
    "lgamma": _special("gammaln"),
    "tgamma": _special("gamma"),
    "erfinv": _special("erfinv"),
    "erfcinv": _special("erfcinv"),
    "erfcx": _special("erfcx"),
    "normcdf": _special("ndtr"),
    "normcdfinv": _special("ndtri"),
    "j0": _special("j0"),
    "j1": _special("j1"),
    "y0": _special("y0"),
    "y1": _special("y1"),
    "cyl_bessel_i0": _special("i0"),
    "cyl_bessel_i1": _special("i1"),
    "logb": lambda x: np.where(np.isinf(x), np.inf, np.where(x == 0, -np.inf, np.frexp(x)[1] - 1)).astype(x.dtype),
    "saturate": lambda x: np.fmin(np.fmax(x, x.dtype.type(0)), x.dtype.type(1)),
    "frcp_rn": lambda x: x.dtype.type(1) / x,
    "drcp_rn": lambda x: x.dtype.type(1) / x,
    "fsqrt_rn": np.sqrt,
    "dsqrt_rn": np.sqrt,
    "frsqrt_rn": _rsqrt,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_exp": np.exp,
    "fast_exp10": lambda x: np.power(x.dtype.type(10), x),
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
}
_LIBDEVICE_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "pow": np.power,
    "fast_pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "remainder": _in_double(_take_ieee_remainder),
    "hypot": np.hypot,
    "rhypot": lambda x, y: x.dtype.type(1) / np.hypot(x, y),
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.fmax(x - y, 0)).astype(x.dtype),
    "fmax": np.fmax,
    "fmin": np.fmin,
    "add_rn": np.add,
    "sub_rn": np.subtract,
    "mul_rn": np.multiply,
    "div_rn": np.divide,
    "fdivide": np.divide,
    "fast_divide": np.divide,
}
_TESTS: dict[str, Callable[[Array], Array]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinited": np.isfinite,
    "signbit": np.signbit,
}
_ROUNDED: dict[str, _Real] = {"rint": np.rint, "round": _round_half_away}
_SYMBOL = re.compile(r'symbol = "([^"]*)"')
_AMD = re.compile(r"__ocml_(\w+)_f(?:16|32|64)|__triton_hip_(?:fast_)?(\w+)")
_AMD_NAMES = {
    "isfinite": "finite",
    "pown": "powi",
    "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1",
    "tanhf": "tanh",
    "expf": "exp",
    "fdividef": "fdivide",
    "iabs": "abs",
}
"""Maps the name of a function of OCML, or of Triton for AMD GPUs, to the name of libdevice's function, if the two names
differ.
"""


def _list_names(symbol: str) -> tuple[str, ...]:
    """Returns the names under which to look up an external function. Of a libdevice function: without `__nv_`, and also
    without a final `f`, which may mark its f32 form. Of a function for AMD GPUs: libdevice's name of it. None for others.
    """
    if symbol.startswith("__nv_"):
        name = symbol.removeprefix("__nv_")
        return name, name.removesuffix("f")
    match = _AMD.fullmatch(symbol)
    name = (match[1] or match[2]) if match else ""
    return (_AMD_NAMES.get(name, name),) if name else ()


def _prepare_external(op: Operation, function: Function) -> Compute:
    match = _SYMBOL.search(op.text)
    symbol = match[1] if match else ""
    dtype = parse_type(function.types[op.results[0]]).get_dtype()
    count = len(op.operands)
    for name in _list_names(symbol):
        if count == 1 and name in ("abs", "fabs", "llabs"):
            return clear_sign(op, function) if is_float(dtype) else on_one(lambda value: np.abs(to_array(value)))
        if count == 1 and name in _LIBDEVICE_UNARY and is_float(dtype):
            return unary(_LIBDEVICE_UNARY[name])(op, function)
        if count == 1 and name in _TESTS:
            return _test(_TESTS[name], dtype)
        if count == 1 and name[:2] == "ll" and name[2:] in _ROUNDED:
            return _round_to_integer(_ROUNDED[name[2:]], dtype)
        if count == 2 and name in _LIBDEVICE_BINARY and is_float(dtype):
            return _on_two(_LIBDEVICE_BINARY[name], op, function)
        if count == 2 and name in ("powi", "ldexp", "scalbn"):
            return _with_integer(name, op, function)
        if count == 2 and name in ("min", "max", "umin", "umax", "llmin", "llmax") and not is_float(dtype):
            return _on_integers(name)
        if count == 3 and name in ("fma", "fma_rn"):
            return on_three(lambda x, y, z: fma(to_array(x), to_array(y), to_array(z), dtype))
        if count == 1 and name in ("popc", "popcll", "clz", "clzll", "brev", "brevll", "ffs", "ffsll"):
            return _on_bits(name.removesuffix("ll"), op, function)
    raise NotCoveredError(f"the external function `{symbol[:60]}`")


def _test(function: Callable[[Array], Array], dtype: DType) -> Compute:
    return on_one(lambda value: function(widen(to_array(value))).astype(dtype))


def _round_to_integer(function: Callable[[Array], Array], dtype: DType) -> Compute:
    return on_one(lambda value: to_integer(function(widen(to_array(value))), dtype, signed=True))


def _on_two(compute: Callable[[Array, Array], Array], op: Operation, function: Function) -> Compute:
    dtype = parse_type(function.types[op.results[0]]).get_dtype()

    def apply(left: Value, right: Value) -> Array:
        a, b = widen(to_array(left)), widen(to_array(right))
        return narrow(np.asarray(compute(a, b)).astype(a.dtype, copy=False), dtype)

    return apply


def _with_integer(name: str, op: Operation, function: Function) -> Compute:
    dtype = parse_type(function.types[op.results[0]]).get_dtype()

    def apply(left: Value, right: Value) -> Array:
        a, b = to_array(left).astype(np.float64), to_array(right)
        result = np.power(a, b.astype(np.float64)) if name == "powi" else np.ldexp(a, b)
        return result.astype(dtype)

    return apply


def _on_integers(name: str) -> Compute:
    choose: Any = np.minimum if name.endswith("min") else np.maximum

    def apply(left: Value, right: Value) -> Array:
        a, b = to_array(left), to_array(right)
        if not name.startswith("u"):
            return choose(a, b)
        kind = f"u{a.dtype.itemsize}"
        return choose(a.view(kind), b.view(kind)).view(a.dtype)

    return apply


def _view_bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def _on_bits(name: str, op: Operation, function: Function) -> Compute:
    dtype = parse_type(function.types[op.results[0]]).get_dtype()

    def apply(value: Value) -> Array:
        array = to_array(value)
        width = 8 * array.dtype.itemsize
        bits = _view_bits(array)
        if name == "popc":
            return np.bitwise_count(bits).astype(dtype)
        places = bits[..., np.newaxis] >> np.arange(width, dtype=bits.dtype) & bits.dtype.type(1)
        if name == "brev":
            weights: Array = np.array([1 << place for place in range(width - 1, -1, -1)], bits.dtype)
            return (places * weights).sum(-1, dtype=bits.dtype).view(dtype)
        if name == "clz":
            leading = np.asarray(places[..., ::-1].argmax(-1), dtype)
            return np.asarray(np.where(bits == 0, dtype.type(width), leading), dtype)
        return np.asarray(np.where(bits == 0, 0, places.argmax(-1) + 1), dtype)

    return apply


def _power(op: Operation, function: Function) -> Compute:
    return _on_two(np.power, op, function)


FUNCTIONS: dict[str, Prepare] = {
    **{f"math.{name}": unary(function) for name, function in _UNARY.items() if name != "sqrt"},
    "math.powf": _power,
    "math.atan2": lambda op, function: _on_two(np.arctan2, op, function),
    "math.fpowi": lambda op, function: _with_integer("powi", op, function),
    "math.ipowi": lambda op, function: _refuse(op),
    "tt.extern_elementwise": _prepare_external,
}


def _refuse(op: Operation) -> Compute:
    raise NotCoveredError(op.name)
