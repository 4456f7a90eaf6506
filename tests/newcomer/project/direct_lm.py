"""The transformer, one in-place kernel (the loss), whose bwd hands the residual on as it is."""
import sys; from pathlib import Path; sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "src")]
import jax, jax.numpy as jnp
from ligerdiag import Arg, Case
from tinylm.config import Config
from tinylm.kernels.cross_entropy import _launch
from tinylm.model import init, logits_fn

CFG = Config(layers=1, rms="aliased")


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

    def train_step(params, tokens, labels):
        def loss(p):
            logits = logits_fn(CFG, p, tokens)
            return cross_entropy(logits.reshape(-1, CFG.vocab), labels.reshape(-1))

        value, g = jax.value_and_grad(loss)(params)
        return {"loss": value, "params": jax.tree.map(lambda a, b: a - 0.1 * b, params, g)}

    return train_step


P = jax.tree.map(lambda a: Arg(shape=a.shape), jax.eval_shape(lambda: init(jax.random.key(0), CFG)))
T = Arg(shape=(2, 16), dtype="int32")
CASES = tuple(
    Case(name=f"lm-{mode}-{'scaled' if s else 'direct'}", function=make(mode, s), args=(P, T, T))
    for mode in ("hidden",) for s in (True, False))
