"""`jax.checkpoint` around a kernel that overwrites the first of its two operands: scale_rows(x, s) leaves s · x in x.

JAX drops the kernel from the recomputed forward pass, which does not use its outputs. The reference computes in plain
jnp the values that the backward rule intends to keep.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case

Z, ROWS = Arg(shape=(8, 32)), Arg(shape=(8,))
CASES: list[Case] = []


@triton.jit
def scale_rows_kernel(x_ptr, s_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, tl.load(s_ptr + row) * x)


def scale_rows(x, s):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, s, kernel=scale_rows_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1]).sum()


@jax.custom_vjp
def loss(x, s):
    return scale_rows(x, s)


loss.defvjp(lambda x, s: (scale_rows(x, s), x), lambda kept, g: (g * kept, None))


@jax.custom_vjp
def plain(x, s):
    return x.sum()


plain.defvjp(lambda x, s: (x.sum(), s[:, None] * x), lambda kept, g: (g * kept, None))


def add(program: Callable[..., Any]) -> Callable[..., Any]:
    CASES.append(
        Case(
            name=program.__name__,
            function=lambda z, s: program(loss, z, s),
            reference=lambda z, s: program(plain, z, s),
            args=(Z, ROWS),
        )
    )
    return program


@add
def overwrites_what_is_computed_again(loss, z, s):
    value, dz = jax.value_and_grad(jax.checkpoint(lambda z, s: loss(jnp.sin(z), s)))(z, s)
    return {"loss": value, "z": dz}


@add
def reads_what_the_body_closes_over(loss, z, s):
    value, dz = jax.value_and_grad(jax.checkpoint(lambda z: loss(jnp.sin(z), s)))(z)
    return {"loss": value, "z": dz}


@add
def called_in_a_function_of_its_own(loss, z, s):
    value, dz = jax.value_and_grad(jax.checkpoint(lambda z, s: jax.jit(loss)(jnp.sin(z), s + 1)))(z, s)
    return {"loss": value, "z": dz}


@add
def overwrites_an_input(loss, z, s):
    value, dz = jax.value_and_grad(jax.checkpoint(lambda z: loss(z, jnp.exp(s))))(2 * z)
    return {"loss": value, "z": dz}


@add
def overwrites_one_input_and_reads_another(loss, z, s):
    value, dz = jax.value_and_grad(jax.checkpoint(loss))(2 * z, s)
    return {"loss": value, "z": dz}


saved = functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)


@add
def overwrites_what_a_policy_saves(loss, z, s):
    """The kernel runs again on the saved product, in whose bytes it has already left what it would leave there."""
    value, pull = jax.vjp(saved(lambda z: loss((z[:8, :8] @ z).reshape(16, 16), jnp.concatenate([s, s]))), z)
    return {"loss": value, "z": pull(jnp.sin(value))[0]}


@add
def reads_what_a_policy_saves(loss, z, s):
    """The derivative of the sine needs the product as it was saved, that of the loss what the kernel leaves in another form
    of it.
    """

    def add_sines(z):
        h = z[:8, :8] @ z
        return loss(h.reshape(16, 16), jnp.concatenate([s, s])), jnp.sin(h).sum()

    (value, _), pull = jax.vjp(saved(add_sines), z)
    return {"loss": value, "z": pull((jnp.sin(value), 1.0))[0]}
