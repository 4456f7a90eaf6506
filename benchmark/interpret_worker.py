"""Runs the bad program of one report in Pallas' interpret mode with race detection: `python -m benchmark.interpret_worker
NAME`. Prints {"races": BOOL} as its last line; ends with an error if the mode does not take the program.

The mode is that of TPU kernels, the only one with grids that detects races. It takes a kernel for a GPU if the parameters of
the GPU's compiler are left out; its grid then counts as parallel, as it is on a GPU, on two cores.
"""

import json
import sys
from typing import Any

import jax
import numpy as np

from benchmark.report import load_entry
from ligerdiag.model.case import Arg, Case


def main() -> None:
    """Runs the program named on the command line."""
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call
    from jax.experimental import pallas
    from jax.experimental.pallas import tpu

    call = pallas.pallas_call

    def call_in_parallel(kernel: Any, *, grid: Any = (), compiler_params: Any = None, **words: Any) -> Any:
        del compiler_params
        axes = (grid,) if isinstance(grid, int) else tuple(grid)
        params = tpu.CompilerParams(dimension_semantics=("parallel",) * len(axes))
        return call(kernel, grid=axes, compiler_params=params, **words)

    pallas.pallas_call = call_in_parallel
    case = load_entry(sys.argv[1]).bad
    if not isinstance(case, Case) or case.mesh:
        raise SystemExit("expected a case for one device")
    arguments = jax.tree.map(_draw, case.args, is_leaf=lambda one: isinstance(one, Arg))
    with tpu.force_tpu_interpret_mode(tpu.InterpretParams(detect_races=True, num_cores_or_threads=2)):
        jax.block_until_ready(jax.jit(case.function)(*arguments))
    races: Any = interpret_pallas_call.races
    sys.stdout.write(json.dumps({"races": bool(races is not None and races.races_found)}) + "\n")


def _draw(arg: Arg) -> Any:
    random = np.random.default_rng(0)
    if np.issubdtype(np.dtype(arg.dtype), np.integer):
        return random.integers(0, 2, arg.shape).astype(arg.dtype)
    return random.standard_normal(arg.shape).astype(arg.dtype)


if __name__ == "__main__":
    main()
