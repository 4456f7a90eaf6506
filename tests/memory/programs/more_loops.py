"""Loops in loops, conditionals in loops, meshes, and state that only a part of the program changes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32", partition=()):
    return Arg(shape=shape, dtype=dtype, donate=True, partition=partition)


def lend(*shape, dtype="float32", partition=()):
    return Arg(shape=shape, dtype=dtype, partition=partition)


@jax.tree_util.register_dataclass
@dataclass
class Fluid:
    u: object
    v: object
    p: object


def advect(fluid):
    """u and v from both, p stays."""

    def step(f, _):
        u = f.u - 0.1 * f.v * (f.u - jnp.roll(f.u, 1, 0))
        v = f.v - 0.1 * f.u * (f.v - jnp.roll(f.v, 1, 1))
        return Fluid(u, v, f.p), None

    return lax.scan(step, fluid, None, length=10)[0]


def symplectic(q, p):
    """Alternates position and momentum, elementwise."""

    def step(_, s):
        q, p = s
        p = p - 0.1 * jnp.sin(q)
        return q + 0.1 * p, p

    return lax.fori_loop(0, 20, step, (q, p))


def fibonacci(a, b):
    return lax.fori_loop(0, 10, lambda _, s: (s[1], s[0] + s[1]), (a, b))


def swap_halves(x):
    return lax.fori_loop(0, 5, lambda _, x: jnp.concatenate([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]), x)


def swap_by_parity(a, b):
    def step(i, s):
        a, b = s
        even = i % 2 == 0
        return jnp.where(even, b, a), jnp.where(even, a, b)

    return lax.fori_loop(0, 8, step, (a, b))


def nested_swap(a, b):
    def outer(_, s):
        return lax.fori_loop(0, 3, lambda _, s: (s[1], s[0]), s)

    return lax.fori_loop(0, 4, outer, (a, b))


def row_pass(x):
    """The inner loop works on one row after the other, in place."""

    def outer(i, x):
        return lax.fori_loop(0, 4, lambda k, x: x.at[i].multiply(1.0 + k), x)

    return lax.fori_loop(0, 16, outer, x)


def unrolled_swap(a, b):
    return lax.fori_loop(0, 8, lambda _, s: (s[1], s[0]), (a, b), unroll=2)


def matmul_iterations(x, w):
    return lax.fori_loop(0, 6, lambda _, x: jnp.tanh(x @ w), x)


def sort_in_loop(x):
    return lax.fori_loop(0, 3, lambda _, x: jnp.sort(x * -1, axis=0), x)


def cumsum_in_loop(x):
    return lax.fori_loop(0, 3, lambda _, x: jnp.cumsum(x, axis=0) * 0.1, x)


def cond_step_in_while(x, tol):
    def unfinished(s):
        return s[1] > tol

    def step(s):
        x, e = s
        x = lax.cond(e > 0.5, lambda x: x.at[0].multiply(0.5), lambda x: x.at[1].multiply(0.9), x)
        return x, e * 0.5

    return lax.while_loop(unfinished, step, (x, jnp.float32(1)))[0]


def dict_cond(flag, state):
    def work(s):
        return {"a": s["a"].at[0].set(1.0), "b": s["b"]}

    return lax.cond(flag, work, lambda s: s, state)


def cond_exchange_dict(flag, state):
    return lax.cond(flag, lambda s: {"a": s["b"], "b": s["a"]}, lambda s: s, state)


def nested_cond_exchange(p, q, a, b):
    def inner(a, b):
        return lax.cond(q, lambda a, b: (b, a), lambda a, b: (a + 1, b), a, b)

    return lax.cond(p, inner, lambda a, b: (a, b), a, b)


def switch_transforms(which, x):
    return lax.switch(which, [lambda x: x, lambda x: x[::-1], lambda x: jnp.roll(x, 1, 0)], x)


def cond_on_kept(flag, x):
    """Nothing is donated; one branch transforms, the other returns its operand."""
    return lax.cond(flag, lambda x: jnp.flip(x, 0), lambda x: x, x)


def cond_computed_operand(flag, x, w):
    y = jnp.tanh(x @ w)
    return lax.cond(flag, lambda y: jnp.flip(y, 0), lambda y: y, y)


def cond_matmul_in_scan(x, ws, use):
    def layer(x, given):
        w, on = given
        return lax.cond(on, lambda x: x @ w, lambda x: x, x), None

    return lax.scan(layer, x, (ws, use))[0]


def sharded_update(table, rows, at):
    return table.at[at].set(rows)


def sharded_step(w, m, x):
    g = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    m = 0.9 * m + g
    return w - 0.1 * m, m


def sharded_otherwise(x):
    """The output is replicated; the donated argument is split."""
    return lax.with_sharding_constraint(x * 2, jax.sharding.PartitionSpec())


def donate_static_part(fluid):
    """Only u is returned."""
    return fluid.u + fluid.v.mean()


def donated_half_returned(state):
    return {"w": state["w"] * 2, "n": state["n"] + 1}


def three_for_two(a, b, c):
    return a + c, b * c


def to_bfloat_pair(a, b):
    return a.astype(jnp.bfloat16), (b * 2)


def reduce_rows(x):
    return x.sum(0), x.max(0)


def reshape_returned(x):
    return (x + 1).reshape(64, -1)


def weights_to_int8(w):
    return jnp.clip(jnp.round(w * 127), -127, 127).astype(jnp.int8)


def int8_from_int8(q):
    return jnp.clip(q + 1, -127, 127).astype(jnp.int8)


FLAG = lend(dtype="bool")
INDEX = lend(dtype="int32")
CASES = (
    Case(name="advect", function=advect, args=(Fluid(own(512, 512), own(512, 512), own(512, 512)),)),
    Case(name="symplectic", function=symplectic, args=(own(512, 512), own(512, 512))),
    Case(name="fibonacci", function=fibonacci, args=(own(512, 512), own(512, 512))),
    Case(name="swap_halves", function=swap_halves, args=(own(512, 512),)),
    Case(name="swap_by_parity", function=swap_by_parity, args=(own(512, 512), own(512, 512))),
    Case(name="nested_swap", function=nested_swap, args=(own(256, 512), own(256, 512))),
    Case(name="row_pass", function=row_pass, args=(own(64, 4096),)),
    Case(name="unrolled_swap", function=unrolled_swap, args=(own(256, 512), own(256, 512))),
    Case(name="matmul_iterations", function=matmul_iterations, args=(own(512, 512), lend(512, 512))),
    Case(name="sort_in_loop", function=sort_in_loop, args=(own(256, 512),)),
    Case(name="cumsum_in_loop", function=cumsum_in_loop, args=(own(512, 512),)),
    Case(name="cond_step_in_while", function=cond_step_in_while, args=(own(512, 512), lend())),
    Case(name="dict_cond", function=dict_cond, args=(FLAG, {"a": own(512, 512), "b": own(256, 256)})),
    Case(name="cond_exchange_dict", function=cond_exchange_dict, args=(FLAG, {"a": own(256, 256), "b": own(256, 256)})),
    Case(name="nested_cond_exchange", function=nested_cond_exchange, args=(FLAG, FLAG, own(256, 256), own(256, 256))),
    Case(name="switch_transforms", function=switch_transforms, args=(INDEX, own(512, 512))),
    Case(name="cond_on_kept", function=cond_on_kept, args=(FLAG, lend(512, 512))),
    Case(name="cond_computed_operand", function=cond_computed_operand, args=(FLAG, lend(512, 512), lend(512, 512))),
    Case(
        name="cond_matmul_in_scan",
        function=cond_matmul_in_scan,
        args=(own(256, 512), lend(4, 512, 512), lend(4, dtype="bool")),
    ),
    Case(
        name="sharded_update",
        function=sharded_update,
        args=(own(4096, 128, partition=(None, "x")), lend(64, 128, partition=(None, "x")), lend(64, dtype="int32")),
        mesh={"x": 4},
    ),
    Case(
        name="sharded_step",
        function=sharded_step,
        args=(own(1024, 512, partition=("x",)), own(1024, 512, partition=("x",)), lend(64, 1024)),
        mesh={"x": 4},
    ),
    Case(name="sharded_otherwise", function=sharded_otherwise, args=(own(1024, 512, partition=("x",)),), mesh={"x": 4}),
    Case(
        name="donate_static_part",
        function=donate_static_part,
        args=(Fluid(own(512, 512), own(512, 512), own(256, 256)),),
    ),
    Case(
        name="donated_half_returned",
        function=donated_half_returned,
        args=({"w": own(512, 512), "n": own(dtype="int32"), "old": own(128, 256)},),
    ),
    Case(name="three_for_two", function=three_for_two, args=(own(512, 512), own(512, 512), own(512, 512))),
    Case(name="to_bfloat_pair", function=to_bfloat_pair, args=(own(256, 512), own(256, 512))),
    Case(name="reduce_rows", function=reduce_rows, args=(own(1024, 512, dtype="bfloat16"),)),
    Case(name="reshape_returned", function=reshape_returned, args=(own(512, 512),)),
    Case(name="weights_to_int8", function=weights_to_int8, args=(own(512, 512),)),
    Case(name="int8_from_int8", function=int8_from_int8, args=(own(1024, 512, dtype="int8"),)),
)
