"""Runs the bad program of one report in Pallas' interpret mode with race detection: `python -m benchmark.interpret_worker
NAME`. Prints {"races": BOOL} as its last line; ends with an error if the mode does not take the program.
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
    from jax.experimental.pallas import tpu

    case = load_entry(sys.argv[1]).bad
    if not isinstance(case, Case) or case.mesh:
        raise SystemExit("expected a case for one device")
    arguments = jax.tree.map(_draw, case.args, is_leaf=lambda one: isinstance(one, Arg))
    with tpu.force_tpu_interpret_mode(tpu.InterpretParams(detect_races=True)):
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
