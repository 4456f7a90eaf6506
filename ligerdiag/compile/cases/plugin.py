"""Finds out whether a worker's environment has JAX's plugin for CUDA or the one for ROCm. Also prepares a process so
that the plugin for ROCm loads on a machine without ROCm and without an AMD GPU.

The plugin for ROCm is linked against libraries of ROCm; libraries of ligerdiag's own take their place
(`toolchains.rocm_libraries`). They must be loaded before JAX is imported, because jaxlib then looks for the functions
that launch Triton kernels. The plugin also refuses to be registered where Linux lists no AMD GPU, so this module makes
JAX count one. Nothing runs on it: JAX_PLATFORMS is `cpu`, and XLA compiles for the GPU that the target describes.
"""

import ctypes
import importlib
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ligerdiag.toolchains.rocm_libraries import FOLDER, preload_libraries
from ligerdiag.toolchains.toolchain import Platform

LIBRARY = "xla_cuda_plugin.so"
"""Name of the shared library in the folder of a plugin for CUDA."""


@cache
def find_platform() -> Platform:
    """Returns the platform for which this worker's environment compiles. It is ROCm if ligerdiag has written the
    libraries for ROCm there, otherwise CUDA.
    """
    return Platform.ROCM if (Path(sys.prefix) / FOLDER).is_dir() else Platform.CUDA


def prepare_plugin() -> None:
    """Lets JAX find its plugin for ROCm if this environment has it. Must be called before JAX is imported. Raises
    CompileError if a library is missing.

    Does nothing in an environment for CUDA.
    """
    if find_platform() is not Platform.ROCM:
        return
    preload_libraries(Path(sys.prefix))
    hardware: Any = importlib.import_module("jax._src.hardware_utils")
    hardware.num_available_amd_gpus = _count_one_gpu


def load_library() -> None:
    """Loads the shared library of the plugin for CUDA before this process forks, so that each fork has it already.
    Otherwise each fork would spend a sixth of a small compile on relocating the library.

    Does nothing if there is no such library, if there are several, or if the library cannot be loaded. The worker that
    needs it then reports why.
    """
    spec = find_spec("jax_plugins")
    if spec is None or find_platform() is not Platform.CUDA:
        return
    folders = spec.submodule_search_locations or ()
    found = [library for folder in folders for library in Path(folder).glob(f"*/{LIBRARY}")]
    if len(found) == 1:
        with suppress(OSError):
            ctypes.CDLL(str(found[0]))


def _count_one_gpu(*args: Any, **words: Any) -> int:
    del args, words
    return 1
