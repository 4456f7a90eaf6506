"""Runs a program of one report on a GPU, twice, without ligerdiag: `python -m benchmark.gpu_worker NAME bad|cured`."""

import sys
from typing import Any

import jax
import numpy as np

from benchmark.report import load_entry
from ligerdiag.model.case import Arg, Case


def main() -> None:
    """Runs the program named on the command line."""
    name, program = sys.argv[1:]
    entry = load_entry(name)
    case = entry.bad if program == "bad" else entry.cured
    if not isinstance(case, Case) or case.mesh:
        raise SystemExit("expected a case for one device")
    function: Any = jax.jit(case.function)
    for _ in range(2):
        arguments = jax.tree.map(draw, case.args, is_leaf=lambda one: isinstance(one, Arg))
        jax.block_until_ready(function(*arguments))


def draw(arg: Arg) -> Any:
    """Returns an array of the argument's shape and dtype; integers are 0 or 1."""
    random = np.random.default_rng(0)
    if np.issubdtype(np.dtype(arg.dtype), np.integer):
        return random.integers(0, 2, arg.shape).astype(arg.dtype)
    return random.standard_normal(arg.shape).astype(arg.dtype)


if __name__ == "__main__":
    main()
