"""Triton's own interpreter as the oracle: runs kernels of a file, in a process with TRITON_INTERPRET=1.

    python -m tests.replay.triton_ir.oracle FILE LAUNCHES RESULTS

LAUNCHES: a pickle of a list of (kernel, arguments by name, constants by name, grid); RESULTS: a pickle of the list of the
arrays afterwards, or of the exceptions as text.
"""

import importlib.util
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from tests.oracle.host_array import HostArray

type Array = np.ndarray[Any, Any]

ROOT = Path(__file__).parents[3]
NAMES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fn": "fp8e4nv",
}


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One run of a kernel."""

    kernel: str
    arguments: dict[str, Any]
    """Arrays and numbers."""
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    grid: tuple[int, int, int] = (1, 1, 1)

    def copy(self) -> dict[str, Any]:
        """Returns the arguments with copies of the arrays."""
        return {
            name: value.copy() if isinstance(value, np.ndarray) and value.ndim else value
            for name, value in self.arguments.items()
        }


def load_kernels(file: Path) -> ModuleType:
    """Returns the module in this file."""
    spec = importlib.util.spec_from_file_location(f"launched_{file.parent.name}_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def find_kernel(module: ModuleType, name: str) -> Any:
    """Returns the kernel without its autotuner."""
    kernel = getattr(module, name)
    return kernel.fn if hasattr(kernel, "configs") else kernel


def run_oracle(file: Path, launches: list[Launch], folder: Path) -> list[Any]:
    """Returns, for each launch, its arguments by name afterwards, or the text of the exception."""
    given, result = folder / "launches.pickle", folder / "results.pickle"
    given.write_bytes(pickle.dumps(launches))
    subprocess.run(
        [sys.executable, "-m", "tests.replay.triton_ir.oracle", str(file), str(given), str(result)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )
    return pickle.loads(result.read_bytes())


def _run(file: Path, given: Path, result: Path) -> None:
    import triton.language as tl
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patch_tensor_too(tensor: Any, scope: Any) -> None:
        # Triton 3.6 converts arrays of one element by int(), which NumPy no longer accepts since 2.5.
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_tensor_too
    kernels = load_kernels(file)
    launches: list[Launch] = pickle.loads(given.read_bytes())
    results: list[Any] = []
    for launch in launches:
        arguments = launch.copy()
        handed = {
            name: HostArray(value, tl) if isinstance(value, np.ndarray) and value.ndim else value
            for name, value in arguments.items()
        }
        try:
            with np.errstate(all="ignore"):
                find_kernel(kernels, launch.kernel)[launch.grid](**handed, **launch.constants)
            results.append(arguments)
        except Exception as fault:
            while fault.__cause__ is not None:
                fault = fault.__cause__
            results.append(f"{type(fault).__name__}: {fault}")
    result.write_bytes(pickle.dumps(results))


_ = ml_dtypes  # its dtypes have names once it is imported

if __name__ == "__main__":
    _run(*(Path(argument) for argument in sys.argv[1:4]))
