"""Kernels launched in every way that a launch record supports."""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

X = Arg(shape=(8, 16))
SHAPE = jax.ShapeDtypeStruct((8, 16), jnp.float32)


@triton.jit
def scale_kernel(
    x_ptr, factor, n, o_ptr, sum_ptr, nothing, BLOCK: tl.constexpr, TYPE: tl.constexpr, NAME: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(o_ptr + offsets, (x * factor).to(TYPE), mask=offsets < n)
    tl.atomic_add(sum_ptr, tl.sum(x))


@triton.heuristics({"BLOCK": lambda args: args["width"]})
@triton.jit
def heuristic_kernel(x_ptr, o_ptr, width: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * width + tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets))


@triton.autotune([triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=[])
@triton.jit
def tuned_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets))


@triton.autotune([triton.Config({"BLOCK": 16})], key=[])
@triton.jit
def settled_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def negate_kernel(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, -tl.load(x_ptr + offsets))


def make_local_kernel():
    @triton.jit
    def local_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o_ptr + offsets, tl.load(x_ptr + offsets))

    return local_kernel


LOCAL = make_local_kernel()


def scale(x):
    return jax_triton.triton_call(
        x,
        0.5,
        128,
        kernel=scale_kernel,
        out_shape=(SHAPE, jax.ShapeDtypeStruct((), jnp.float32)),
        grid=lambda constants: (128 // constants["BLOCK"], 1),
        zeroed_outputs=lambda constants: (1,) if constants["NAME"] else (),
        nothing=None,
        BLOCK=32,
        TYPE=tl.float32,
        NAME="scale",
    )


def scale_onto_itself(x):
    out_shape = (SHAPE, jax.ShapeDtypeStruct((), jnp.float32))
    return jax_triton.triton_call(
        x * 2, 1.0, 1, kernel=scale_kernel, out_shape=out_shape, grid=8, input_output_aliases={0: 0}, nothing=None,
        BLOCK=16, TYPE=tl.float32, NAME="",
    )  # fmt: skip


def copy_with(kernel, **constants):
    def copy(x):
        return jax_triton.triton_call(x, kernel=kernel, out_shape=SHAPE, grid=(8,), **constants)

    return copy


def negate(x):
    y = x * 2
    jax_triton.triton_call(y, kernel=negate_kernel, out_shape=(), grid=(8,), BLOCK=16)
    return y + copy_with(settled_kernel)(y)


CASES = tuple(
    Case(name=name, function=function, args=(X,), about="a launch")
    for name, function in (
        ("scale", scale),
        ("onto_itself", scale_onto_itself),
        ("heuristic", copy_with(heuristic_kernel, width=16)),
        ("tuned", copy_with(tuned_kernel)),
        ("settled", copy_with(settled_kernel)),
        ("local", copy_with(LOCAL, BLOCK=16)),
        ("effect", negate),
        ("twice", lambda x: copy_with(settled_kernel)(x) + copy_with(settled_kernel)(jnp.tanh(x))),
    )
)
