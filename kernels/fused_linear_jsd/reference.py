"""Linear layers and Jensen-Shannon divergence in plain jnp, in f32: the reference for the kernel."""

import jax
import jax.numpy as jnp

from kernels.jsd.reference import jsd


def fused_linear_jsd(
    student_input: jax.Array,
    student_weight: jax.Array,
    teacher_input: jax.Array,
    teacher_weight: jax.Array,
    *,
    beta: float = 0.5,
    where: jax.Array | None = None,
    temperature: float = 1.0,
    reduction: str = "mean",
) -> jax.Array:
    """Returns the loss, f32[].

    student_input: float[..., hidden]; student_weight: float[hidden, vocabulary]; teacher_input: float[..., teacher_hidden];
    teacher_weight: float[teacher_hidden, vocabulary]; where: bool[...], false for a token that does not count.

        loss = jsd(student_input @ student_weight, teacher_input @ teacher_weight)

    as in `kernels.jsd.reference`, with each weight rounded to its input's dtype first, as the kernel has them, and
    everything after that in f32 and in one piece. To compute it chunk by chunk, together with the gradients, is Liger
    Kernel's idea (arXiv 2410.10989, section 3.2).
    """
    logits = (_multiply(student_input, student_weight), _multiply(teacher_input, teacher_weight))
    return jsd(*logits, beta=beta, where=where, temperature=temperature, reduction=reduction)


def _multiply(input: jax.Array, weight: jax.Array) -> jax.Array:
    f32 = jnp.float32
    return jnp.matmul(input.astype(f32), weight.astype(input.dtype).astype(f32), precision="highest")
