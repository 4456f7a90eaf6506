"""The smallest test program of a toolchain: a Triton kernel that overwrites its operand, and a reader of it.

Pallas makes the kernel if jax-triton is not installed.
"""

# pyright: basic
import importlib.util

import jax
import jax.numpy as jnp
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


def call_by_jax_triton(values):
    import jax_triton

    shape = jax.ShapeDtypeStruct((1,), jnp.float32)
    return jax_triton.triton_call(values, kernel=increment_kernel, out_shape=(shape,), grid=(1,), BLOCK=SIZE)


def call_by_pallas(values):
    from jax.experimental import pallas
    from jax.experimental.pallas import triton as lowering

    def increment(values_ref, sum_ref):
        values_ref[...] += 1.0
        sum_ref[...] = values_ref[...].sum().reshape(1)

    shape = jax.ShapeDtypeStruct((1,), jnp.float32)
    return (pallas.pallas_call(increment, out_shape=shape, compiler_params=lowering.CompilerParams())(values),)


def compute(x, w):
    """Returns the kernel's output, and a matrix product that reads the kernel's overwritten operand."""
    values = x @ w + 1.0
    call = call_by_jax_triton if importlib.util.find_spec("jax_triton") else call_by_pallas
    (total,) = call(values)
    return {"total": total, "product": (values * total).reshape(16, 8) @ w[:8]}


CASE = Case(
    name="probe",
    function=compute,
    args=(Arg(shape=(1, SIZE)), Arg(shape=(SIZE, SIZE))),
    about="does this toolchain compile?",
)
