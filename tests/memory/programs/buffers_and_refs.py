"""Caches, queues and Refs that several operations use."""

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


def caches_per_layer(q, w):
    """Four layers, whose caches start from a traced zero."""
    zero = q.sum() * 0
    caches = [jnp.full((512, 256), zero) for _ in range(4)]

    def step(i, state):
        caches, h = state
        new = []
        for cache in caches:
            new.append(cache.at[i].set(h))
            h = jnp.tanh(h @ w + new[-1][0])
        return new, h

    return lax.fori_loop(0, 8, step, (caches, q))


def bos_in_both(row):
    """Both caches have the first token written before the loop."""
    k = jnp.zeros((512, 256)).at[0].set(row)
    v = jnp.zeros((512, 256)).at[0].set(row)

    def step(i, state):
        k, v = state
        return k.at[i].set(row * 2), v.at[i].set(row * 3)

    return lax.fori_loop(1, 8, step, (k, v))


def noise_twice(key, rows):
    """The same key draws both arrays."""
    a, b = jax.random.normal(key, (512, 512)), jax.random.normal(key, (512, 512))

    def step(i, state):
        a, b = state
        return a.at[i].set(rows[i]), b.at[i].add(rows[i])

    return lax.fori_loop(0, 8, step, (a, b))


def decode_unknown_length(cache, q, limit):
    def unfinished(state):
        return state[2] < limit

    def step(state):
        cache, q, i = state
        cache = {"k": cache["k"].at[i].set(q), "v": cache["v"].at[i].set(2 * q)}
        scores = jax.nn.softmax(cache["k"] @ q)
        return cache, scores @ cache["v"], i + 1

    return lax.while_loop(unfinished, step, (cache, q, 0))


def beam_reorder(cache, parents, row):
    """Each step of a beam search gathers the cache by parent."""

    def step(i, cache):
        return cache[parents[i]].at[:, i].set(row)

    return lax.fori_loop(0, 6, step, cache)


def sum_of_start(x, rows):
    """The array from before the loop is needed after it."""
    y = lax.fori_loop(0, 8, lambda i, x: x.at[i].set(rows[i]), x)
    return y, jnp.sort(x, axis=0)


def change_of_loop(x, rows):
    y = lax.fori_loop(0, 8, lambda i, x: x.at[i].multiply(rows[i]), x)
    return y, jnp.abs(y - x).max()


def best_in_loop(x, moves):
    """Keeps the best array seen; a new best is copied."""

    def step(state, move):
        x, best, score = state
        x = x.at[0].add(move)
        new = x.sum()
        better = new > score
        return (x, jnp.where(better, x, best), jnp.maximum(new, score)), None

    return lax.scan(step, (x, x * 1, jnp.float32(0)), moves)[0]


def best_by_cond(x, best, moves):
    def step(state, move):
        x, best = state
        x = x.at[0].add(move)
        return (x, lax.cond(x[0, 0] > best[0, 0], lambda: x, lambda: best)), None

    return lax.scan(step, (x, best), moves)[0]


def checkpoint_stack(x, moves):
    """All states are returned as ys."""

    def step(x, move):
        x = x.at[0].add(move)
        return x, x

    return lax.scan(step, x, moves)


def swap_refs(a, b):
    left, right = jax.new_ref(a), jax.new_ref(b)

    def body(_, __):
        old = left[...]
        left[...] = right[...]
        right[...] = old

    lax.fori_loop(0, 6, body, None)
    return left[...], right[...]


def ref_history(x, rows):
    ref = jax.new_ref(x)

    def body(i, _):
        ref[i] = rows[i]

    before = ref[...]
    lax.fori_loop(0, 4, body, None)
    return ref[...], jnp.cumsum(before, axis=0)


def ref_zeros_of_int8(rows):
    ref = jax.new_ref(jnp.zeros((1024, 512), jnp.int8))

    def body(i, _):
        ref[i] = rows[i]

    lax.fori_loop(0, 8, body, None)
    return jax.freeze(ref)


def mapped_rows(x):
    return lax.map(lambda row: row * 2 + 1, x)


def reversed_scan(x, rows):
    def step(x, given):
        i, row = given
        return x.at[i].add(row), x[i].sum()

    return lax.scan(step, x, (jnp.arange(16), rows), reverse=True)


def stream_partition(values, flags):
    """Writes kept values to the front."""

    def step(state, given):
        out, n = state
        value, keep = given
        return (out.at[n].set(jnp.where(keep, value, out[n])), n + keep), None

    return lax.scan(step, (jnp.zeros_like(values), 0), (values, flags))[0]


def two_writes_one_after(x, row):
    y = x.at[0].set(row)
    return y.at[1].set(2 * row)


def write_both_ways(x, row):
    """Two different successors of one array, one of which is only reduced."""
    a = x.at[0].set(row)
    b = x.at[1].set(row)
    return a, jnp.sort(b, axis=0)[-1]


def slide(queue, head, items):
    """Drops the oldest by a dynamic slice, and appends."""

    def step(state, item):
        queue, head = state
        queue = lax.dynamic_update_slice(queue, item[None], (head, 0))
        return (queue, (head + 1) % queue.shape[0]), lax.dynamic_slice(queue, (head // 2, 0), (4, queue.shape[1])).sum()

    return lax.scan(step, (queue, head), items)


def int_counters(counts, ids):
    return jax.ops.segment_sum(jnp.ones_like(ids), ids, num_segments=counts.shape[0]) + counts


def axpy_kernel(x, y, o):
    o[...] = 2 * x[...] + y[...]


def axpy(x, y):
    block = pl.BlockSpec((1024,), lambda i: i)
    return pl.pallas_call(
        axpy_kernel,
        out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype),
        grid=(y.shape[0] // 1024,),
        in_specs=[block, block],
        out_specs=block,
        input_output_aliases={1: 0},
        compiler_params=plt.CompilerParams(),
    )(x, y)


def kernel_on_donated(x, y):
    return axpy(x, y)


def kernel_then_old_donated(x, y):
    z = axpy(x, y)
    return z, jnp.sort(y)


def kernel_chain(x, y):
    for _ in range(4):
        y = axpy(x, y)
    return y


def kernel_in_branch(flag, x, y):
    return lax.cond(flag, lambda: axpy(x, y), lambda: y)


def kernel_on_a_view(x, y):
    return axpy(x.reshape(-1), y.reshape(-1)).reshape(y.shape)


def kernel_on_transposed(x, y):
    return axpy(x.reshape(-1), y.T.reshape(-1))


CASES = (
    Case(name="caches_per_layer", function=caches_per_layer, args=(lend(256), lend(256, 256))),
    Case(name="bos_in_both", function=bos_in_both, args=(lend(256),)),
    Case(name="noise_twice", function=noise_twice, args=(lend(2, dtype="uint32"), lend(8, 512))),
    Case(
        name="decode_unknown_length",
        function=decode_unknown_length,
        args=({"k": own(1024, 128), "v": own(1024, 128)}, lend(128), lend(dtype="int32")),
    ),
    Case(
        name="beam_reorder",
        function=beam_reorder,
        args=(own(8, 128, 128), lend(6, 8, dtype="int32"), lend(128)),
    ),
    Case(name="sum_of_start", function=sum_of_start, args=(own(512, 512), lend(8, 512))),
    Case(name="change_of_loop", function=change_of_loop, args=(own(512, 512), lend(8, 512))),
    Case(name="best_in_loop", function=best_in_loop, args=(own(256, 512), lend(6, 512))),
    Case(name="best_by_cond", function=best_by_cond, args=(own(256, 512), own(256, 512), lend(6, 512))),
    Case(name="checkpoint_stack", function=checkpoint_stack, args=(own(256, 512), lend(6, 512))),
    Case(name="swap_refs", function=swap_refs, args=(own(256, 512), own(256, 512))),
    Case(name="ref_history", function=ref_history, args=(own(512, 512), lend(4, 512))),
    Case(name="ref_zeros_of_int8", function=ref_zeros_of_int8, args=(lend(8, 512, dtype="int8"),)),
    Case(name="mapped_rows", function=mapped_rows, args=(own(64, 4096),)),
    Case(name="reversed_scan", function=reversed_scan, args=(own(512, 512), lend(16, 512))),
    Case(name="stream_partition", function=stream_partition, args=(lend(1 << 16), lend(1 << 16, dtype="bool"))),
    Case(name="two_writes_one_after", function=two_writes_one_after, args=(own(512, 512), lend(512))),
    Case(name="write_both_ways", function=write_both_ways, args=(own(512, 512), lend(512))),
    Case(name="slide", function=slide, args=(own(256, 512), own(dtype="int32"), lend(16, 512))),
    Case(name="int_counters", function=int_counters, args=(own(1 << 18, dtype="int32"), lend(4096, dtype="int32"))),
    Case(name="kernel_on_donated", function=kernel_on_donated, args=(lend(1 << 18), own(1 << 18))),
    Case(name="kernel_then_old_donated", function=kernel_then_old_donated, args=(lend(1 << 18), own(1 << 18))),
    Case(name="kernel_chain", function=kernel_chain, args=(lend(1 << 18), own(1 << 18))),
    Case(name="kernel_in_branch", function=kernel_in_branch, args=(lend(dtype="bool"), lend(1 << 18), own(1 << 18))),
    Case(name="kernel_on_a_view", function=kernel_on_a_view, args=(lend(512, 512), own(512, 512))),
    Case(name="kernel_on_transposed", function=kernel_on_transposed, args=(lend(512, 512), own(512, 512))),
)
