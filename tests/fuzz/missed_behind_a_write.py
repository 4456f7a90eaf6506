"""A program that tools/fuzz found, reduced: with jax-triton 0.4 and later an output is wrong, but was called fresh.

JAX drops a kernel from the forward pass that `jax.checkpoint` recomputes, so that the gradient is wrong (LD007).
Another kernel reads the gradient and overwrites `y` with a result of it, in a hidden write: so `y` is wrong as well.
Seed 10000172.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case


@triton.jit
def loss_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x with its gradient."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * x * x))
    tl.store(x_ptr + at, 3 * x * x)


@triton.jit
def turn_kernel(x_ptr, y_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x and y."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x + y))
    tl.store(x_ptr + at, 0.8 * x + 0.6 * y)
    tl.store(y_ptr + at, 0.8 * y - 0.6 * x)


def compute_loss(x: Any) -> Any:
    ref, sums = jax.new_ref(x), jax.ShapeDtypeStruct((x.shape[0],), x.dtype)
    sums = jax_triton.triton_call(ref, kernel=loss_kernel, out_type=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])
    return sums.sum(), jax.freeze(ref)


find_loss = jax.custom_vjp(lambda x: compute_loss(x)[0])
find_loss.defvjp(compute_loss, lambda gradient, g: (g * gradient,))


def step(x: Any, w: Any) -> dict[str, Any]:
    y = jnp.sin(w) * 2.0
    gradient = jax.grad(jax.checkpoint(lambda x: find_loss(jnp.tanh(x))))(x)
    sums = jax.ShapeDtypeStruct((x.shape[0],), x.dtype)
    sums = jax_triton.triton_call(
        gradient, y, kernel=turn_kernel, out_type=sums, grid=(x.shape[0],), COLUMNS=x.shape[1]
    )
    return {"y": y, "sums": sums}


def step_in_jnp(x: Any, w: Any) -> dict[str, Any]:
    y = jnp.sin(w) * 2.0
    gradient = jax.grad(lambda x: (jnp.tanh(x) ** 3).sum())(x)
    return {"y": 0.8 * y - 0.6 * gradient, "sums": (gradient + y).sum(1)}


CASES = (Case(name="behind", function=step, reference=step_in_jnp, args=(Arg(shape=(8, 32)), Arg(shape=(8, 32)))),)
