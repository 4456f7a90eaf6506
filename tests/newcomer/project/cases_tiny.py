import sys; from pathlib import Path; sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "src")]
import jax
from ligerdiag import Arg, Case
from variants import V, setup

def arg(a):
    return Arg(shape=a.shape, dtype=str(a.dtype))

CASES = []
for name, (cfg, donate) in V.items():
    step, args = setup(cfg, donate)
    CASES.append(Case(name=name.replace(" ", "_"), function=step, args=jax.tree.map(arg, args)))
CASES = tuple(CASES)
