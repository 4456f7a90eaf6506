"""Cross entropy in plain jnp, computed in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import Reduction


def cross_entropy(
    logits: jax.Array,
    targets: jax.Array,
    *,
    where: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    logit_soft_cap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
    return_lse: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Returns the loss, f32[] or, for reduction `none`, f32[...]; with `return_lse` the logsumexp, f32[...], too.

    logits: float[..., vocabulary]; targets: int[...]; where: bool[...], false where a target is to be ignored.

    With V the vocabulary, s the smoothing, z the weight of the z-loss, y the target, c the cap, and for a row of the
    logits x = c * tanh(logits / c) (without a cap: the logits), L = logsumexp(x), log p = x - L:

        loss_row = -(1 - s) * log p[y] - s / V * sum_i log p[i] + z * L**2

    and so, with w the gradient of the loss with respect to loss_row (1 / count of rows not ignored, for `mean`):

        gradient[i] = w * ((1 + 2 * z * L) * p[i] - s / V - (1 - s) * [i == y]) * (1 - (x[i] / c)**2)

    An ignored row has loss, logsumexp and gradient 0; a target that is neither `ignore_index` nor in [0, V) has loss
    NaN. The logsumexp by a running maximum is Milakov and Gimelshein's (arXiv 1805.02867), the gradient that replaces the
    logits is Liger Kernel's (arXiv 2410.10989), the z-loss is PaLM's (arXiv 2204.02311, section 5), the cap Gemma 2's
    (arXiv 2408.00118, section 2).
    """
    vocabulary = logits.shape[-1]
    x = logits.astype(jnp.float32)
    if logit_soft_cap is not None:
        x = logit_soft_cap * jnp.tanh(x / logit_soft_cap)
    log_p, lse = jax.nn.log_softmax(x, axis=-1), jax.nn.logsumexp(x, axis=-1)
    exists = (targets >= 0) & (targets < vocabulary)
    at_target = jnp.take_along_axis(log_p, jnp.where(exists, targets, 0)[..., None], axis=-1)[..., 0]
    loss = -(1 - label_smoothing) * at_target
    if label_smoothing:
        loss = loss - label_smoothing / vocabulary * log_p.sum(-1)
    if z_loss:
        loss = loss + z_loss * lse**2
    kept = targets != ignore_index
    if where is not None:
        kept &= where
    loss = jnp.where(kept, jnp.where(exists, loss, jnp.nan), 0.0)
    reduced = _reduce(loss, kept, Reduction(reduction))
    return (reduced, jnp.where(kept, lse, 0.0)) if return_lse else reduced


def _reduce(loss: jax.Array, kept: jax.Array, reduction: Reduction) -> jax.Array:
    match reduction:
        case Reduction.NONE:
            return loss
        case Reduction.SUM:
            return loss.sum()
        case Reduction.MEAN:
            return loss.sum() / jnp.maximum(1, kept.sum()).astype(jnp.float32)
