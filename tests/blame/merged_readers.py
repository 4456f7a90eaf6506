"""Readers of two versions of one value, of which XLA makes one instruction; the lines that are wrong say `# wrong`."""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def double_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    at = row * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)


def double(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jax_triton.triton_call(x, kernel=double_kernel, out_shape=sums, grid=x.shape[0], N=x.shape[1])


def late(x, w):
    old, new = x @ w, x @ w
    sums = double(new)
    new_norm = jnp.sum(new**2 * sums[:, None])
    old_norm = jnp.sum(old**2 * sums[:, None])  # wrong
    return {"change": new_norm - 2 * old_norm}


def late_old_first(x, w):
    old, new = x @ w, x @ w
    sums = double(new)
    old_norm = jnp.sum(old**2 * sums[:, None])  # wrong
    new_norm = jnp.sum(new**2 * sums[:, None])
    return {"change": new_norm - 2 * old_norm}


def late_outputs(x, w):
    old, new = x @ w, x @ w
    sums = double(new)
    new_back = new @ (w.T * sums[0])
    old_back = old @ (w.T * sums[0])  # wrong
    return {"new": new_back, "old": old_back}


def one_line(x, w):
    old, new = x @ w, x @ w
    sums = double(new)[:, None]
    return {"change": jnp.sum(new**2 * sums) - jnp.sum(old**2 * sums)}  # wrong: the second


def norm(value, weights):
    return jnp.sum(value**2 * weights)  # wrong: called for the old value


def in_a_function(x, w):
    old, new = x @ w, x @ w
    sums = double(new)[:, None]
    new_norm = norm(new, sums)
    old_norm = norm(old, sums)
    return {"change": new_norm - 2 * old_norm}


def early(x, w):
    value = x @ w
    before = jnp.sum(value**2)
    sums = double(value)
    after = jnp.sum(value**2)  # wrong
    return {"sums": sums, "change": after - before}


def apart(x, w):
    value = x @ w
    sums = double(value)
    return {"sums": sums, "back": value @ w.T}  # wrong: too early, and merged with nothing


CASES = tuple(
    Case(name=function.__name__, function=function, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
    for function in (late, late_old_first, late_outputs, one_line, in_a_function, early, apart)
)
