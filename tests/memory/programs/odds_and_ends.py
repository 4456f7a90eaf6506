"""Factorizations, kernels with several aliases, indexed updates of every kind, and arrays that pass through unchanged."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


def cholesky_of_kept(a):
    return lax.linalg.cholesky(a)


def cholesky_of_donated(a):
    return lax.linalg.cholesky(a)


def solve_triangular(a, b):
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)


def factor_and_solve(a, b):
    low = lax.linalg.cholesky(a @ a.T + jnp.eye(a.shape[0]))
    return lax.linalg.triangular_solve(low, b, left_side=True, lower=True)


def set_by_mask(x, mask):
    return jnp.where(mask, 0, x)


def put_maximum(scores, ids, values):
    return scores.at[ids].max(values)


def put_along(x, picks):
    return jnp.put_along_axis(x, picks, 1.0, axis=1, inplace=False)


def scatter_two_indices(grid, rows, columns, values):
    return grid.at[rows, columns].add(values)


def set_diagonal_blocks(a, block):
    for i in range(4):
        a = lax.dynamic_update_slice(a, block * i, (i * 128, i * 128))
    return a


def set_strided(x):
    return x.at[::2].set(0)


def swap_two_rows(x, i, j):
    return x.at[jnp.array([i, j])].set(x[jnp.array([j, i])])


def shuffle_rows(key, x):
    return jax.random.permutation(jax.random.wrap_key_data(key), x, axis=0)


def power_of_two(x):
    return lax.integer_pow(x, 2)


def untouched_and_touched(state):
    return {"table": state["table"], "seen": state["seen"].at[0].add(1)}


def untouched_and_kept(table, seen):
    return table, seen.at[0].add(1)


def same_output_twice(x):
    y = x * 2
    return y, y


def broadcast_back(x):
    return jnp.broadcast_to(x.mean(0), x.shape)


def vmapped_cond(flags, x):
    return jax.vmap(lambda f, r: lax.cond(f, lambda r: r * 2, lambda r: r, r))(flags, x)


def bf16_accumulate(total, parts):
    return lax.scan(lambda t, p: ((t.astype(jnp.float32) + p.astype(jnp.float32)).astype(t.dtype), None), total, parts)[
        0
    ]


def max_plus(a, b):
    return lax.fori_loop(0, 4, lambda _, a: jnp.maximum(a, jnp.max(a[:, :64, None] + b[None, :, :], axis=1)), a)


def both_kernel(x, y, s, t):
    s[...] = x[...] + y[...]
    t[...] = x[...] - y[...]


def butterfly(x, y):
    block = pl.BlockSpec((1024,), lambda i: i)
    return pl.pallas_call(
        both_kernel,
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(y.shape, y.dtype)),
        grid=(x.shape[0] // 1024,),
        in_specs=[block, block],
        out_specs=(block, block),
        input_output_aliases={0: 0, 1: 1},
        compiler_params=plt.CompilerParams(),
    )(x, y)


def butterfly_donated(x, y):
    return butterfly(x, y)


def butterfly_half_donated(x, y):
    return butterfly(x, y)


def butterfly_crossed(x, y):
    s, t = butterfly(x, y)
    return t, s


def butterfly_loop(x, y):
    return lax.fori_loop(0, 4, lambda _, s: butterfly(*s), (x, y))


def butterfly_loop_crossed(x, y):
    return lax.fori_loop(0, 4, lambda _, s: butterfly(*s)[::-1], (x, y))


@triton.jit
def negate_kernel(x_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, -x)


def negate(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    sums, negated = call_in_place(
        x, written=0, kernel=negate_kernel, outputs=(sums,), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return negated, sums


def negate_kept(x):
    return negate(x)


def negate_in_loop(x):
    return lax.fori_loop(0, 4, lambda _, x: negate(x)[0], x)


def negate_and_compare(x):
    new, _ = negate(x)
    return new, jnp.sort(x, axis=0)


def negate_both_zeros(x):
    a, s = negate(jnp.zeros_like(x))
    b, t = negate(jnp.zeros_like(x))
    return a, b, s, t


def negate_in_branch(flag, x):
    return lax.cond(flag, lambda x: negate(x)[0], lambda x: x, x)


def offload(x):
    """Keeps the sines in the host's memory: the two transfers are the author's own."""
    kept = jax.device_put(jnp.sin(x), jax.memory.Space.Host)
    return {"kept": kept, "sum": (jax.device_put(kept, jax.memory.Space.Device) + x).sum()}


CASES = (
    Case(name="offload", function=offload, args=(lend(256, 1024),)),
    Case(name="cholesky_of_kept", function=cholesky_of_kept, args=(lend(256, 256),)),
    Case(name="cholesky_of_donated", function=cholesky_of_donated, args=(own(256, 256),)),
    Case(name="solve_triangular", function=solve_triangular, args=(lend(256, 256), own(256, 512))),
    Case(name="factor_and_solve", function=factor_and_solve, args=(own(256, 256), lend(256, 512))),
    Case(name="set_by_mask", function=set_by_mask, args=(own(1024, 256, dtype="int8"), lend(1024, 256, dtype="bool"))),
    Case(name="put_maximum", function=put_maximum, args=(own(1 << 18), lend(1024, dtype="int32"), lend(1024))),
    Case(name="put_along", function=put_along, args=(own(1024, 256), lend(1024, 1, dtype="int32"))),
    Case(
        name="scatter_two_indices",
        function=scatter_two_indices,
        args=(own(512, 512), lend(256, dtype="int32"), lend(256, dtype="int32"), lend(256)),
    ),
    Case(name="set_diagonal_blocks", function=set_diagonal_blocks, args=(own(512, 512), lend(128, 128))),
    Case(name="set_strided", function=set_strided, args=(own(1024, 256),)),
    Case(name="swap_two_rows", function=swap_two_rows, args=(own(1024, 256), lend(dtype="int32"), lend(dtype="int32"))),
    Case(name="shuffle_rows", function=shuffle_rows, args=(lend(2, dtype="uint32"), own(1024, 256))),
    Case(name="power_of_two", function=power_of_two, args=(own(1024, 256, dtype="int32"),)),
    Case(
        name="untouched_and_touched",
        function=untouched_and_touched,
        args=({"table": own(512, 512), "seen": own(1 << 16, dtype="int32")},),
    ),
    Case(
        name="untouched_and_kept",
        function=untouched_and_kept,
        args=(lend(512, 512), own(1 << 16, dtype="int32")),
    ),
    Case(name="same_output_twice", function=same_output_twice, args=(own(512, 512),)),
    Case(name="broadcast_back", function=broadcast_back, args=(own(1024, 256),)),
    Case(name="vmapped_cond", function=vmapped_cond, args=(lend(64, dtype="bool"), own(64, 4096))),
    Case(
        name="bf16_accumulate",
        function=bf16_accumulate,
        args=(own(512, 512, dtype="bfloat16"), lend(4, 512, 512, dtype="bfloat16")),
    ),
    Case(name="max_plus", function=max_plus, args=(own(256, 128), lend(64, 128))),
    Case(name="butterfly_donated", function=butterfly_donated, args=(own(1 << 18), own(1 << 18))),
    Case(name="butterfly_half_donated", function=butterfly_half_donated, args=(own(1 << 18), lend(1 << 18))),
    Case(name="butterfly_crossed", function=butterfly_crossed, args=(own(1 << 18), own(1 << 18))),
    Case(name="butterfly_loop", function=butterfly_loop, args=(own(1 << 18), own(1 << 18))),
    Case(name="butterfly_loop_crossed", function=butterfly_loop_crossed, args=(own(1 << 18), own(1 << 18))),
    Case(name="negate_kept", function=negate_kept, args=(lend(256, 1024),)),
    Case(name="negate_in_loop", function=negate_in_loop, args=(own(256, 1024),)),
    Case(name="negate_and_compare", function=negate_and_compare, args=(own(256, 1024),)),
    Case(name="negate_both_zeros", function=negate_both_zeros, args=(lend(256, 1024),)),
    Case(name="negate_in_branch", function=negate_in_branch, args=(lend(dtype="bool"), own(256, 1024))),
)
