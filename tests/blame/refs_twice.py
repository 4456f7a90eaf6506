"""Calls of jax-triton 0.4 and later that pass one `Ref` for two pointers, or two Refs that start from one value."""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

N = 128


@triton.jit
def halves_kernel(a_ptr, b_ptr, x_ptr, N: tl.constexpr):
    """Fills the first half of a and the second of b."""
    at = tl.arange(0, N // 2)
    tl.store(a_ptr + at, 10.0 + tl.load(x_ptr + at))
    tl.store(b_ptr + N // 2 + at, 20.0 + tl.load(x_ptr + N // 2 + at))


@triton.jit
def read_kernel(a_ptr, b_ptr, x_ptr, N: tl.constexpr):
    """Overwrites a, and only reads b."""
    at = tl.arange(0, N)
    tl.store(a_ptr + at, tl.load(b_ptr + at) + tl.load(x_ptr + at))


def call(*operands: Any, kernel: Any = halves_kernel) -> None:
    jax_triton.triton_call(*operands, kernel=kernel, out_type=(), grid=1, N=N)


def plain(y: Any, x: Any) -> Any:
    a = jax.new_ref(y * 2.0)
    call(a, a, x)
    return {"y": a[...]}


def of_an_argument(y: Any, x: Any) -> Any:
    a = jax.new_ref(y)
    call(a, a, x)
    return {"y": jax.freeze(a), "x": x + 1}


def in_a_scan(y: Any, x: Any) -> Any:
    def body(carried: Any, _: Any) -> Any:
        a = jax.new_ref(carried)
        call(a, a, x)
        return a[...], a[...].sum()

    last, sums = jax.lax.scan(body, y, None, length=3)
    return {"last": last, "sums": sums, "x": x * 2}


def in_a_branch(y: Any, x: Any) -> Any:
    def step(value: Any) -> Any:
        a = jax.new_ref(value)
        call(a, a, x)
        return a[...]

    return {"y": jax.lax.cond(x[0] > 0, step, lambda value: value, y)}


def in_a_function(y: Any, x: Any) -> Any:
    @jax.jit
    def step(value: Any, x: Any) -> Any:
        a = jax.new_ref(value * 3)
        call(a, a, x)
        return a[...]

    return {"y": step(y, x) + step(x, y)}


def written_again(y: Any, x: Any) -> Any:
    a = jax.new_ref(y * 2.0)
    call(a, a, x)
    a[...] = a[...] * 2
    return {"y": a[...]}


def three_times(y: Any, x: Any) -> Any:
    a = jax.new_ref(y * 2.0)
    call(a, a, a)
    return {"y": a[...]}


def two(y: Any, x: Any) -> Any:
    a, b = jax.new_ref(y * 2.0), jax.new_ref(y * 3.0)
    call(a, b, x)
    return {"y": a[...] + b[...]}


def two_of_one_value(y: Any, x: Any) -> Any:
    z = y * 2
    a, b = jax.new_ref(z), jax.new_ref(z)
    call(a, b, x)
    return {"y": a[...], "z": b[...]}


def a_place_to_work_in(y: Any, x: Any) -> Any:
    """No output needs the final contents of b."""
    z = jnp.zeros_like(y)
    a, b = jax.new_ref(z), jax.new_ref(z)
    call(a, b, x)
    return {"y": a[...]}


def only_read(y: Any, x: Any) -> Any:
    a = jax.new_ref(y * 2.0)
    call(a, a, x, kernel=read_kernel)
    return {"y": a[...]}


def its_value_beside_it(y: Any, x: Any) -> Any:
    a = jax.new_ref(y * 2.0)
    call(a, a[...], x, kernel=read_kernel)
    return {"y": a[...]}


TWICE = (plain, of_an_argument, in_a_scan, in_a_branch, in_a_function, written_again, three_times)
ONCE = (two, two_of_one_value, a_place_to_work_in, only_read, its_value_beside_it)
CASES = tuple(Case(name=one.__name__, function=one, args=(Arg(shape=(N,)), Arg(shape=(N,)))) for one in TWICE + ONCE)
