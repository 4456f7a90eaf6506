"""Jensen-Shannon divergence for distillation, whose forward pass overwrites the student's logits with their gradient."""

from functools import partial

import jax
import jax.numpy as jnp

from kernels.kl_div.options import DivergenceOptions
from kernels.kl_div.row_weights import compute_row_weights, flatten_pair, reduce_losses, scale_gradient
from kernels.kl_div.triton import launch


def jsd(
    student_logits: jax.Array,
    teacher_logits: jax.Array,
    *,
    beta: float = 0.5,
    where: jax.Array | None = None,
    temperature: float = 1.0,
    reduction: str = "mean",
    mode: str = "aliased",
) -> jax.Array:
    """Returns the divergence, f32[] or, for reduction `none`, f32[...]; differentiable in the student's logits alone.

    student_logits, teacher_logits: bf16, f16 or f32[..., vocabulary]; the two dtypes may differ; where: bool[...], false for
    a row that does not count; beta: in [0, 1]; 0 means KL(teacher || student), 1 KL(student || teacher). See `reference.jsd`
    for the formula, `DivergenceOptions` for the options and `kernels.modes.Mode` for the modes. Without differentiation, no
    gradient is computed and nothing is overwritten. Raises ValueError for shapes that do not fit and for unknown options.
    """
    check_beta(beta)
    options = DivergenceOptions(temperature=temperature, reduction=reduction, mode=mode)
    student, teacher = flatten_pair(student_logits, teacher_logits)
    tokens = student_logits.shape[:-1]
    weights = compute_row_weights(tokens, where, options.reduction)
    losses = _jsd(student, teacher, weights, options, beta) if student.size else jnp.zeros(0, jnp.float32)
    return reduce_losses(losses, tokens, options.reduction)


def check_beta(beta: float) -> None:
    """Raises ValueError for a beta outside of [0, 1]."""
    if not 0.0 <= beta <= 1.0:
        raise ValueError(f"Expected a number in [0, 1] but got {beta=}")


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _jsd(
    student: jax.Array, teacher: jax.Array, weights: jax.Array, options: DivergenceOptions, beta: float
) -> jax.Array:
    return launch(student, teacher, weights, options, beta, gradient=False)[0]


def _forward(
    student: jax.Array, teacher: jax.Array, weights: jax.Array, options: DivergenceOptions, beta: float
) -> tuple[jax.Array, jax.Array]:
    return launch(student, teacher, weights, options, beta)


def _backward(
    options: DivergenceOptions, beta: float, gradient: jax.Array, cotangent: jax.Array
) -> tuple[jax.Array, None, None]:
    return scale_gradient(gradient, cotangent), None, None


_jsd.defvjp(_forward, _backward)
