"""Finds the launch configuration of a kernel on a GPU: measured once and kept in `launches.toml`, never tuned at run time.

Tuning at run time would call an in-place kernel on live buffers several times (rule LD010).
"""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

import jax

_FILE = Path(__file__).with_name("launches.toml")
_DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfiguration:
    """The bytes of a row that a program holds at one time, a power of two, and the number of warps of 32 threads."""

    block_bytes: int
    warps: int

    def compute_block(self, size: int, itemsize: int) -> int:
        """Returns the number of elements of a block, a power of two; at most as many as a row of `size` elements needs."""
        return min(self.block_bytes // itemsize, 1 << max(0, size - 1).bit_length())


def find_launch(operation: str) -> LaunchConfiguration:
    """Returns the configuration of the operation for the GPU on which JAX computes; the default one for an unknown GPU.

    Raises KeyError for an operation that the file does not have.
    """
    by_gpu = _load()[operation]
    return by_gpu.get(_name_gpu(), by_gpu[_DEFAULT])


def _name_gpu() -> str:
    """Returns, for example, `NVIDIA H200`; the default's name where JAX has no GPU."""
    return jax.devices()[0].device_kind if jax.default_backend() == "gpu" else _DEFAULT


@functools.cache
def _load() -> dict[str, dict[str, LaunchConfiguration]]:
    with _FILE.open("rb") as file:
        table = tomllib.load(file)
    return {
        operation: {gpu: LaunchConfiguration(**configuration) for gpu, configuration in by_gpu.items()}
        for operation, by_gpu in table.items()
    }
