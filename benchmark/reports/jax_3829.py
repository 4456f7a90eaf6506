"""Calls that send messages have no results, and disappear from the compiled program.

Structure: a kernel without outputs is called for its effect alone; the array that it changes is used afterwards.

The right answer: `step` means 0.1 times the scaled gradient. JAX removes an operation none of whose results is used, so
no kernel is in the program, and the factor is missing from `step` in any schedule.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


@triton.jit
def scale_kernel(gradient_ptr, factor_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(gradient_ptr + at, tl.load(gradient_ptr + at) * tl.load(factor_ptr))


@triton.jit
def scale_to_kernel(gradient_ptr, factor_ptr, out_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out_ptr + at, tl.load(gradient_ptr + at) * tl.load(factor_ptr))


def step_without_outputs(x, factor):
    gradient = jnp.sin(x)
    jax_triton.triton_call(gradient, factor, kernel=scale_kernel, out_shape=(), grid=1, SIZE=x.size)  # at: call
    return {"step": gradient * 0.1}


def step_with_output(x, factor):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    gradient = jax_triton.triton_call(jnp.sin(x), factor, kernel=scale_to_kernel, out_shape=out, grid=1, SIZE=x.size)
    return {"step": gradient * 0.1}


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/3829",
    year=2020,
    versions="jax 0.1.73, mpi4jax",
    kind=Kind.MOVED_BY_JAX,
    reported="a custom call without results is removed, although its effect is wanted",
    finds=Wrong(outputs=("step",), at=("call",)),
)
ARGS = (Arg(shape=(256,)), Arg(shape=()))
BAD = Case(name="jax_3829", params=("bad",), function=step_without_outputs, args=ARGS)
CURED = Case(name="jax_3829", params=("cured",), function=step_with_output, args=ARGS)
CASES = (BAD, CURED)
