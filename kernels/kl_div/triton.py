"""The Triton kernel of both divergences, one program for each row, and its launch."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.kl_div.options import DivergenceOptions
from kernels.triton_call import overwriting_call

MAX_BLOCK = 4096
"""Largest number of elements of a row that one program holds at one time."""
SMALLEST = 1e-37
"""The least share of the mixture at which a probability counts: rounded to 0, its logarithm would be infinite."""


@triton.jit
def divergence_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    student_ptr,
    teacher_ptr,
    weight_ptr,
    loss_ptr,
    destination_ptr,
    VOCABULARY: tl.constexpr,
    INVERSE: tl.constexpr,
    BETA: tl.constexpr,
    SMALLEST: tl.constexpr,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    if destination_ptr is None:
        destination_ptr = student_ptr
    student_ptr += row * VOCABULARY
    teacher_ptr += row * VOCABULARY
    destination_ptr += row * VOCABULARY
    weight = tl.load(weight_ptr + row)
    if weight == 0:
        if GRADIENT:
            for start in range(0, VOCABULARY, BLOCK):
                column = start + tl.arange(0, BLOCK)
                tl.store(destination_ptr + column, 0.0, mask=column < VOCABULARY)
        tl.store(loss_ptr + row, 0.0)
        return

    student_sum = _sum_exponentials(student_ptr, INVERSE, VOCABULARY, BLOCK)
    teacher_sum = _sum_exponentials(teacher_ptr, INVERSE, VOCABULARY, BLOCK)
    share: tl.constexpr = 1.0 - BETA if BETA < 1 else 1.0
    of_teacher = 0.0
    of_student = 0.0
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        log_q = _load_logits(student_ptr, column, INVERSE, VOCABULARY) - student_sum
        log_p = _load_logits(teacher_ptr, column, INVERSE, VOCABULARY) - teacher_sum
        if BETA == 0:
            p = tl.exp(log_p)
            of_teacher += tl.sum(tl.where(p == 0, 0.0, p * (log_p - log_q)))
            if GRADIENT:
                gradient = (tl.exp(log_q) - p) * (weight * INVERSE)
                tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY)
        else:
            q = tl.exp(log_q)
            log_m = log_p
            if BETA < 1:
                p = tl.exp(log_p)
                log_m = tl.log(BETA * p + share * q)
                of_teacher += tl.sum(tl.where(p < SMALLEST, 0.0, p * (log_p - log_m)))
            of_student += tl.sum(tl.where(q < SMALLEST, 0.0, q * (log_q - log_m)))
    loss = of_teacher if BETA == 0 else BETA * of_teacher + share * of_student
    tl.store(loss_ptr + row, loss * weight)

    if GRADIENT and BETA > 0:
        for start in range(0, VOCABULARY, BLOCK):
            column = start + tl.arange(0, BLOCK)
            log_q = _load_logits(student_ptr, column, INVERSE, VOCABULARY) - student_sum
            log_p = _load_logits(teacher_ptr, column, INVERSE, VOCABULARY) - teacher_sum
            q = tl.exp(log_q)
            log_m = log_p
            if BETA < 1:
                log_m = tl.log(BETA * tl.exp(log_p) + share * q)
            gradient = tl.where(q < SMALLEST, 0.0, q * (log_q - log_m - of_student)) * (share * weight * INVERSE)
            tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY)


@triton.jit
def _load_logits(row_ptr, column, INVERSE: tl.constexpr, VOCABULARY: tl.constexpr):
    """Returns a block of a row of logits over the temperature, f32, -inf behind the row's end."""
    return tl.load(row_ptr + column, mask=column < VOCABULARY, other=float("-inf")).to(tl.float32) * INVERSE


@triton.jit
def _sum_exponentials(row_ptr, INVERSE: tl.constexpr, VOCABULARY: tl.constexpr, BLOCK: tl.constexpr):
    """Returns the logsumexp of a row (Milakov and Gimelshein, arXiv 1805.02867, algorithm 3, a block at a time)."""
    maximum = float("-inf")
    denominator = 0.0
    for start in range(0, VOCABULARY, BLOCK):
        x = _load_logits(row_ptr, start + tl.arange(0, BLOCK), INVERSE, VOCABULARY)
        higher = tl.maximum(maximum, tl.max(x))
        # A row may begin with blocks of -inf.
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        denominator = denominator * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift))
        maximum = higher
    return maximum + tl.log(denominator)


def launch(
    student_logits: jax.Array,
    teacher_logits: jax.Array,
    weights: jax.Array,
    options: DivergenceOptions,
    beta: float = 0.0,
    *,
    gradient: bool = True,
) -> tuple[jax.Array, jax.Array | None]:
    """Returns the losses, f32[rows], and the gradient in the shape and dtype of the student's logits; None without
    `gradient`.

    student_logits, teacher_logits: float[rows, vocabulary], both sizes above 0; weights: f32[rows], the weight of each row;
    beta: in [0, 1], as in `kernels.jsd`; 0 is KL(teacher || student).
    """
    rows, vocabulary = student_logits.shape
    (losses,), contents = overwriting_call(
        divergence_kernel,
        student_logits,
        teacher_logits,
        weights,
        written=(0,) if gradient else (),
        outputs=(jax.ShapeDtypeStruct((rows,), jnp.float32),),
        grid=(rows,),
        mode=options.mode,
        num_warps=4 if beta == 0 else 8,
        **({} if gradient else {"destination_ptr": None}),
        VOCABULARY=vocabulary,
        INVERSE=1.0 / options.temperature,
        BETA=float(beta),
        SMALLEST=SMALLEST / (min(beta, 1.0 - beta) or 1.0),
        GRADIENT=gradient,
        BLOCK=min(MAX_BLOCK, triton.next_power_of_2(vocabulary)),
    )
    return losses, contents[0] if gradient else None
