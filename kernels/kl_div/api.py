"""KL divergence for distillation, whose forward pass overwrites the student's logits with their gradient."""

from functools import partial

import jax
import jax.numpy as jnp

from kernels.kl_div.options import DivergenceOptions
from kernels.kl_div.row_weights import compute_row_weights, flatten_pair, reduce_losses, scale_gradient
from kernels.kl_div.triton import launch


def kl_div(
    student_logits: jax.Array,
    teacher_logits: jax.Array,
    *,
    where: jax.Array | None = None,
    temperature: float = 1.0,
    reduction: str = "mean",
    mode: str = "aliased",
) -> jax.Array:
    """Returns the divergence, f32[] or, for reduction `none`, f32[...]; differentiable in the student's logits alone.

    student_logits, teacher_logits: bf16, f16 or f32[..., vocabulary], each of its own dtype; where: bool[...], false for a
    row that does not count. See `reference.kl_div` for the formula, `DivergenceOptions` for the options and
    `kernels.modes.Mode` for the modes. Without differentiation, no gradient is computed and nothing is overwritten. Raises
    ValueError for shapes that do not fit and for unknown options.
    """
    options = DivergenceOptions(temperature=temperature, reduction=reduction, mode=mode)
    student, teacher = flatten_pair(student_logits, teacher_logits)
    tokens = student_logits.shape[:-1]
    weights = compute_row_weights(tokens, where, options.reduction)
    losses = _kl_div(student, teacher, weights, options) if student.size else jnp.zeros(0, jnp.float32)
    return reduce_losses(losses, tokens, options.reduction)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _kl_div(student: jax.Array, teacher: jax.Array, weights: jax.Array, options: DivergenceOptions) -> jax.Array:
    return launch(student, teacher, weights, options, gradient=False)[0]


def _forward(
    student: jax.Array, teacher: jax.Array, weights: jax.Array, options: DivergenceOptions
) -> tuple[jax.Array, jax.Array]:
    return launch(student, teacher, weights, options)


def _backward(options: DivergenceOptions, gradient: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, None, None]:
    return scale_gradient(gradient, cotangent), None, None


_kl_div.defvjp(_forward, _backward)
