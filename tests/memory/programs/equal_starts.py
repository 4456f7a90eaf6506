"""Programs whose writers start from equal values."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


def fill(i, state, q):
    k, v = state
    return k.at[i].set(q), v.at[i].set(-q)


def caches_like_query(q):
    """zeros_like of one value, twice."""
    k = jnp.zeros_like(q)
    v = jnp.zeros_like(q)
    return lax.fori_loop(0, 8, lambda i, s: fill(i, s, q[i]), (k, v))


def caches_of_minus_infinity(q):
    k = jnp.full_like(q, -jnp.inf)
    v = jnp.full_like(q, -jnp.inf)
    return lax.fori_loop(0, 8, lambda i, s: fill(i, s, q[i]), (k, v))


def caches_of_a_scalar(q, start):
    k = jnp.full((1024, 512), start)
    v = jnp.full((1024, 512), start)
    return lax.fori_loop(0, 8, lambda i, s: fill(i, s, q[i]), (k, v))


def caches_from_one_row(q, row):
    k = jnp.tile(row, (1024, 1))
    v = jnp.broadcast_to(row, (1024, 512))
    return lax.fori_loop(0, 8, lambda i, s: fill(i, s, q[i]), (k, v))


def three_accumulators(xs, start):
    sums = tuple(jnp.broadcast_to(start, xs.shape[1:]) for _ in range(3))

    def step(state, x):
        a, b, c = state
        return (a.at[0].add(x[0]), b.at[1].add(x[1]), c.at[2].add(x[2])), None

    return lax.scan(step, sums, xs)[0]


def indices_twice(picks):
    """Two permutations that start from arange."""
    a, b = jnp.arange(1 << 18), jnp.arange(1 << 18)

    def step(state, pick):
        a, b = state
        return (a.at[pick].set(0), b.at[pick].set(1)), None

    return lax.scan(step, (a, b), picks)[0]


def two_masks(lengths):
    allowed = jnp.ones((1024, 1024), bool)
    seen = jnp.ones((1024, 1024), bool)

    def step(i, state):
        allowed, seen = state
        return allowed.at[i, lengths[i]].set(False), seen.at[lengths[i], i].set(False)

    return lax.fori_loop(0, 16, step, (allowed, seen))


def refs_of_ones(xs):
    a = jax.new_ref(jnp.ones(xs.shape[1:]))
    b = jax.new_ref(jnp.ones(xs.shape[1:]))

    def body(i, _):
        a[0] += xs[i, 0]
        b[1] *= xs[i, 1]

    lax.fori_loop(0, 8, body, None)
    return a[...], b[...]


def refs_of_an_argument(x, rows):
    """Both Refs start from the argument, which is donated."""
    a, b = jax.new_ref(x), jax.new_ref(x)
    a[0] = rows[0]
    b[1] = rows[1]
    return a[...], b[...]


def sharpen_both(x, rows):
    """Two edits of one computed array."""
    y = jnp.cumsum(x, axis=1)
    return y.at[0].set(rows[0]), y.at[1].set(rows[1])


def edits_of_a_donated(x, rows):
    return x.at[0].set(rows[0]), x.at[1].set(rows[1])


def moments_from_zero(grads):
    """Adam from scratch in one program."""
    m = jnp.zeros(grads.shape[1:])
    v = jnp.zeros(grads.shape[1:])

    def step(state, g):
        m, v = state
        return (0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g), None

    return lax.scan(step, (m, v), grads)[0]


def add_kernel(x, z, o):
    o[...] = z[...] + x[...]


def accumulate(x, z):
    block = pl.BlockSpec((1024,), lambda i: i)
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct(z.shape, z.dtype),
        grid=(z.shape[0] // 1024,),
        in_specs=[block, block],
        out_specs=block,
        input_output_aliases={1: 0},
        compiler_params=plt.CompilerParams(),
    )(x, z)


def kernels_in_loop_from_zeros(x):
    def body(carry, _):
        a = accumulate(carry, jnp.zeros_like(carry))
        b = accumulate(2 * carry, jnp.zeros_like(carry))
        return a - b, None

    return lax.scan(body, x, None, length=4)[0]


def kernels_from_one_product(x, w):
    start = (x @ w).reshape(-1)
    return accumulate(start * 2, start), accumulate(start * 3, start)


CASES = (
    Case(name="caches_like_query", function=caches_like_query, args=(lend(1024, 512),)),
    Case(name="caches_of_minus_infinity", function=caches_of_minus_infinity, args=(lend(1024, 512),)),
    Case(name="caches_of_a_scalar", function=caches_of_a_scalar, args=(lend(8, 512), lend())),
    Case(name="caches_from_one_row", function=caches_from_one_row, args=(lend(8, 512), lend(512))),
    Case(name="three_accumulators", function=three_accumulators, args=(lend(8, 512, 256), lend())),
    Case(name="indices_twice", function=indices_twice, args=(lend(32, dtype="int32"),)),
    Case(name="two_masks", function=two_masks, args=(lend(16, dtype="int32"),)),
    Case(name="refs_of_ones", function=refs_of_ones, args=(lend(8, 256, 512),)),
    Case(name="refs_of_an_argument", function=refs_of_an_argument, args=(own(512, 512), lend(2, 512))),
    Case(name="sharpen_both", function=sharpen_both, args=(lend(256, 2048), lend(2, 2048))),
    Case(name="edits_of_a_donated", function=edits_of_a_donated, args=(own(512, 512), lend(2, 512))),
    Case(name="moments_from_zero", function=moments_from_zero, args=(lend(8, 512, 512),)),
    Case(name="kernels_in_loop_from_zeros", function=kernels_in_loop_from_zeros, args=(own(1 << 18),)),
    Case(name="kernels_from_one_product", function=kernels_from_one_product, args=(lend(512, 256), lend(256, 512))),
)
