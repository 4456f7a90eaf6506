"""The kernel, one program a row, and its launch."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.kl_div import triton as kl_div_triton
from kernels.kl_div.options import DivergenceOptions
from kernels.kl_div.triton import load_logits, sum_exponentials
from kernels.triton_call import overwriting_call

MAX_BLOCK = 4096
"""Elements of a row that one program holds at a time, at most."""
SMALLEST = 1e-37
"""A probability whose share of the mixture is below that counts as 0: rounded to 0, its logarithm would be infinite."""


@triton.jit
def jsd_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
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

    student_sum = sum_exponentials(student_ptr, INVERSE, VOCABULARY, BLOCK)
    teacher_sum = sum_exponentials(teacher_ptr, INVERSE, VOCABULARY, BLOCK)
    share: tl.constexpr = 1.0 - BETA if BETA < 1 else 1.0
    of_teacher = 0.0
    of_student = 0.0
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        log_q = load_logits(student_ptr, column, INVERSE, VOCABULARY) - student_sum
        log_p = load_logits(teacher_ptr, column, INVERSE, VOCABULARY) - teacher_sum
        q = tl.exp(log_q)
        log_m = log_p
        if BETA < 1:
            p = tl.exp(log_p)
            log_m = tl.log(BETA * p + share * q)
            of_teacher += tl.sum(tl.where(p < SMALLEST, 0.0, p * (log_p - log_m)))
        of_student += tl.sum(tl.where(q < SMALLEST, 0.0, q * (log_q - log_m)))
    tl.store(loss_ptr + row, (BETA * of_teacher + share * of_student) * weight)

    if GRADIENT:
        for start in range(0, VOCABULARY, BLOCK):
            column = start + tl.arange(0, BLOCK)
            log_q = load_logits(student_ptr, column, INVERSE, VOCABULARY) - student_sum
            log_p = load_logits(teacher_ptr, column, INVERSE, VOCABULARY) - teacher_sum
            q = tl.exp(log_q)
            log_m = log_p
            if BETA < 1:
                log_m = tl.log(BETA * tl.exp(log_p) + share * q)
            gradient = tl.where(q < SMALLEST, 0.0, q * (log_q - log_m - of_student)) * (share * weight * INVERSE)
            tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY)


def launch(
    student_logits: jax.Array,
    teacher_logits: jax.Array,
    weights: jax.Array,
    options: DivergenceOptions,
    beta: float,
    *,
    gradient: bool = True,
) -> tuple[jax.Array, jax.Array | None]:
    """Returns the losses, f32[rows], and the gradient, shaped and typed as the student's logits, or None without one.

    student_logits, teacher_logits: float[rows, vocabulary], neither 0; weights: f32[rows], what each row counts; beta: in
    [0, 1], of which 0 is the kernel of `kernels.kl_div`.
    """
    if beta == 0:
        return kl_div_triton.launch(student_logits, teacher_logits, weights, options, gradient=gradient)
    rows, vocabulary = student_logits.shape
    (losses,), contents = overwriting_call(
        jsd_kernel,
        student_logits,
        teacher_logits,
        weights,
        written=(0,) if gradient else (),
        outputs=(jax.ShapeDtypeStruct((rows,), jnp.float32),),
        grid=(rows,),
        mode=options.mode,
        num_warps=8,
        **({} if gradient else {"destination_ptr": None}),
        VOCABULARY=vocabulary,
        INVERSE=1.0 / options.temperature,
        BETA=float(beta),
        SMALLEST=SMALLEST / min(beta, 1.0 - beta or 1.0),
        GRADIENT=gradient,
        BLOCK=min(MAX_BLOCK, triton.next_power_of_2(vocabulary)),
    )
    return losses, contents[0] if gradient else None
