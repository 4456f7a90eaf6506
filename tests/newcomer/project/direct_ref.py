import sys; from pathlib import Path; sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "src")]
import jax, jax.numpy as jnp
from ligerdiag import Arg, Case, Draw
from direct import make, P

def reference(params, x, y):
    def loss(p):
        z = jax.nn.gelu(x @ p["w1"] + p["b1"]) @ p["w2"]
        return (jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[:, None], -1)[:, 0]).mean()
    v, g = jax.value_and_grad(loss)(params)
    return {"loss": v, "params": jax.tree.map(lambda a, b: a - 0.1 * b, params, g)}

CASES = tuple(Case(name=f"ref-{m}-{'scaled' if s else 'direct'}", function=make(m, s), args=(P, Arg(shape=(64, 32)), Arg(shape=(64,), dtype="int32", draw=Draw(kind="randint", low=0, high=128))), reference=reference)
    for m, s in (("hidden", True), ("hidden", False), ("aliased", False)))
