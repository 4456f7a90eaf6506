"""Parent side: arguments of a live function, in which arrays become records of what they are.

An array stands for its shape, dtype and sharding, and for the range of its numbers: what a replay draws in its place are
integers between its smallest and its largest, numbers from the smallest to the largest where none is negative, else
normal ones of the same size.
"""

import io
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ligerdiag.compile.function_pickler import FunctionPickler
from ligerdiag.compile.rebuild import build_arg
from ligerdiag.errors import InputError

MAXIMUM_BYTES = 256 << 20
"""Of an array whose numbers are looked at."""
_NARROWED = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
_INT32 = np.iinfo(np.int32)

_UNKNOWN_INTEGERS = {"kind": "randint", "low": 0, "high": 2}
_UNKNOWN_TRUTH = {"kind": "bernoulli", "scale": 0.5}
_ZEROS = {"kind": "zeros"}


class ArgumentPickler(FunctionPickler):
    """Pickles any pytree of arrays; `meshes` has those that they lie on."""

    def __init__(self, stream: io.BytesIO, by_value: frozenset[str]) -> None:
        super().__init__(stream, by_value)
        self.meshes: list[Mapping[str, int]] = []

    def reducer_override(self, obj: Any) -> Any:
        """An array's record in its place."""
        if not _is_array(obj):
            return super().reducer_override(obj)
        dtype = str(obj.dtype)
        if dtype.startswith("key<"):
            raise InputError(
                "a typed random key has no numbers to draw: give `jax.random.key_data(key)`, and make the key of it"
                " by `jax.random.wrap_key_data` in the function"
            )
        if type(obj).__module__ == "numpy" and not _has_x64():
            dtype = _NARROWED.get(dtype, dtype)
        partition, mesh = _read_sharding(obj)
        if mesh:
            self.meshes.append(mesh)
        shape = tuple(int(size) for size in obj.shape)
        weak = bool(getattr(obj, "weak_type", False))
        fields = {"shape": shape, "dtype": dtype, "partition": partition, "weak": weak}
        return build_arg, (fields, _compute_draw(obj))


def _is_array(value: Any) -> bool:
    """Whether it is an array of NumPy's or JAX's, or JAX's record of one."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    library: Any = sys.modules.get("jax")
    return library is not None and isinstance(value, (library.Array, library.ShapeDtypeStruct))


def _has_x64() -> bool:
    """Whether this process has JAX compute in 64 bits."""
    library: Any = sys.modules.get("jax")
    return library is not None and bool(library.config.jax_enable_x64)


def _read_sharding(array: Any) -> tuple[tuple[Any, ...], Mapping[str, int]]:
    """The partition and the mesh; empty ones for an array that lies on no mesh."""
    sharding = getattr(array, "sharding", None)
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    if spec is None or mesh is None:
        return (), {}
    partition: list[Any] = []
    for part in spec:
        if part is not None and not isinstance(part, str | tuple):
            raise InputError(f"expected mesh axes in the sharding `{spec}` but got `{part}`")
        partition.append(part)
    return tuple(partition), {str(axis): int(size) for axis, size in mesh.shape.items()}


def _compute_draw(array: Any) -> Mapping[str, object]:
    """Fields of a `Draw`."""
    dtype = str(array.dtype)
    is_integer = "int" in dtype
    unknown: Mapping[str, object] = _UNKNOWN_INTEGERS if is_integer else _UNKNOWN_TRUTH if dtype == "bool" else {}
    if not hasattr(array, "__array__") or array.size == 0 or array.size * array.dtype.itemsize > MAXIMUM_BYTES:
        return unknown
    try:
        values: Any = np.asarray(array)
        if is_integer:
            low, high = (int(np.clip(int(value), _INT32.min, _INT32.max - 1)) for value in (values.min(), values.max()))
            return {"kind": "randint", "low": low, "high": high + 1}
        numbers: Any = values.astype(np.float32)
    except (TypeError, ValueError, RuntimeError):
        return unknown
    if dtype == "bool":
        return {"kind": "bernoulli", "scale": _round(numbers.mean())}
    if not np.isfinite(numbers).all():
        return unknown
    low, high = float(numbers.min()), float(numbers.max())
    if low == high == 0.0:
        return _ZEROS
    if low >= 0.0 or low == high:
        return {"kind": "uniform", "low": _round(low), "high": _round(high)}
    return {"kind": "normal", "scale": _round((numbers * numbers).mean() ** 0.5)}


def _round(value: Any) -> float:
    """To two digits: another draw of the same distribution is the same argument."""
    return float(f"{float(value):.2g}")
