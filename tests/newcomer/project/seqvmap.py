import sys; from pathlib import Path; sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "src")]
import jax, jax.numpy as jnp
from ligerdiag import Arg, Case
from tinylm.kernels.cross_entropy import _launch

def make(mode):
    launch = jax.custom_batching.sequential_vmap(lambda z, y: _launch(z, y, mode))
    @jax.custom_vjp
    def xent(z, y): return launch(z, y)[0].mean()
    def fwd(z, y):
        l, d = launch(z, y); return l.mean(), d
    def bwd(d, g): return g * d, None
    xent.defvjp(fwd, bwd)
    def step(p, x, y):
        def loss(p):
            return jax.vmap(lambda x, y: xent(jax.nn.gelu(x @ p["w1"]) @ p["w2"], y))(x, y).mean()
        v, g = jax.value_and_grad(loss)(p)
        return {"loss": v, "params": jax.tree.map(lambda a, b: a - 0.1 * b, p, g)}
    return step
P = {"w1": Arg(shape=(32, 64)), "w2": Arg(shape=(64, 128))}
CASES = tuple(Case(name=f"svmap-{m}", function=make(m), args=(P, Arg(shape=(4, 16, 32)), Arg(shape=(4, 16), dtype="int32"))) for m in ("hidden", "aliased"))
