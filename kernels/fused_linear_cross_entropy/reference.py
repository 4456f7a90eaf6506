"""Linear layer and cross entropy in plain jnp, computed in f32: what the kernel is compared with."""

import jax
import jax.numpy as jnp

from kernels.cross_entropy import reference


def fused_linear_cross_entropy(
    input: jax.Array,
    weight: jax.Array,
    targets: jax.Array,
    bias: jax.Array | None = None,
    *,
    target_mask: jax.Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> jax.Array:
    """Returns the loss, f32[].

    input: float[..., embedding]; weight: float[embedding, vocabulary]; targets: int[...]; bias: float[vocabulary];
    target_mask: bool[...], false where a target is to be ignored.

        loss = cross_entropy(input @ weight + bias, targets)

    as in `kernels.cross_entropy.reference`, with weight and bias rounded to the input's dtype first, as the kernel has
    them, and everything after that in f32 and in one piece. Doing it chunk by chunk, the gradients of all three
    computed on the way, is Liger Kernel's idea (arXiv 2410.10989, section 3.2).
    """
    f32 = jnp.float32
    logits = jnp.matmul(input.astype(f32), weight.astype(input.dtype).astype(f32), precision="highest")
    if bias is not None:
        logits = logits + bias.astype(input.dtype).astype(f32)
    if target_mask is not None:
        targets = jnp.where(target_mask, targets, ignore_index)
    return reference.cross_entropy(
        logits, targets, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )
