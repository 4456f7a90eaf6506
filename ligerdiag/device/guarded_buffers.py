"""Places arrays on a device between guard bytes, so that a write beside the array can be seen.

JAX cannot place an array inside another array. DLPack can: the whole range, guards included, is an array of bytes, and the
operand is imported as a view of the bytes in its middle. If JAX copies instead, or DLPack does not know the dtype, the
operand is placed by itself, without guards.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

GUARD = 4096
"""Bytes before and after the operand. A multiple of the 256 bytes to which XLA aligns buffers."""
_ALIGNMENT = 256

type Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """DLPack's `DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    """DLPack's `DLManagedTensor`."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_KINDS = {"cpu": 1, "gpu": 2, "cuda": 2}
"""DLPack's number of each platform, by JAX's name for it."""
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""DLPack's number of each kind of dtype, by NumPy's letter for it."""
_BFLOAT = 4
_DO_NOTHING = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
"""A C function that takes one word and has no effect. JAX calls it when it drops the view, and aborts if there is none; a
Python function would need the interpreter at that time.
"""


@dataclass(slots=True, eq=False)
class PlacedArray:
    """An array on a device, inside a range of bytes that may have guard bytes around the array."""

    array: Any
    _whole: Any
    """The array of bytes with the guards; None if the array has none."""
    _guard: Bytes
    _managed: Any = None
    """The structure from which JAX made the view; it lives as long as the view."""

    @property
    def is_guarded(self) -> bool:
        return self._whole is not None

    def read(self) -> Bytes:
        """Returns the bytes that the array has on the device now. It can be called once."""
        if self._whole is None:
            return view_bytes(np.array(self.array))
        return np.array(self._whole, np.uint8)[GUARD : GUARD + self.array.nbytes]

    def count_changed_guards(self) -> int:
        """Returns the number of guard bytes that have changed since the array was placed. Returns 0 if there are no
        guards.
        """
        if self._whole is None:
            return 0
        found: Bytes = np.array(self._whole, np.uint8)
        after = found[GUARD + self.array.nbytes :]
        changed = np.count_nonzero(found[:GUARD] != self._guard[:GUARD])
        return int(changed + np.count_nonzero(after != self._guard[-after.size :]))


def place_array(contents: Bytes, dtype: Any, shape: tuple[int, ...], device: Any, guard: int) -> PlacedArray:
    """Copies an array to the device, between guard bytes if possible, and waits until it is there.

    contents: the array's bytes. guard: 0 or 1, the number of the pattern of the guard bytes (see `make_pattern`).
    """
    library: Any = jax
    code = _find_code(np.dtype(dtype))
    if code is not None and contents.size:
        padded = -contents.size % _ALIGNMENT
        pattern = make_pattern(2 * GUARD + padded, guard)
        whole = np.concatenate([pattern[:GUARD], contents, pattern[GUARD:]])
        placed = library.block_until_ready(library.device_put(whole, device))
        address = placed.unsafe_buffer_pointer() + GUARD
        managed = _describe(address, np.dtype(dtype), code, shape, device)
        view = _import(managed, device)
        if view is not None and view.unsafe_buffer_pointer() == address and view.dtype == dtype:
            return PlacedArray(view, placed, pattern, managed)
    alone = np.frombuffer(contents.tobytes(), dtype).reshape(shape)
    return PlacedArray(library.block_until_ready(library.device_put(alone, device)), None, contents[:0])


def make_pattern(size: int, number: int) -> Bytes:
    """Returns `size` bytes that a kernel would not write by chance.

    number: 0 or 1. The two patterns differ in every byte.
    """
    drawn = np.random.Generator(np.random.PCG64(size)).integers(0, 256, size, np.uint8)
    return ~drawn if number % 2 else drawn


def view_bytes(array: Any) -> Bytes:
    """Returns a copy of the array's bytes, in row-major order."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).copy()


def _find_code(dtype: np.dtype[Any]) -> int | None:
    if dtype.name == "bfloat16":
        return _BFLOAT
    return _CODES.get(dtype.kind)


def _describe(address: int, dtype: np.dtype[Any], code: int, shape: tuple[int, ...], device: Any) -> Any:
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    place = _Device(_KINDS.get(device.platform, 0), device.local_hardware_id or 0)
    kind = _DataType(code, 8 * dtype.itemsize, 1)
    managed = _ManagedTensor(_Tensor(address, place, len(shape), kind, sizes, None, 0), None, _DO_NOTHING)
    managed.sizes = sizes  # keeps the array of sizes alive
    return managed


@dataclass(slots=True)
class _Exporter:
    """An object with DLPack's protocol, from which JAX imports the view."""

    managed: Any

    def __dlpack__(self, **_: Any) -> Any:
        make: Any = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        place = self.managed.tensor.device
        return place.kind, place.number


def _import(managed: Any, device: Any) -> Any:
    """Returns JAX's view of the described memory; None if this JAX cannot make one."""
    library: Any = jax
    try:
        return library.block_until_ready(library.dlpack.from_dlpack(_Exporter(managed)))
    except Exception:
        return None
