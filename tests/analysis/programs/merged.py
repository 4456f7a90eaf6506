"""The author computes a value twice, XLA computes it once, and a kernel overwrites it in between.

In `luck`, `other` intends the old value. XLA gives it the bytes that the kernel overwrites, and no operand or control
edge says which comes first: if the schedule reads first, it is right by luck. In the opposite order it is clobbered, or
stale if it also intends what the kernel left. It is never fresh.

In `forced`, `other` is fresh in every order: its read comes before the kernel because the kernel needs it, after it
because it needs what the kernel returns, in another branch or iteration, or from other bytes.

Each program also returns the kernel's sums, which are fresh.
"""

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl
from doubling_kernel import double
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton
from jax.sharding import PartitionSpec as P

from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

X, W, H = Arg(shape=(8, 16)), Arg(shape=(16, 32)), Arg(shape=(8, 32))
LUCK, FORCED = {"sums": "fresh", "other": "latent|clobbered|stale"}, {"sums": "fresh", "other": "fresh"}
CASES = []


def add(*args, expected, **keywords):
    def register(function):
        name = "luck" if expected is LUCK else "forced"
        CASES.append(
            Case(name=name, params=(function.__name__,), function=function, args=args, expected=expected, **keywords)
        )
        return function

    return register


@triton.jit
def declared_kernel(x_ptr, sum_ptr, declared_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)


def double_declared(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    keywords = {"kernel": declared_kernel, "grid": x.shape[:1], "COLUMNS": x.shape[1]}
    return call_in_place(x, written=0, outputs=(sums,), **keywords)


@triton.jit
def shift_kernel(x_ptr, y_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x and reads y[rows]."""
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at) + tl.load(y_ptr + row)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 3 * x)


def shift(x, y):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, y, kernel=shift_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def pallas_kernel(x_ref, sum_ref):
    x = x_ref[...]
    sum_ref[...] = jnp.sum(x, axis=1)
    x_ref[...] = 2 * x


def double_by_pallas(x):
    row = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        pallas_kernel,
        jax.ShapeDtypeStruct(x.shape[:1], x.dtype),
        grid=x.shape[:1],
        in_specs=[row],
        out_specs=pl.BlockSpec((1,), lambda i: (i,)),
        compiler_params=pallas_triton.CompilerParams(),
    )(x)


@add(X, W, expected=LUCK)
def product(x, w):
    sums = double(x @ w)
    return {"sums": sums, "other": (x @ w).sum(0)}


@add(X, W, expected=LUCK)
def joined_with_the_kernels(x, w):
    sums = double(x @ w)
    return {"sums": sums, "other": sums.sum() + (x @ w).sum()}


@add(X, W, expected=LUCK)
def twins_reader_first(x, w):
    other = (x @ w).sum(0)
    sums = double(x @ w)
    return {"sums": sums, "other": other}


@add(X, W, expected=LUCK)
def readers_on_both_sides(x, w):
    z = x @ w
    first = jnp.exp(-z).sum(1)
    sums = double(z)
    return {"sums": sums, "other": first + (x @ w).sum(1) * sums}


@add(X, W, expected=LUCK)
def norm_over_several(x, w):
    z = x @ w
    sums = double(z)
    return {"sums": sums, "other": jnp.sqrt((sums**2).sum() + (jnp.tanh(x @ w) ** 2).sum())}


@add(X, W, expected=LUCK)
def tanh_of_a_product(x, w):
    z = x @ w
    sums = double(z)
    return {"sums": sums, "other": jnp.tanh(x @ w).sum(0)}


@add(Arg(shape=(8, 16, 32)), expected=LUCK)
def reduction(x):
    sums = double(x.max(1))
    return {"sums": sums, "other": jnp.sort(x.max(1), 1)}


@add(X, W, expected=FORCED)
def computed_twice(x, w):
    """XLA computes a cumulative sum once for each of its readers."""
    sums = double(jnp.cumsum(x @ w, 1))
    return {"sums": sums, "other": jnp.cumsum(x @ w, 1) @ w.T}


@add(X, W, expected=LUCK)
def sorted_rows(x, w):
    sums = double(jnp.sort(x @ w, 1))
    return {"sums": sums, "other": jnp.sort(x @ w, 1).T @ x}


@add(X, W, expected=LUCK)
def product_of_a_chain(x, w):
    sums = double((jnp.tanh(x) * 2 + 1) @ w)
    return {"sums": sums, "other": ((jnp.tanh(x) * 2 + 1) @ w) @ w.T}


@add(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"), expected=LUCK)
def half_precision(x, w):
    sums = double(x @ w)
    return {"sums": sums, "other": (x @ w).astype(jnp.float32).sum(0)}


@add(X, W, expected=LUCK)
def nested_functions(x, w):
    outer = jax.jit(lambda a, b: jax.jit(jnp.matmul)(a, b) * 1)
    sums = double(outer(x, w))
    return {"sums": sums, "other": jax.jit(lambda a, b: (a @ b).sum(0))(x, w)}


@add(X, W, expected=LUCK)
def body_of_a_scan(x, w):
    def step(state, row):
        z = (x * row) @ w
        sums = double(z)
        return state + ((x * row) @ w).sum(0), sums

    other, sums = jax.lax.scan(step, jnp.zeros(32), jnp.arange(1.0, 4.0))
    return {"sums": sums, "other": other}


@add(X, W, expected=LUCK)
def branch(x, w):
    def taken():
        sums = double(x @ w)
        return sums, (x @ w).sum(0)

    sums, other = jax.lax.cond(x[0, 0] > -9, taken, lambda: (jnp.zeros(8), jnp.zeros(32)))
    return {"sums": sums, "other": other}


@add(X, W, expected=LUCK)
def beside_a_loop(x, w):
    z = x @ w
    _, sums = jax.lax.scan(lambda state, _: (state, double(state)), z, None, 2)
    return {"sums": sums, "other": ((x @ w) ** 2).sum(0)}


@add(X, W, expected=LUCK)
def gradient(x, w):
    sums = double(x @ w)
    other = jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
    return {"sums": sums, "other": other}


@add(Arg(shape=(8, 16), partition=("x",)), W, expected=LUCK, mesh={"x": 2})
def sharded(x, w):
    def local(x, w):
        sums = double(x @ w)
        return sums, jax.lax.psum((x @ w).sum(0), "x")

    sums, other = jax.shard_map(local, in_specs=(P("x"), P()), out_specs=(P("x"), P()), check_vma=False)(x, w)
    return {"sums": sums, "other": other}


@add(X, W, expected=LUCK)
def by_pallas(x, w):
    sums = double_by_pallas(x @ w)
    return {"sums": sums, "other": (x @ w).sum(0)}


@add(X, W, expected=LUCK)
def read_by_another_kernel(x, w):
    sums = double(x @ w)
    return {"sums": sums, "other": double_declared(x @ w)[0]}


@add(X, W, expected=FORCED)
def the_kernel_needs_the_reader(x, w):
    z = x @ w
    other = z.sum(1)
    return {"sums": shift(z, other), "other": other}


@add(X, W, expected=FORCED)
def the_kernel_needs_the_twins_reader(x, w):
    other = (x @ w).sum(1)
    return {"sums": shift(x @ w, other), "other": other}


@add(X, W, expected=FORCED)
def the_reader_needs_the_kernel(x, w):
    z = x @ w
    sums = double(z)
    return {"sums": sums, "other": z * sums[:, None]}


@add(X, W, expected=FORCED)
def declared(x, w):
    sums, new = double_declared(x @ w)
    return {"sums": sums, "other": (x @ w).sum(0) + new.sum(0)}


@add(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"), expected=FORCED)
def bytes_of_another_precision(x, w):
    sums = double(jnp.sort((x @ w).astype(jnp.float32), 1))
    return {"sums": sums, "other": (x @ w).sum(0)}


@add(X, W, expected=FORCED)
def another_branch(x, w):
    z = x @ w

    def overwrites():
        return double(z)

    sums = jax.lax.cond(x[0, 0] > -9, overwrites, lambda: z.sum(1))
    return {"sums": sums, "other": sums.sum()}


@add(X, W, expected=LUCK)
def state_that_a_loop_hands_on(x, w):
    """To XLA the loop returns its argument unchanged, so a reader after the loop might as well read before it."""

    def step(state, _):
        sums = double(state)
        return state, sums

    other, sums = jax.lax.scan(step, x @ w, None, 3)
    return {"sums": sums, "other": other.sum(0)}


@add(X, W, expected=FORCED)
def iterations_follow_each_other(x, w):
    def step(state, _):
        sums = double(state)
        return state * 0.5 + sums[:, None], sums

    other, sums = jax.lax.scan(step, x @ w, None, 3)
    return {"sums": sums, "other": other.sum(0)}


@add(X, W, expected=FORCED)
def body_whose_reader_needs_the_kernel(x, w):
    def step(state, row):
        z = (x * row) @ w
        sums = double(z)
        return state + (z * sums[:, None]).sum(0), sums

    other, sums = jax.lax.scan(step, jnp.zeros(32), jnp.arange(1.0, 4.0))
    return {"sums": sums, "other": other}


@add(X, W, expected=FORCED)
def another_product(x, w):
    sums = double(x @ w)
    return {"sums": sums, "other": (x @ (w + 1)).sum(0)}


@add(X, W, expected=FORCED)
def both_sides_of_the_kernel(x, w):
    z = x @ w
    before = z.sum(1)
    sums = shift(z, before)
    return {"sums": sums, "other": before + (z * sums[:, None]).sum(1)}


@add(X, W, expected=FORCED)
def a_square_on_both_sides(x, w):
    # XLA merges the squares and computes the one of `after` again in a fusion after the call, under one name
    z = x + w[:8, :16]
    before = (z * z).sum()
    sums = double(z)
    return {"sums": sums, "other": before - ((z * z).sum(1) * sums).sum()}


@add(X, W, expected=FORCED)
def a_square_on_both_sides_named_after_the_later(x, w):
    z = x + w[:8, :16]
    before = (z * z).sum()
    sums = double(z)
    return {"sums": sums, "other": ((z * z).sum(1) * sums).sum() - before}


@add(X, W, expected=FORCED)
def a_loop_that_needs_the_reader(x, w):
    z = x @ w
    before = (x @ w).sum(1)
    _, sums = jax.lax.scan(lambda state, _: (state, shift(state[0], state[1])), (z, before), None, 2)
    return {"sums": sums, "other": before}


@add(H, W, expected=FORCED)
def a_part_of_its_own(x, w):
    sums = double(x[2:6] * 1.5)
    return {"sums": sums, "other": x[2:6] * 1.5 @ w.T}


ROWS = jnp.arange(256, dtype=jnp.float32).reshape(8, 32) / 64


@add(ROWS, ROWS, expected=LUCK)
def array_passed_twice(x, y):
    sums = double(y)
    return {"sums": sums, "other": jnp.sum(x, axis=1)}


@add(ROWS, ROWS + 1, expected=FORCED)
def two_arrays(x, y):
    sums = double(y)
    return {"sums": sums, "other": jnp.sum(x, axis=1)}


CASES = tuple(CASES)
