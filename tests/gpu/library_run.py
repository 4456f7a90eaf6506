"""Runs a program of `tests/effects/library_programs` on a GPU, without ligerdiag: `python -m tests.gpu.library_run LIBRARY
FUNCTION OPERANDS RESULTS`. OPERANDS is a file of `numpy.savez` with the arguments in order; RESULTS gets the outputs.
"""

import sys
from importlib import import_module
from typing import Any

import jax
import numpy as np


def main() -> None:
    library, function, operands, results = sys.argv[1:]
    program = getattr(import_module(f"tests.effects.library_programs.{library}_programs"), function)
    gpu: Any = jax.devices("cuda")[0]
    with np.load(operands) as loaded:
        placed = [jax.device_put(loaded[name], gpu) for name in loaded.files]
    found: Any = jax.jit(program)(*placed)
    np.savez(results, **{name: np.asarray(value) for name, value in found.items()})


if __name__ == "__main__":
    main()
