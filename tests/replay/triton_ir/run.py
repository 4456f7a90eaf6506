"""Compiles kernels to Triton IR by Triton itself, and runs them by `run_grid`."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ligerdiag.effects.ttir_module import TtirModule, parse_ttir
from ligerdiag.replay.triton_ir.interpreter import run_grid
from ligerdiag.replay.triton_ir.outcome import GridOptions, GridOutcome
from tests.oracle.frontend import build_ttir
from tests.replay.triton_ir.oracle import NAMES, Launch, find_kernel, load_kernels

_SCALARS = {int: "i32", float: "fp32", bool: "i1"}


@cache
def _load(file: Path) -> Any:
    return load_kernels(file)


def build_launch(file: Path, launch: Launch, *, optimized: bool = False) -> tuple[TtirModule, str]:
    """Returns the module of a launch's kernel, and the kernel's name in it."""
    kernel = find_kernel(_load(file), launch.kernel)
    signature = {
        name: f"*{NAMES[value.dtype.name]}"
        if isinstance(value, np.ndarray) and value.ndim
        else _SCALARS.get(type(value)) or NAMES[value.dtype.name]
        for name, value in launch.arguments.items()
    }
    module = parse_ttir(build_ttir(kernel, signature, launch.constants, optimized=optimized))
    return module, next(name for name in module.functions if name.endswith(launch.kernel))


def run_launch(
    file: Path, launch: Launch, *, optimized: bool = False, options: GridOptions | None = None
) -> tuple[dict[str, Any], GridOutcome]:
    """Returns the arguments afterwards, and the outcome."""
    module, entry = build_launch(file, launch, optimized=optimized)
    arguments = launch.copy()
    names = [name for name in _get_names(file, launch) if name in arguments]
    outcome = run_grid(
        module, entry, [arguments[name] for name in names], launch.grid, options=options or GridOptions()
    )
    return arguments, outcome


def _get_names(file: Path, launch: Launch) -> list[str]:
    return find_kernel(_load(file), launch.kernel).arg_names
