"""Linear layer and cross entropy in plain jnp, computed in f32: the reference for the kernel."""

from typing import Any

import jax
import jax.numpy as jnp

from kernels.cross_entropy import reference


def fused_linear_cross_entropy(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None = None,
    **options: Any,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Returns the loss, f32[] or, for reduction `none`, f32[...]; with `return_lse` also the logsumexp.

    input: float[..., embedding]; weight: float[embedding, vocabulary]; targets: int[...]; bias: float[vocabulary];
    options: the options of `kernels.cross_entropy.reference.cross_entropy`.

        loss = cross_entropy(input @ weight + bias, targets)

    with weight and bias rounded to the input's dtype first, as the kernel has them, and everything after that in f32 and in
    one piece. To compute it chunk by chunk, together with the gradients of input, weight and bias, is Liger Kernel's idea
    (arXiv 2410.10989, section 3.2).
    """
    f32 = jnp.float32
    logits = jnp.matmul(input.astype(f32), weight.astype(input.dtype).astype(f32), precision="highest")
    if bias is not None:
        logits = logits + bias.astype(input.dtype).astype(f32)
    return reference.cross_entropy(logits, targets, **options)
