"""Cross entropy in plain jnp, computed in f32: what the kernel is compared with."""

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import Reduction


def cross_entropy(
    logits: jax.Array,
    targets: jax.Array,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> jax.Array:
    """Returns the loss, f32[] or, for reduction `none`, f32[...] in the shape of `targets`.

    logits: float[..., vocabulary]; targets: int[...].

    With V the vocabulary, s the smoothing, y the target, and log p = x - logsumexp(x) for a row x of the logits:

        loss_row = -(1 - s) * log p[y] - s / V * sum_i log p[i]

    and so, with z the gradient of the loss with respect to loss_row (1 / count of rows not ignored, for `mean`):

        gradient[i] = z * (exp(log p[i]) - s / V - (1 - s) * [i == y])

    An ignored row has loss and gradient 0; a target that is neither `ignore_index` nor in [0, V) has loss NaN. The
    logsumexp by a running maximum is Milakov and Gimelshein's (arXiv 1805.02867), the gradient that replaces the logits
    is Liger Kernel's (arXiv 2410.10989); neither is needed here.
    """
    vocabulary = logits.shape[-1]
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    exists = (targets >= 0) & (targets < vocabulary)
    at_target = jnp.take_along_axis(log_p, jnp.where(exists, targets, 0)[..., None], axis=-1)[..., 0]
    loss = -(1 - label_smoothing) * at_target
    if label_smoothing:
        loss = loss - label_smoothing / vocabulary * log_p.sum(-1)
    kept = targets != ignore_index
    loss = jnp.where(kept, jnp.where(exists, loss, jnp.nan), 0.0)
    match Reduction(reduction):
        case Reduction.NONE:
            return loss
        case Reduction.SUM:
            return loss.sum()
        case Reduction.MEAN:
            return loss.sum() / jnp.maximum(1, kept.sum()).astype(jnp.float32)
