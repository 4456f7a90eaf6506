import sys; from pathlib import Path; sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "src")]
import jax, jax.numpy as jnp, optax
from ligerdiag import Arg, Case
from tinylm.config import Config
from tinylm.kernels.cross_entropy import _launch
from tinylm.model import init, logits_fn

CFG = Config(layers=1, rms="aliased")
OPT = optax.adamw(1e-3)


def make(mode, scaled):
    @jax.custom_vjp
    def cross_entropy(logits, labels):
        return _launch(logits, labels, mode)[0].mean()

    def fwd(logits, labels):
        losses, dlogits = _launch(logits, labels, mode)
        return losses.mean(), dlogits

    def bwd(dlogits, g):
        return (g * dlogits if scaled else dlogits), None

    cross_entropy.defvjp(fwd, bwd)

    @jax.jit
    def train_step(params, opt_state, batch):
        def objective(p):
            logits = logits_fn(CFG, p, batch["tokens"])
            return cross_entropy(logits.reshape(-1, CFG.vocab), batch["labels"].reshape(-1))

        loss, grads = jax.value_and_grad(objective)(params)
        updates, opt_state = OPT.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, {"loss": loss, "grad_norm": optax.global_norm(grads)}

    return train_step


S = jax.eval_shape(lambda: init(jax.random.key(0), CFG))
arg = lambda a: Arg(shape=a.shape, dtype=str(a.dtype))
T = Arg(shape=(2, 16), dtype="int32")
CASES = tuple(
    Case(name=f"adam-{mode}-{'scaled' if s else 'direct'}", function=make(mode, s),
         args=(jax.tree.map(arg, S), jax.tree.map(arg, jax.eval_shape(OPT.init, S)), {"tokens": T, "labels": T}))
    for mode in ("hidden",) for s in (True, False))
