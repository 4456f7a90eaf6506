import sys; from pathlib import Path; sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "src")]
import jax
from ligerdiag import Arg, Case
from tinylm.mlp import make_step, shapes
p = jax.tree.map(lambda a: Arg(shape=a.shape), shapes())
import ligerdiag
CASES = tuple(
    Case(name=f"{fl}-{mode}", function=make_step(mode, flavour=fl), args=(p, Arg(shape=(64, 32)), Arg(shape=(64,), dtype="int32")), **({"mesh": {"x": 2}} if fl == "dp" else {}))
    for fl in ("plain", "dp", "map", "accumulate", "accuracy") for mode in ("hidden", "aliased"))
