"""Jensen-Shannon divergence of softmax distributions in plain jnp, computed in f32: the reference for the kernel."""

import math

import jax
import jax.numpy as jnp

from kernels.kl_div.reference import apply_weights


def jsd(
    student_logits: jax.Array,
    teacher_logits: jax.Array,
    *,
    beta: float = 0.5,
    where: jax.Array | None = None,
    temperature: float = 1.0,
    reduction: str = "mean",
) -> jax.Array:
    """Returns the divergence between student and teacher, f32[] or, for reduction `none`, f32[...].

    student_logits, teacher_logits: float[..., vocabulary]; where: bool[...], false for a row that does not count.

    With p = softmax(teacher / T), q = softmax(student / T) and m = beta p + (1 - beta) q,

        loss_row = beta sum_i p[i] (log p[i] - log m[i]) + (1 - beta) sum_i q[i] (log q[i] - log m[i])

    (Agarwal et al., arXiv 2306.13649, equation 1). For beta 0 and 1 this formula gives 0, so loss_row is a limit
    instead: for beta 0 the limit of the formula / beta, KL(p || q); for beta 1 the limit of the formula / (1 - beta),
    KL(q || p). With z the gradient of the loss
    with respect to loss_row, and r = log q - log m:

        gradient[i] = z / T * (1 - beta) q[i] (r[i] - sum_j q[j] r[j])

    for beta between 0 and 1, since every other term cancels. For beta 1 the factor 1 - beta is left out, and m is p; for
    beta 0 the gradient is that of `kernels.kl_div.reference.kl_div`. The teacher gets no gradient. An element with p[i] = 0
    or q[i] = 0 adds nothing to the sums.
    """
    log_q = jax.nn.log_softmax(student_logits.astype(jnp.float32) / temperature, axis=-1)
    log_p = jax.lax.stop_gradient(jax.nn.log_softmax(teacher_logits.astype(jnp.float32) / temperature, axis=-1))
    if beta == 0:
        losses = _sum_divergence(log_p, log_q)
    elif beta == 1:
        losses = _sum_divergence(log_q, log_p)
    else:
        log_m = jnp.logaddexp(log_p + math.log(beta), log_q + math.log1p(-beta))
        losses = beta * _sum_divergence(log_p, log_m) + (1 - beta) * _sum_divergence(log_q, log_m)
    return apply_weights(losses, where, reduction)


def _sum_divergence(log_p: jax.Array, log_m: jax.Array) -> jax.Array:
    p = jnp.exp(log_p)
    return jnp.where(p == 0, 0.0, p * (log_p - log_m)).sum(-1)
