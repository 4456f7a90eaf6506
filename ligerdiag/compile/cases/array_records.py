"""Records an array as the fields of an `Arg`, and draws random numbers that replace the array's own. Needs only NumPy.

A record keeps the values of integers and booleans, because a range does not say which labels, ids and offsets are
valid. It keeps the values of floats as long as all of them together are small, so the weights of a model are never
written to disk. Arrays that contain NaN are not kept either. For any other array, random numbers are drawn later.
Integers lie between the smallest and the largest of the array, and so do floats if none is negative. Otherwise floats
are normally distributed with the same magnitude.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ligerdiag.compile.cases.shardings import list_explicit_axes, read_memory, read_partition
from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg, Draw, Values, read_mesh

MAXIMUM_BYTES = 256 << 20
"""Size in bytes of the largest array whose numbers are inspected to choose a random draw."""
MAXIMUM_VALUE_BYTES = 64 << 20
"""The most bytes that are recorded as values, for one array of integers or booleans, and for all arrays of floats
together.
"""
_NARROWED = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
_INT32 = np.iinfo(np.int32)

_UNKNOWN_INTEGERS = {"kind": "randint", "low": 0, "high": 2}
_UNKNOWN_TRUTH = {"kind": "bernoulli", "scale": 0.5}
_ZEROS = {"kind": "zeros"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRecord:
    """The parts of an `Arg` that describe one array."""

    fields: Mapping[str, Any]
    """Keywords of the `Arg`: always `shape`, `dtype` and `partition`; `weak` except for random keys; `memory` unless the
    array lies in the memory of the device.
    """
    draw: Mapping[str, object]
    """Keywords of the `Draw` whose random numbers replace the array's own if `values` is None; none for the default Draw.
    """
    values: bytes | None
    """The array's own numbers, in its dtype and in row-major order; None if random ones replace them."""
    mesh: Mapping[str, int]
    """The mesh on which the array lies: maps each axis to its size. Empty for an array without a mesh."""
    explicit: tuple[str, ...] = ()
    """The axes of `mesh` that have JAX's type Explicit."""


def is_array(value: Any) -> bool:
    """Returns whether the value is an array of NumPy or JAX, or a `jax.ShapeDtypeStruct`."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    library: Any = sys.modules.get("jax")
    return library is not None and isinstance(value, (library.Array, library.ShapeDtypeStruct))


def record_array(array: Any, float_bytes: int = MAXIMUM_VALUE_BYTES) -> ArrayRecord:
    """Returns the record of the array. The values of typed random keys are those of `jax.random.key_data`. Raises
    InputError if the sharding's `PartitionSpec` has an entry that is neither None nor mesh axes, such as UNCONSTRAINED.

    float_bytes: an array of floats is recorded with its values if it has at most this many bytes.
    """
    dtype = str(array.dtype)
    if type(array).__module__ == "numpy" and not _has_x64():
        dtype = _NARROWED.get(dtype, dtype)
    partition, mesh = _read_sharding(array)
    explicit = list_explicit_axes(getattr(getattr(array, "sharding", None), "mesh", None))
    shape = tuple(int(size) for size in array.shape)
    if is_key(dtype):
        fields = {"shape": shape, "dtype": dtype, "partition": partition}
        return ArrayRecord(fields=fields, draw={}, values=_read_key_data(array), mesh=mesh, explicit=explicit)
    weak = bool(getattr(array, "weak_type", False))
    draw = _compute_draw(array)
    memory = read_memory(getattr(array, "sharding", None))
    placed = {"memory": memory} if memory else {}
    return ArrayRecord(
        fields={"shape": shape, "dtype": dtype, "partition": partition, "weak": weak, **placed},
        draw=draw,
        values=None if draw == _ZEROS else _read_values(array, dtype, float_bytes),
        mesh=mesh,
        explicit=explicit,
    )


def choose_mesh(mesh: Mapping[str, int] | Sequence[int] | None, found: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns a case's mesh, as axis to size. It is the user's mesh or, without one, the mesh of the arguments'
    shardings. Raises InputError if the user gives no mesh and the arguments lie on different meshes.

    mesh: the user's, as axis to size, or only the sizes; their axes are then called x, y, z. found: the mesh of each
    array that has one. If neither gives a mesh, the result is empty, which means one device.
    """
    if mesh is not None:
        return read_mesh(mesh)
    for one in found[1:]:
        if list(one.items()) != list(found[0].items()):
            raise InputError(f"the arguments lie on two meshes, {dict(found[0])} and {dict(one)}: pass `mesh`")
    return dict(found[0]) if found else {}


def is_key(dtype: str) -> bool:
    """Returns whether the name is that of a dtype of typed random keys, such as `key<fry>`."""
    return dtype.startswith("key<")


def _read_key_data(keys: Any) -> bytes | None:
    """Returns the `u32[..., words]` of typed random keys as bytes; None if they have none, as a ShapeDtypeStruct."""
    library: Any = sys.modules["jax"]
    try:
        return np.ascontiguousarray(library.random.key_data(keys)).tobytes()
    except (TypeError, ValueError, RuntimeError):
        return None


def _has_x64() -> bool:
    """Whether JAX is imported in this process and computes in 64 bits."""
    library: Any = sys.modules.get("jax")
    return library is not None and bool(library.config.jax_enable_x64)


def _read_sharding(array: Any) -> tuple[tuple[Any, ...], Mapping[str, int]]:
    """Returns the array's partition (for each dimension the mesh axis or axes over which it is split, or None) and its
    mesh (axis to size); both are empty for an array without a mesh.
    """
    sharding = getattr(array, "sharding", None)
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    if spec is None or mesh is None:
        return (), {}
    return read_partition(spec), {str(axis): int(size) for axis, size in mesh.shape.items()}


def _compute_draw(array: Any) -> Mapping[str, object]:
    """Returns the fields of a `Draw` whose random numbers resemble those of the array."""
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
        numbers: Any = (np.abs(values) if values.dtype.kind == "c" else values).astype(np.float32)
    except (TypeError, ValueError, RuntimeError):
        return unknown
    if dtype == "bool":
        return {"kind": "bernoulli", "scale": _round(numbers.mean())}
    if not np.isfinite(numbers).all():
        return unknown
    low, high = float(numbers.min()), float(numbers.max())
    if low == high == 0.0:
        return _ZEROS
    if (low >= 0.0 or low == high) and "complex" not in dtype:
        return {"kind": "uniform", "low": _round(low), "high": _round(high)}
    return {"kind": "normal", "scale": _round((numbers * numbers).mean() ** 0.5)}


def _read_values(array: Any, dtype: str, float_bytes: int) -> bytes | None:
    """Returns the numbers of the array as bytes; None if there are none, if they are too many to record or contain NaN,
    or if this process does not have them, as for a ShapeDtypeStruct or an array with shards in other processes.

    dtype: the dtype of the recorded numbers. float_bytes: the most bytes to record of an array of floats.
    """
    is_exact = "int" in dtype or dtype == "bool"
    size = array.size * array.dtype.itemsize
    if not hasattr(array, "__array__") or not size or size > (MAXIMUM_VALUE_BYTES if is_exact else float_bytes):
        return None
    try:
        values: Any = np.asarray(array)
        if not is_exact and np.isnan(values.astype(np.complex64 if "complex" in dtype else np.float32)).any():
            return None
        return np.ascontiguousarray(values.astype(dtype if values.dtype.name != dtype else values.dtype)).tobytes()
    except (TypeError, ValueError, RuntimeError):
        return None


def _round(value: Any) -> float:
    """Rounds to two significant digits, so that arrays drawn from one distribution get the same record."""
    return float(f"{float(value):.2g}")


def build_arg(fields: Mapping[str, Any], draw: Mapping[str, Any], values: bytes | None) -> Arg:
    """Builds the `Arg` for a recorded array. The parameters are fields of an `ArrayRecord`."""
    return Arg(**fields, draw=Draw(**draw) if values is None else Values(data=values))


def draw_values(draw: Draw, random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Draws random numbers as the `Draw` describes them. Floats are drawn in f32 and then cast to the dtype. Normal
    complex numbers have normal real and imaginary parts, both of `scale` divided by the root of 2.
    """
    values: Any
    match _choose_kind(draw.kind, dtype):
        case "normal" if dtype.kind == "c":
            parts = random.standard_normal((2, *shape), np.float32) * np.float32(draw.scale / 2**0.5)
            values = parts[0] + 1j * parts[1]
        case "normal":
            values = random.standard_normal(shape, np.float32) * np.float32(draw.scale)
        case "squares":
            values = np.square(random.standard_normal(shape, np.float32)) * np.float32(draw.scale)
        case "uniform":
            low, high = np.float32(draw.low), np.float32(draw.high)
            values = random.random(shape, np.float32) * (high - low) + low
            values = np.where(values < high, values, low)  # the sum may be rounded up to `high`
        case "randint":
            values = random.integers(int(draw.low), int(draw.high), shape)
        case "bernoulli":
            values = random.random(shape, np.float32) < (0.5 if draw.kind == "usual" else draw.scale)
        case kind:
            assert kind == "zeros"
            values = np.zeros(shape)
    return np.asarray(values).astype(dtype)


def _choose_kind(kind: str, dtype: Any) -> str:
    if kind != "usual":
        return kind
    return "bernoulli" if dtype.kind == "b" else "randint" if dtype.name.startswith(("int", "uint")) else "normal"
