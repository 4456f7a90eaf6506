"""The array that Triton's interpreter takes instead of a tensor on a device."""

from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.replay.ops.scope import Array, NotCoveredError

_TRITON_NAMES = {
    np.dtype(np.bool_): "int1",
    np.dtype(np.int8): "int8",
    np.dtype(np.int16): "int16",
    np.dtype(np.int32): "int32",
    np.dtype(np.int64): "int64",
    np.dtype(np.uint8): "uint8",
    np.dtype(np.uint16): "uint16",
    np.dtype(np.uint32): "uint32",
    np.dtype(np.uint64): "uint64",
    np.dtype(np.float16): "fp16",
    np.dtype(np.float32): "fp32",
    np.dtype(np.float64): "fp64",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e5m2): "fp8e5",
    np.dtype(ml_dtypes.float8_e4m3fn): "fp8e4nv",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "fp8e5b16",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "fp8e4b8",
}


class HostArray:
    """A contiguous array that a kernel gets a pointer to. Host and device are one memory: nothing is copied."""

    def __init__(self, array: Array, language: Any) -> None:
        """language: `triton.language`. Raises NotCoveredError for a dtype that it does not know."""
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError("Expected a contiguous array that may be overwritten")
        if array.dtype not in _TRITON_NAMES:
            raise NotCoveredError(f"a kernel's buffer of {array.dtype.name}")
        self.array = array
        self.dtype = language.dtype(_TRITON_NAMES[array.dtype])

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self.array.ctypes.data

    def untyped_storage(self) -> "HostArray":
        """Returns the memory: itself."""
        return self

    def cpu(self) -> "HostArray":
        """Returns the memory on the host: itself."""
        return self

    def new_empty(self, size: int, device: str) -> "HostArray":
        """The interpreter makes its host copy from this."""
        del size, device
        return self

    def set_(self, storage: "HostArray", offset: int, size: Any, stride: Any) -> None:
        """Does nothing: the array is in that memory already."""

    def copy_(self, other: "HostArray") -> None:
        """Does nothing: the kernel wrote to this memory."""

    def storage_offset(self) -> int:
        """Elements between memory and array."""
        return 0

    def size(self) -> tuple[int, ...]:
        """Returns the shape."""
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        """Returns the stride of a flat array."""
        return (1,)
