"""KL divergence of softmax distributions in plain jnp, computed in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import Reduction
from kernels.kl_div.row_weights import compute_row_weights


def kl_div(
    student_logits: jax.Array,
    teacher_logits: jax.Array,
    *,
    where: jax.Array | None = None,
    temperature: float = 1.0,
    reduction: str = "mean",
) -> jax.Array:
    """Returns the divergence of the student from the teacher, f32[] or, for reduction `none`, f32[...].

    student_logits, teacher_logits: float[..., vocabulary]; where: bool[...], false for a row that does not count.

    With p = softmax(teacher / T) and q = softmax(student / T),

        loss_row = sum_i p[i] (log p[i] - log q[i])

    (Kullback and Leibler 1951; for distillation at a temperature: Hinton, Vinyals and Dean, arXiv 1503.02531, section 2,
    who multiply by T^2, which is not done here), and so, with z the gradient of the loss with respect to loss_row:

        gradient[i] = z / T * (q[i] - p[i])

    The teacher gets no gradient. An element with p[i] = 0 adds nothing.
    """
    log_q = jax.nn.log_softmax(student_logits.astype(jnp.float32) / temperature, axis=-1)
    log_p = jax.lax.stop_gradient(jax.nn.log_softmax(teacher_logits.astype(jnp.float32) / temperature, axis=-1))
    p = jnp.exp(log_p)
    losses = jnp.where(p == 0, 0.0, p * (log_p - log_q)).sum(-1)
    return apply_weights(losses, where, reduction)


def apply_weights(losses: jax.Array, where: jax.Array | None, reduction: str) -> jax.Array:
    """Returns the loss that the reduction makes of the rows' losses, f32[...]. A row that does not count adds 0, even if its
    loss is NaN.
    """
    weights = compute_row_weights(losses.shape, where, Reduction(reduction)).reshape(losses.shape)
    weighted = jnp.where(weights == 0, 0.0, weights * losses)
    return weighted if Reduction(reduction) is Reduction.NONE else weighted.sum()
