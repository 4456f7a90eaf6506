"""The smallest program that shows whether a toolchain works: a Triton kernel that overwrites its operand, and a reader
of it."""

# pyright: basic
import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

SIZE = 128


@triton.jit
def increment_kernel(values_ptr, sum_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(values_ptr + at) + 1.0
    tl.store(values_ptr + at, values)
    tl.store(sum_ptr, tl.sum(values))


def compute(x, w):
    """Returns what the kernel gives back, and a matrix product of what it overwrote."""
    values = x @ w + 1.0
    (total,) = jax_triton.triton_call(
        values,
        kernel=increment_kernel,
        out_shape=(jax.ShapeDtypeStruct((1,), jnp.float32),),
        grid=(1,),
        BLOCK=SIZE,
    )
    return {"total": total, "product": (values * total).reshape(16, 8) @ w[:8]}


CASE = Case(
    name="probe",
    function=compute,
    args=(Arg(shape=(1, SIZE)), Arg(shape=(SIZE, SIZE))),
    about="does this toolchain compile?",
)
