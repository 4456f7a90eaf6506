"""Tiny programs around a kernel that doubles its operand in place and returns the old values."""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

X = Arg(shape=(16, 16))


@triton.jit
def double_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, x * 2)
    tl.store(o_ptr + offsets, x)


@triton.jit
def negate_kernel(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, -tl.load(x_ptr + offsets))


def double(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax_triton.triton_call(x, kernel=double_kernel, out_shape=shape, grid=(x.shape[0],), BLOCK=x.shape[1])


def negate(x):
    jax_triton.triton_call(x, kernel=negate_kernel, out_shape=(), grid=(x.shape[0],), BLOCK=x.shape[1])


def step(x, w):
    y = x @ w
    was = double(y)

    @jax.jit
    def finish(y):
        return jnp.tanh(y) * 2 + 1

    return {"loss": was.sum(), "grads": {"w": finish(y), "pair": (was * 3, y)}}


def call_for_effect(x, w):
    y = x @ w
    negate(y)
    return y + double(x)


def call_for_effect_in_loop(x, w):
    def body(carry, _):
        negate(carry)
        return carry + 1, None

    return jax.lax.scan(body, x @ w, None, length=3)[0]


CASES = tuple(
    Case(name=name, function=function, args=(X, X), params=params, expected=expected, about="a tiny program")
    for name, function, params, expected in (
        ("step", step, (), {"loss": "fresh", "*": "stale|latent"}),
        ("again", step, ("same", True), None),
        ("effect", call_for_effect, (), None),
        ("effect_in_loop", call_for_effect_in_loop, (), None),
        ("single", lambda x, w: x + w, (), "fresh"),
        ("pair", lambda x, *rest: (x, {"w": rest[0]}), (), "fresh"),
    )
)
