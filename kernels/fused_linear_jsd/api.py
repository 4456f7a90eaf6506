"""Linear layers and Jensen-Shannon divergence; the forward pass also computes the gradients of the student's arrays."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from kernels.cross_entropy.options import Reduction
from kernels.fused_linear_jsd.chunks import Linear, compute_chunk_size, compute_loss, compute_loss_and_gradients
from kernels.jsd.api import check_beta
from kernels.kl_div.options import DivergenceOptions
from kernels.kl_div.row_weights import compute_row_weights

LOGITS_BYTES = 512 * 2**20
"""Default for the most bytes of the student's and teacher's logits that exist at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """divergence, beta: what is computed; chunk: of how many tokens at a time; accumulate: name of a dtype."""

    divergence: DivergenceOptions
    beta: float
    chunk: int
    accumulate: str


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
    logits_bytes: int = LOGITS_BYTES,
    accumulate: str | None = None,
    mode: str = "aliased",
) -> jax.Array:
    """Returns the loss, f32[]; differentiable in the student's input and weight alone.

    student_input: bf16, f16 or f32[..., hidden]; student_weight: float[hidden, vocabulary]; teacher_input: float[...,
    teacher_hidden]; teacher_weight: float[teacher_hidden, vocabulary]; where: bool[...], false for a token that does not
    count. Each product is computed in its input's dtype. reduction: `mean` or `sum`. logits_bytes: the most bytes that
    logits take at one time. accumulate: the dtype in which the weight's gradient is summed up over the chunks, by default
    the dtype of the student's input. See `reference.fused_linear_jsd` for the formula, `DivergenceOptions` for the options
    and `kernels.modes.Mode` for the modes. Raises ValueError for shapes that do not fit and for unknown options.
    """
    check_beta(beta)
    options = DivergenceOptions(temperature=temperature, reduction=reduction, mode=mode)
    if options.reduction is Reduction.NONE:
        raise ValueError("Expected one of mean, sum but got reduction='none': gradients are summed over the tokens")
    if logits_bytes < 1:
        raise ValueError(f"Expected a positive number of bytes but got {logits_bytes=}")
    *tokens, hidden = student_input.shape
    teacher_hidden, vocabulary = teacher_weight.shape if teacher_weight.ndim == 2 else (0, 0)
    if student_weight.shape != (hidden, vocabulary) or teacher_input.shape != (*tokens, teacher_hidden):
        raise ValueError(
            "Expected student_input (..., hidden), student_weight (hidden, vocabulary), teacher_input (..., "
            f"teacher_hidden) and teacher_weight (teacher_hidden, vocabulary) but got {student_input.shape=} "
            f"{student_weight.shape=} {teacher_input.shape=} {teacher_weight.shape=}"
        )
    weights = compute_row_weights(tuple(tokens), where, options.reduction)
    if not student_input.size or not student_weight.size or not teacher_input.size:
        raise ValueError(f"Expected at least one token and one logit but got {student_input.shape=} {vocabulary=}")
    bytes_each = student_input.dtype.itemsize + teacher_input.dtype.itemsize
    plan = _Plan(
        divergence=options,
        beta=float(beta),
        chunk=compute_chunk_size(weights.size, vocabulary, bytes_each, logits_bytes),
        accumulate=str(jnp.dtype(accumulate or student_input.dtype)),
    )
    x, y = student_input.reshape(-1, hidden), teacher_input.reshape(-1, teacher_hidden)
    return _fused(x, student_weight, (y, teacher_weight.astype(y.dtype)), weights, plan)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _fused(input: jax.Array, weight: jax.Array, teacher: Linear, weights: jax.Array, plan: _Plan) -> jax.Array:
    student = (input, weight.astype(input.dtype))
    return compute_loss(student, teacher, weights, plan.divergence, beta=plan.beta, chunk=plan.chunk)


def _forward(
    input: jax.Array, weight: jax.Array, teacher: Linear, weights: jax.Array, plan: _Plan
) -> tuple[jax.Array, Linear]:
    loss, grad_input, grad_weight = compute_loss_and_gradients(
        (input, weight.astype(input.dtype)),
        teacher,
        weights,
        plan.divergence,
        beta=plan.beta,
        chunk=plan.chunk,
        accumulate=jnp.dtype(plan.accumulate),
    )
    return loss, (grad_input, grad_weight.astype(weight.dtype))


def _backward(plan: _Plan, gradients: Linear, cotangent: jax.Array) -> tuple[jax.Array, jax.Array, None, None]:
    grad_input, grad_weight = ((cotangent * gradient).astype(gradient.dtype) for gradient in gradients)
    return grad_input, grad_weight, None, None


_fused.defvjp(_forward, _backward)
