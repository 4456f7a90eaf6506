"""bf16 and f8 in Triton's interpreter (3.6 to 3.9), which keeps them as integers of their width.

| operation | the interpreter | here |
|---|---|---|
| arithmetic, comparison, dot, reduction, atomics on bf16 or f8 | computes with the integers | NotCoveredError |
| bf16 or f8 to a wider float | right, but for subnormal, infinite and NaN values | right |
| f32 to bf16 | truncates; a GPU rounds to nearest, ties to even | truncates, or rounds with `round_to_nearest` |
| to f8 | rounds without carry | NotCoveredError, or rounds with `round_to_nearest`, saturating as a GPU does |
| integers, f64 to or from bf16 or f8 | converts the integers | NotCoveredError |
| scaled dot (since 3.7) | computes in f32 | NotCoveredError |

Loads, stores, moves, selections and bitwise operations do not look at the value and are right as they are.
"""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.replay.ops.scope import Array, NotCoveredError


@contextmanager
def override(target: Any, **values: Any) -> Generator[None]:
    """Sets attributes on the object itself, over those of its class, and removes them again."""
    before = {name: target.__dict__[name] for name in values if name in target.__dict__}
    for name, value in values.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(target, name, before[name])
            else:
                delattr(target, name)


_NARROW: dict[str, Any] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e4b15": None,
}
"""Triton's name to NumPy's dtype; None if NumPy has none."""
_WIDE = {"fp16": np.float16, "fp32": np.float32}
_BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)


@contextmanager
def mind_narrow_floats(interpreter: Any, *, round_to_nearest: bool) -> Generator[None]:
    """Makes the interpreter behave as in the right column inside the context; errors there become InterpreterError."""
    builder: Any = interpreter.interpreter_builder
    binary, unary, ternary = builder.binary_op, builder.unary_op, builder.ternary_op
    cast = builder.cast_impl

    def binary_op(lhs: Any, rhs: Any, op: Any) -> Any:
        if op not in _BITWISE:
            _refuse("arithmetic", lhs, rhs)
        return binary(lhs, rhs, op)

    def unary_op(arg: Any, op: Any) -> Any:
        _refuse("arithmetic", arg)
        return unary(arg, op)

    def ternary_op(lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        if op is not np.where:
            _refuse("arithmetic", lhs, rhs, other)
        return ternary(lhs, rhs, other, op)

    def cast_impl(src: Any, dst_type: Any) -> Any:
        if not {src.dtype.scalar.name, dst_type.scalar.name} & _NARROW.keys():
            return cast(src, dst_type)
        return convert(src, dst_type, None)

    def convert(src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        source, target = src.dtype.scalar.name, dst_type.scalar.name
        if (source, target) == ("fp32", "bf16") and not (round_to_nearest and _is_nearest(rounding_mode)):
            data: Array = interpreter._convert_float(src.data, src.dtype.scalar, dst_type.scalar, None).view(np.uint16)
        else:
            data = _convert(src.data, source, target, round_to_nearest and _is_nearest(rounding_mode))
        return interpreter.TensorHandle(data, dst_type.scalar)

    overrides: dict[str, Any] = {
        name: _refusing(getattr(builder, name))
        for name in ("create_fma", "create_dot", "create_rsqrt", "create_erf", "create_atomic_rmw")
    }
    overrides |= {
        name: _refusing_nan_padding(getattr(builder, name))
        for name in ("create_tensor_pointer_load", "create_descriptor_load")  # the first is gone in 3.9
        if hasattr(builder, name)
    }
    if hasattr(builder, "create_dot_scaled"):
        overrides["create_dot_scaled"] = _refuse_scaled_dot
    with ExitStack() as stack:
        for family in (interpreter.ReduceOps, interpreter.ScanOps):
            stack.enter_context(override(family, apply_impl=_refusing_inputs(family.apply_impl)))
        stack.enter_context(
            override(
                builder,
                binary_op=binary_op,
                unary_op=unary_op,
                ternary_op=ternary_op,
                cast_impl=cast_impl,
                create_fp_to_fp=convert,
                **overrides,
            )
        )
        yield


def _convert(data: Array, source: str, target: str, nearest: bool) -> Array:
    """From the bits of one float type to another's, by way of f32, which holds each narrow value exactly."""
    if source in _NARROW and _NARROW[source] is not None:
        wide: Array = data.view(_NARROW[source]).astype(np.float32)
    elif source in _WIDE:
        wide = data.astype(np.float32)
    else:
        raise NotCoveredError(f"conversion of {source} to {target}")
    if target in _WIDE:
        return wide.astype(_WIDE[target])
    narrow = _NARROW.get(target)
    if narrow is None or not nearest:
        raise NotCoveredError(f"conversion of {source} to {target}")
    if target != "bf16":
        limit = _get_maximum(narrow)
        wide = np.clip(wide, -limit, limit)
    return wide.astype(narrow).view(np.uint16 if target == "bf16" else np.uint8)


def _get_maximum(dtype: Any) -> float:
    library: Any = ml_dtypes
    return float(library.finfo(dtype).max)


def _is_nearest(rounding_mode: Any) -> bool:
    return rounding_mode is None or "RTNE" in str(rounding_mode)


def _refuse(what: str, *handles: Any) -> None:
    for handle in handles:
        kind = getattr(handle, "dtype", None)
        if kind is not None and kind.scalar.name in _NARROW:
            raise NotCoveredError(f"{what} in {kind.scalar.name}")


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(*args: Any) -> Any:
        _refuse("arithmetic", *(arg for arg in args if not _is_pointer(arg)))
        return original(*args)

    return refusing


def _refuse_scaled_dot(*_: Any) -> Any:
    raise NotCoveredError("a scaled dot")


def _is_pointer(handle: Any) -> bool:
    return hasattr(getattr(handle, "dtype", None), "element_ty")


def _refusing_inputs(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_impl(self: Any, inputs: tuple[Any, ...]) -> Any:
        _refuse("reduction", *(tensor.handle for tensor in inputs))
        return original(self, inputs)

    return apply_impl


def _refusing_nan_padding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a load refuse NaN padding of narrow floats: the interpreter pads with NaN converted to an integer."""

    def load(source: Any, *args: Any) -> Any:
        modes = (getattr(source, "padding", ""), *args)
        if any("NAN" in str(mode) for mode in modes) and source.base.get_element_ty().name in _NARROW:
            raise NotCoveredError(f"padding with NaN in {source.base.get_element_ty().name}")
        return original(source, *args)

    return load
