"""Programs that call kernels of libraries besides jax-triton and Pallas, each in two forms.

`hidden` overwrites an operand that no output aliases, and reads it afterwards; in `declared` XLA knows of the write.
The libraries are no dependencies of ligerdiag: see `tests/effects/test_library_programs.py`, and for the GPU
`tests/gpu/test_library_kernels.py`.
"""

import importlib
import importlib.util
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent
PACKAGES = {
    "cute": "cutlass",
    "cutile": "cuda.tile",
    "gluon": "triton.experimental.gluon",
    "tvm": "jax_tvm_ffi",
    "warp": "warp",
}


def explain_missing(library: str) -> str:
    """Returns why the programs of a library cannot be compiled here; empty if they can."""
    package = PACKAGES[library]
    root = package.partition(".")[0]
    if importlib.util.find_spec(root) is None or importlib.util.find_spec(package) is None:
        return f"needs `{package}`, which is no dependency of ligerdiag"
    if library == "gluon" and version("jax-triton") < "0.4":
        return "jax-triton before 0.4 does not compile a Gluon kernel"
    if library == "cutile" and not _has_tile_compiler():
        return "needs `tileiras`, the compiler of cuTile"
    return ""


def _has_tile_compiler() -> bool:
    compiler: Any = importlib.import_module("cuda.tile._compile")
    try:
        compiler._find_compiler_bin()
    except FileNotFoundError:
        return False
    return True
