"""Programs in whose schedules tags are true, lie, or name one of two equal operations; see `test_fingerprints`."""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case

SIZE = 16


@triton.jit
def damp_kernel(x_ptr, sum_ptr, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr, tl.sum(x))
    tl.store(x_ptr + at, 0.5 * x + 1.0)


def damp(x: jax.Array) -> jax.Array:
    """Overwrites x and returns its sum."""
    out = jax.ShapeDtypeStruct((), jnp.float32)
    return jax_triton.triton_call(x, kernel=damp_kernel, out_shape=out, grid=1, COUNT=x.size)


@jax.jit
def shift(x: jax.Array) -> jax.Array:
    return jnp.exp(x) * 0.3 + 1.0


def read_after(x: Any, y: Any) -> dict[str, Any]:
    """XLA inlines two calls of one function."""
    value = jnp.tanh(shift(x)) @ shift(y)
    return {"total": damp(value), "value": jnp.exp(value) * 2.0}


def join_products(x: Any, y: Any) -> dict[str, Any]:
    """XLA makes one product of two, and its two slices get the name of the first."""
    one, other = x @ y, x @ (y * 2.0 + 1.0)
    total = damp(one)
    return {"total": total, "one": one * total, "other": jnp.exp(other)}


def merge_equal(x: Any, y: Any) -> dict[str, Any]:
    """XLA computes two operations once, and makes one product of the two products."""
    one, other = jnp.sin(x * 0.5), jnp.sin(x * 0.5)
    return {"total": damp(one), "sum": (one + y) @ y, "difference": (other - y) @ y}


def run_in_loop(x: Any, y: Any) -> dict[str, Any]:
    def step(number: Any, state: Any) -> Any:
        value = jnp.cos(state) * (number + 2.0)
        return state + value * damp(value)

    return {"state": jax.lax.fori_loop(0, 3, step, x + y)}


def sink_slices(x: Any, y: Any) -> dict[str, Any]:
    """XLA multiplies first and slices afterwards. Each new slice has the name of a slice of `one`, which no kernel
    overwrites, and holds the product with the overwritten `other`.
    """
    one, other, half = jnp.sin(x), jnp.cos(y), SIZE // 2
    total = damp(other)
    other = other + total - total
    return {"total": total, "low": one[:half] * other[:half], "high": one[half:] * other[half:]}


CASES = tuple(
    Case(name=function.__name__, function=function, args=(Arg(shape=(SIZE, SIZE)), Arg(shape=(SIZE, SIZE))))
    for function in (read_after, join_products, merge_equal, run_in_loop, sink_slices)
)
