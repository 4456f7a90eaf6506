"""Runs a Triton kernel on the CPU, from inside a JAX program, through Triton's own interpreter.

The environment must have had TRITON_INTERPRET=1 when the kernel was decorated. XLA:CPU passes copies to a callback and takes
results back, so only the modes in which XLA knows of the writes can run.
"""

import functools
import threading
from typing import Any

import jax
import numpy as np
import triton.language as tl

from kernels.modes import UNDECLARED, Mode

_ONE_AT_A_TIME = threading.Lock()
"""The interpreter keeps the program id in a global."""


class HostArray:
    """The part of a torch tensor's interface that Triton's interpreter needs, for a contiguous NumPy array that it
    overwrites.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = tl.int1 if array.dtype == np.bool_ else getattr(tl, array.dtype.name)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> "HostArray":
        return self

    def cpu(self) -> "HostArray":
        return self

    def copy_(self, other: "HostArray") -> None:
        """Does nothing, because the interpreter's device array and its host array are the same array here."""

    def new_empty(self, size: int, device: str) -> "HostArray":
        return HostArray(self.array)

    def set_(self, storage: "HostArray", offset: int, size: Any, stride: Any) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)


def interpreted_call(
    kernel: Any,
    operands: tuple[jax.Array, ...],
    *,
    written: tuple[int, ...],
    destinations: tuple[str, ...],
    outputs: tuple[jax.ShapeDtypeStruct, ...],
    grid: tuple[int, ...],
    mode: Mode,
    metaparams: dict[str, Any],
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Does the same as `kernels.triton_call.overwriting_call`, for a kernel made under TRITON_INTERPRET=1.

    destinations: the names of the kernel's parameters for the new contents of the written operands.
    """
    if mode in UNDECLARED:
        raise ValueError(
            f"Expected mode 'aliased' or 'out_of_place' under TRITON_INTERPRET=1 but got mode='{mode}': "
            "its write is hidden from XLA, and XLA:CPU lets no callback overwrite an operand"
        )
    contents = tuple(jax.ShapeDtypeStruct(operands[number].shape, operands[number].dtype) for number in written)
    run = functools.partial(
        _run,
        kernel,
        written=written,
        destinations=destinations,
        outputs=outputs,
        grid=grid,
        mode=mode,
        metaparams=metaparams,
    )
    results = tuple(jax.pure_callback(run, (*outputs, *contents), *operands))
    return results[: len(outputs)], results[len(outputs) :]


def interpreted_read_only_call(
    kernel: Any,
    operands: tuple[jax.Array, ...],
    *,
    outputs: tuple[jax.ShapeDtypeStruct, ...],
    grid: tuple[int, ...],
    metaparams: dict[str, Any],
) -> tuple[jax.Array, ...]:
    """Does the same as `kernels.triton_call.read_only_call`, for a kernel made under TRITON_INTERPRET=1."""

    def run(*operands: jax.Array) -> tuple[np.ndarray, ...]:
        hosts = [np.array(operand, order="C") for operand in operands]
        results = [np.zeros(output.shape, output.dtype) for output in outputs]
        with _ONE_AT_A_TIME:
            kernel[grid](*map(HostArray, (*hosts, *results)), **metaparams)
        return tuple(results)

    return tuple(jax.pure_callback(run, outputs, *operands))


def _run(
    kernel: Any,
    *operands: jax.Array,
    written: tuple[int, ...],
    destinations: tuple[str, ...],
    outputs: tuple[jax.ShapeDtypeStruct, ...],
    grid: tuple[int, ...],
    mode: Mode,
    metaparams: dict[str, Any],
) -> tuple[np.ndarray, ...]:
    hosts = [np.array(operand, order="C") for operand in operands]
    results = [np.zeros(output.shape, output.dtype) for output in outputs]
    in_place = mode is Mode.ALIASED
    contents = [hosts[number] if in_place else np.zeros_like(hosts[number]) for number in written]
    pointers = {
        name: None if in_place else HostArray(array) for name, array in zip(destinations, contents, strict=True)
    }
    with _ONE_AT_A_TIME:
        kernel[grid](*map(HostArray, (*hosts, *results)), **pointers, **metaparams)
    return (*results, *contents)
