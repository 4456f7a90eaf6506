"""Programs that ask for work in place and pay for it with a copy."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


def log_and_overwrite(ring, sample, slot):
    """The report wants the sorted contents of the ring from before the push."""
    pushed = ring.at[slot].set(sample)
    return pushed, jnp.sort(ring, axis=0)


def delta_of_scatter(table, ids, rows):
    new = table.at[ids].add(rows)
    drift = jnp.cumsum(jnp.abs(new - table), axis=0)[-1]
    return new, drift


def clear_bit_rows(mask, row):
    return mask.at[row].set(False)


def zero_padding(tokens, start):
    return lax.dynamic_update_slice(tokens, jnp.zeros((64, 256), jnp.int32), (start, 0))


_TABLE = np.linspace(0, 1, 256 * 1024, dtype=np.float32).reshape(256, 1024) ** 3


def patch_table(row, at):
    return jnp.asarray(_TABLE).at[at].set(row)


def patch_table_in_loop(rows):
    return lax.fori_loop(0, 8, lambda i, t: t.at[i].set(rows[i]), jnp.asarray(_TABLE))


def channels_last(image, patch):
    """NCHW in, NHWC out."""
    image = image.at[:, :, :8, :8].add(patch)
    return jnp.transpose(image, (0, 2, 3, 1))


def transpose_square(a):
    return a.T


def sgd_momentum_crossed(weights, velocity, gradient):
    """The velocity is returned first."""
    velocity = 0.9 * velocity + gradient
    return velocity, weights - 0.1 * velocity


def rotate_three(a, b, c):
    return b, c, a


def normalise_rows(x):
    return jax.nn.softmax(x, axis=-1)


def smooth_once(u):
    return 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))


def square_matrix(a):
    return a @ a


def reversed_rows(x):
    return x[::-1]


def shift_kernel(x, o):
    o[...] = x[...] + 1


def add_one(x):
    block = pl.BlockSpec((1024,), lambda i: i)
    return pl.pallas_call(
        shift_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 1024,),
        in_specs=[block],
        out_specs=block,
        input_output_aliases={0: 0},
        compiler_params=plt.CompilerParams(),
    )(x)


def pallas_on_callers_array(x):
    return add_one(x)


def pallas_then_old(x):
    y = jnp.cumsum(x)
    z = add_one(y)
    return z, jnp.sort(y)


def pallas_twice_from_one(x):
    y = jnp.cumsum(x)
    return add_one(y), add_one(y) * 2


def fill_callers_cache(cache, rows):
    def push(cache, row):
        i, row = row
        return lax.dynamic_update_index_in_dim(cache, row, i, 0), row.sum()

    return lax.scan(push, cache, (jnp.arange(rows.shape[0]), rows))


def ref_of_callers_array(x, rows):
    ref = jax.new_ref(x)
    ref[3] = rows
    return ref[...]


def keep_best(best, best_score, candidate, score):
    """A dict with an old copy for undo."""
    new = best.at[0].set(candidate)
    return {"best": new, "undo": best, "score": jnp.maximum(best_score, score)}


def eigen_update(state, vector):
    updated = state["basis"].at[:, 2].set(vector)
    overlap = updated.T @ state["basis"]
    return {"basis": updated}, overlap


def read_then_write_loop(x, idx):
    """Each step needs the whole array from before its write."""

    def step(x, i):
        new = x.at[i].set(0.0)
        return new, jnp.cumsum(x)[-1] + jnp.sort(x)[0]

    return lax.scan(step, x, idx)


CASES = (
    Case(name="log_and_overwrite", function=log_and_overwrite, args=(own(1024, 256), lend(256), lend(dtype="int32"))),
    Case(
        name="delta_of_scatter",
        function=delta_of_scatter,
        args=(own(2048, 128), lend(64, dtype="int32"), lend(64, 128)),
    ),
    Case(name="clear_bit_rows", function=clear_bit_rows, args=(lend(2048, 1024, dtype="bool"), lend(dtype="int32"))),
    Case(name="zero_padding", function=zero_padding, args=(lend(4096, 256, dtype="int32"), lend(dtype="int32"))),
    Case(name="patch_table", function=patch_table, args=(lend(1024), lend(dtype="int32"))),
    Case(name="patch_table_in_loop", function=patch_table_in_loop, args=(lend(8, 1024),)),
    Case(
        name="channels_last",
        function=channels_last,
        args=(own(4, 32, 32, 32, dtype="bfloat16"), lend(4, 32, 8, 8, dtype="bfloat16")),
    ),
    Case(name="transpose_square", function=transpose_square, args=(own(1024, 1024),)),
    Case(
        name="sgd_momentum_crossed",
        function=sgd_momentum_crossed,
        args=(own(1024, 512), own(1024, 512), lend(1024, 512)),
    ),
    Case(name="rotate_three", function=rotate_three, args=(own(512, 512), own(512, 512), own(512, 512))),
    Case(name="normalise_rows", function=normalise_rows, args=(own(512, 2048),)),
    Case(name="smooth_once", function=smooth_once, args=(own(1024, 1024),)),
    Case(name="square_matrix", function=square_matrix, args=(own(512, 512),)),
    Case(name="reversed_rows", function=reversed_rows, args=(own(1024, 256, dtype="int8"),)),
    Case(name="pallas_on_callers_array", function=pallas_on_callers_array, args=(lend(1 << 18),)),
    Case(name="pallas_then_old", function=pallas_then_old, args=(lend(1 << 18),)),
    Case(name="pallas_twice_from_one", function=pallas_twice_from_one, args=(lend(1 << 18),)),
    Case(name="fill_callers_cache", function=fill_callers_cache, args=(lend(256, 1024), lend(16, 1024))),
    Case(name="ref_of_callers_array", function=ref_of_callers_array, args=(lend(256, 512), lend(512))),
    Case(
        name="keep_best",
        function=keep_best,
        args=(own(512, 512), own(), lend(512), lend()),
    ),
    Case(name="eigen_update", function=eigen_update, args=({"basis": own(1024, 128)}, lend(1024))),
    Case(name="read_then_write_loop", function=read_then_write_loop, args=(own(1 << 16), lend(8, dtype="int32"))),
)
