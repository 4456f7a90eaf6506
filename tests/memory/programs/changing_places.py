"""Donated arrays that change places, on one device and on a mesh, through branches and loops."""

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32", partition=()):
    return Arg(shape=shape, dtype=dtype, donate=True, partition=partition)


def lend(*shape, dtype="float32", partition=()):
    return Arg(shape=shape, dtype=dtype, partition=partition)


def ring(x):
    def body(x):
        def step(i, s):
            x, acc = s
            return lax.ppermute(x, "x", [(j, (j + 1) % 4) for j in range(4)]), acc + x

        return lax.fori_loop(0, 4, step, (x, x * 0))[1]

    return jax.shard_map(body, in_specs=jax.P("x"), out_specs=jax.P("x"), check_vma=False)(x)


def cache_sharded(cache, row, at):
    return cache.at[:, at].set(row)


def row_write(table, rows, at):
    return lax.dynamic_update_slice(table, rows, (at, 0))


def transpose_shard(x):
    return lax.with_sharding_constraint(x.T, jax.P("x", None))


def fsdp(ws, x):
    def layer(x, w):
        return jnp.tanh(x @ w), None

    g = jax.grad(lambda ws: lax.scan(layer, x, ws)[0].sum())(ws)
    return jax.tree.map(lambda a, b: a - 0.1 * b, ws, g)


def outer_while(x):
    def go(s):
        return (s[1] < 5) & (jnp.abs(s[0]).max() < 10)

    def step(s):
        x, n = s
        y = lax.fori_loop(0, 3, lambda i, x: x.at[i].add(1.0), x)
        return y, n + 1

    return lax.while_loop(go, step, (x, 0))[0]


def momentum_cond(w, m, g, flag):
    return lax.cond(flag, lambda w, m: (w - 0.1 * (0.9 * m + g), 0.9 * m + g), lambda w, m: (w, m), w, m)


def momentum_cond_crossed(w, m, g, flag):
    w, m = lax.cond(flag, lambda w, m: (w - 0.1 * (0.9 * m + g), 0.9 * m + g), lambda w, m: (w, m), w, m)
    return m, w


def three_state(a, b, c):
    def step(s, _):
        a, b, c = s
        return (c, a, b.at[0].add(1.0)), None

    return lax.scan(step, (a, b, c), None, length=6)[0]


def init_and_return(x):
    y = lax.fori_loop(0, 4, lambda i, y: y.at[i].add(1.0), x)
    return y, x


def init_two_loops(x):
    a = lax.fori_loop(0, 4, lambda i, y: y.at[i].add(1.0), x)
    b = lax.fori_loop(0, 4, lambda i, y: y.at[i].multiply(2.0), x)
    return a, b


def scan_swapped_ys(a, b):
    def step(s, _):
        a, b = s
        return (b, a + 1), a[0]

    return lax.scan(step, (a, b), None, length=4)


def cond_in_cond_noop(p, q, x):
    return lax.cond(
        p, lambda x: lax.cond(q, lambda x: jnp.sort(x, axis=0) * 2, lambda x: x, x), lambda x: jnp.cumsum(x, axis=0), x
    )


def donated_dtype_pair(a, b):
    return a.astype(jnp.int32), b.astype(jnp.float32)


FLAG = lend(dtype="bool")
SQUARE = own(512, 512)
MESH = {"x": 4}
CASES = (
    Case(name="ring", function=ring, args=(own(1024, 256, partition=("x",)),), mesh=MESH),
    Case(
        name="cache_sharded",
        function=cache_sharded,
        args=(own(8, 512, 64, partition=("x",)), lend(8, 64, partition=("x",)), lend(dtype="int32")),
        mesh=MESH,
    ),
    Case(
        name="row_write",
        function=row_write,
        args=(own(4096, 128, partition=("x",)), lend(8, 128), lend(dtype="int32")),
        mesh=MESH,
    ),
    Case(name="transpose_shard", function=transpose_shard, args=(own(1024, 1024, partition=("x",)),), mesh=MESH),
    Case(
        name="fsdp",
        function=fsdp,
        args=(own(4, 512, 512, partition=(None, "x")), lend(64, 512, partition=("x",))),
        mesh=MESH,
    ),
    Case(name="outer_while", function=outer_while, args=(SQUARE,)),
    Case(name="momentum_cond", function=momentum_cond, args=(SQUARE, SQUARE, lend(512, 512), FLAG)),
    Case(name="momentum_cond_crossed", function=momentum_cond_crossed, args=(SQUARE, SQUARE, lend(512, 512), FLAG)),
    Case(name="three_state", function=three_state, args=(SQUARE, SQUARE, SQUARE)),
    Case(name="init_and_return", function=init_and_return, args=(SQUARE,)),
    Case(name="init_two_loops", function=init_two_loops, args=(SQUARE,)),
    Case(name="scan_swapped_ys", function=scan_swapped_ys, args=(SQUARE, SQUARE)),
    Case(name="cond_in_cond_noop", function=cond_in_cond_noop, args=(FLAG, FLAG, SQUARE)),
    Case(name="donated_dtype_pair", function=donated_dtype_pair, args=(SQUARE, own(512, 512, dtype="int32"))),
)
