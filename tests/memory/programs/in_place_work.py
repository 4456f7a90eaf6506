"""Programs that work in place, or that compute a new array without any request."""

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


def loss(params, x, y):
    h = jax.nn.silu(x @ params["up"] + params["bias"])
    return jnp.mean((h @ params["down"] - y) ** 2)


def lion(params, momentum, x, y):
    grads = jax.grad(loss)(params, x, y)
    update = jax.tree.map(lambda m, g: jnp.sign(0.9 * m + 0.1 * g), momentum, grads)
    momentum = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g, momentum, grads)
    return jax.tree.map(lambda p, u: p - 1e-4 * (u + 0.1 * p), params, update), momentum


def rmsprop(params, nu, count, x, y):
    grads = jax.grad(loss)(params, x, y)
    nu = jax.tree.map(lambda n, g: 0.9 * n + 0.1 * g * g, nu, grads)
    params = jax.tree.map(lambda p, g, n: p - 1e-3 * g * lax.rsqrt(n + 1e-8), params, grads, nu)
    return params, nu, count + 1


def adam_scan(params, mu, nu, xs, ys):
    """Several steps in one call."""

    def step(state, batch):
        params, mu, nu = state
        value, grads = jax.value_and_grad(loss)(params, *batch)
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
        nu = jax.tree.map(lambda n, g: 0.99 * n + 0.01 * g * g, nu, grads)
        params = jax.tree.map(lambda p, m, n: p - 1e-3 * m / (jnp.sqrt(n) + 1e-8), params, mu, nu)
        return (params, mu, nu), value

    return lax.scan(step, (params, mu, nu), (xs, ys))


def append_to_cache(cache, k, v, length):
    return {
        "k": lax.dynamic_update_slice(cache["k"], k[:, None], (0, length, 0, 0)),
        "v": lax.dynamic_update_slice(cache["v"], v[:, None], (0, length, 0, 0)),
        "length": length + 1,
    }


def attend_and_append(cache, q, length):
    k = cache.at[:, length].set(q)
    scores = jnp.einsum("bhd,bshd->bhs", q, k) * 0.125
    scores = jnp.where(jnp.arange(k.shape[1]) <= length, scores, -1e9)
    return k, jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(scores), k)


def ring_buffer(ring, head, samples):
    def push(state, sample):
        ring, head = state
        return (ring.at[head % ring.shape[0]].set(sample), head + 1), None

    return lax.scan(push, (ring, head), samples)[0]


def sparse_embedding(table, accumulator, ids, grads):
    """Adagrad on the rows that were used."""
    accumulator = accumulator.at[ids].add(grads * grads)
    return table.at[ids].add(-0.1 * grads * lax.rsqrt(accumulator[ids] + 1e-6)), accumulator


def histogram(bins, values):
    return bins.at[values].add(1)


def sorted_copy(x):
    return jnp.sort(x, axis=-1)


def running_sum(x):
    return jnp.cumsum(x, axis=0)


def rematerialised(params, x, y):
    value, grads = jax.value_and_grad(jax.checkpoint(loss))(params, x, y)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), value


def layers_with_remat(weights, x):
    @jax.checkpoint
    def layer(x, w):
        return jnp.tanh(x @ w), None

    def run(weights):
        return lax.scan(layer, x, weights)[0].sum()

    return jax.tree.map(lambda w, g: w - 0.01 * g, weights, jax.grad(run)(weights))


def per_example(table, rows, at):
    return jax.vmap(lambda t, r, i: t.at[i].set(r))(table, rows, at)


def masked_update(x, new, mask):
    return jnp.where(mask[:, None], new, x)


@jax.custom_vjp
def clip_gradient(x):
    return x


clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))


def custom_rule(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.sum(jnp.sin(clip_gradient(x @ w))))(w)


def scale_kernel(x, s, o):
    o[...] = x[...] * s[0]


def scale(x, s):
    block = pl.BlockSpec((1024,), lambda i: i)
    return pl.pallas_call(
        scale_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 1024,),
        in_specs=[block, pl.BlockSpec((1,), lambda i: 0)],
        out_specs=block,
        input_output_aliases={0: 0},
        compiler_params=plt.CompilerParams(),
    )(x, s)


def pallas_in_place(x, s):
    return scale(x, s)


def pallas_in_a_loop(x, s):
    return lax.fori_loop(0, 8, lambda _, x: scale(x, s), x)


@triton.jit
def halve_kernel(x_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, x / 2)


def triton_in_place(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    sums, halved = call_in_place(
        x, written=0, kernel=halve_kernel, outputs=(sums,), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return halved, sums


def ref_counts(counts, ids):
    ref = jax.new_ref(counts)

    def body(i, _):
        ref[ids[i]] += 1

    lax.fori_loop(0, ids.shape[0], body, None)
    return jax.freeze(ref)


def ref_matrix(x):
    ref = jax.new_ref(x)

    @jax.jit
    def scale_row(i):
        ref[i] = ref[i] * 2

    lax.fori_loop(0, 64, lambda i, _: scale_row(i), None)
    return ref[...]


def zero_borders(field):
    return field.at[0].set(0).at[-1].set(0).at[:, 0].set(0).at[:, -1].set(0)


def quantised_cache(cache, scales, row, at):
    scale = jnp.abs(row).max() / 127
    return cache.at[at].set((row / scale).astype(jnp.int8)), scales.at[at].set(scale)


def ema(average, params):
    return jax.tree.map(lambda a, p: (0.999 * a.astype(jnp.float32) + 0.001 * p).astype(a.dtype), average, params)


def residual(x, w1, w2):
    return x + jax.nn.gelu(x @ w1) @ w2


def token_buffer(tokens, logits, at):
    return tokens.at[:, at].set(logits.argmax(-1).astype(jnp.int32))


def greedy_decode(tokens, table, start):
    def step(state):
        tokens, at = state
        logits = table[tokens[:, at - 1]]
        return tokens.at[:, at].set(logits.argmax(-1).astype(jnp.int32)), at + 1

    def unfinished(state):
        return (state[1] < state[0].shape[1]) & jnp.any(state[0][:, state[1] - 1] != 0)

    return lax.while_loop(unfinished, step, (tokens, start))


def in_place_steps(u):
    """Each step rewrites one row from its neighbours."""
    return lax.fori_loop(1, 63, lambda i, u: u.at[i].set(0.5 * (u[i - 1] + u[i + 1])), u)


def transposed_read(w, x):
    return x @ w.T, w.T.sum(0)


def transposed_copy(x):
    return jnp.transpose(x, (1, 0, 2))


def accumulate_gradients(params, xs, ys):
    zero = jax.tree.map(jnp.zeros_like, params)

    def add(total, batch):
        return jax.tree.map(jnp.add, total, jax.grad(loss)(params, *batch)), None

    total = lax.scan(add, zero, (xs, ys))[0]
    return jax.tree.map(lambda p, g: p - 0.1 * g / xs.shape[0], params, total)


def life_support(x):
    """Concatenates and splits."""
    a, b = jnp.split(x, 2)
    return jnp.concatenate([b * 2, a + 1])


def loss_scale(state, grads):
    finite = jnp.all(jnp.isfinite(grads))
    return jnp.where(finite, state["w"] - 0.1 * grads, state["w"]), jnp.where(finite, state["s"] * 2, state["s"] / 2)


def unroll_four(x, rows):
    return lax.scan(lambda x, r: (x.at[0].add(r), None), x, rows, unroll=4)[0]


def dropout(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)


def both_sums(x):
    return jnp.cumsum(x, axis=0), jnp.cumsum(x, axis=1)


PARAMS = {"up": own(256, 1024), "bias": own(1024), "down": own(1024, 256)}
KEPT = {"up": lend(256, 1024), "bias": lend(1024), "down": lend(1024, 256)}
BATCH = (lend(64, 256), lend(64, 256))
BATCHES = (lend(4, 64, 256), lend(4, 64, 256))
CACHE = {
    "k": own(2, 512, 4, 64, dtype="bfloat16"),
    "v": own(2, 512, 4, 64, dtype="bfloat16"),
    "length": own(dtype="int32"),
}
HEADS = lend(2, 4, 64, dtype="bfloat16")
AT = lend(dtype="int32")

CASES = (
    Case(name="lion", function=lion, args=(PARAMS, PARAMS, *BATCH)),
    Case(name="rmsprop", function=rmsprop, args=(PARAMS, PARAMS, own(dtype="int32"), *BATCH)),
    Case(name="adam_scan", function=adam_scan, args=(PARAMS, PARAMS, PARAMS, *BATCHES)),
    Case(name="append_to_cache", function=append_to_cache, args=(CACHE, HEADS, HEADS, AT)),
    Case(name="attend_and_append", function=attend_and_append, args=(own(2, 512, 4, 64), lend(2, 4, 64), AT)),
    Case(name="ring_buffer", function=ring_buffer, args=(own(1024, 128), own(dtype="int32"), lend(32, 128))),
    Case(
        name="sparse_embedding",
        function=sparse_embedding,
        args=(own(8192, 64), own(8192, 64), lend(128, dtype="int32"), lend(128, 64)),
    ),
    Case(name="histogram", function=histogram, args=(own(1 << 20, dtype="int32"), lend(4096, dtype="int32"))),
    Case(name="sorted_copy", function=sorted_copy, args=(lend(128, 2048),)),
    Case(name="running_sum", function=running_sum, args=(lend(1024, 512),)),
    Case(name="rematerialised", function=rematerialised, args=(PARAMS, *BATCH)),
    Case(name="layers_with_remat", function=layers_with_remat, args=(own(4, 256, 256), lend(64, 256))),
    Case(name="per_example", function=per_example, args=(own(8, 256, 128), lend(8, 128), lend(8, dtype="int32"))),
    Case(
        name="masked_update", function=masked_update, args=(own(1024, 256), lend(1024, 256), lend(1024, dtype="bool"))
    ),
    Case(name="custom_rule", function=custom_rule, args=(own(512, 512), lend(64, 512))),
    Case(name="pallas_in_place", function=pallas_in_place, args=(own(1 << 18), lend(1))),
    Case(name="pallas_in_a_loop", function=pallas_in_a_loop, args=(own(1 << 18), lend(1))),
    Case(name="triton_in_place", function=triton_in_place, args=(own(256, 1024),)),
    Case(name="ref_counts", function=ref_counts, args=(own(1 << 18, dtype="int32"), lend(64, dtype="int32"))),
    Case(name="ref_matrix", function=ref_matrix, args=(own(512, 512),)),
    Case(name="zero_borders", function=zero_borders, args=(own(1024, 1024),)),
    Case(
        name="quantised_cache",
        function=quantised_cache,
        args=(own(1024, 512, dtype="int8"), own(1024), lend(512), AT),
    ),
    Case(
        name="ema",
        function=ema,
        args=({"w": own(1024, 512, dtype="bfloat16")}, {"w": lend(1024, 512)}),
    ),
    Case(name="residual", function=residual, args=(own(256, 512), lend(512, 1024), lend(1024, 512))),
    Case(name="token_buffer", function=token_buffer, args=(own(64, 2048, dtype="int32"), lend(64, 1000), AT)),
    Case(name="greedy_decode", function=greedy_decode, args=(own(64, 1024, dtype="int32"), lend(512, 512), AT)),
    Case(name="in_place_steps", function=in_place_steps, args=(own(64, 4096),)),
    Case(name="transposed_read", function=transposed_read, args=(lend(512, 512), lend(64, 512))),
    Case(name="transposed_copy", function=transposed_copy, args=(lend(64, 128, 64, dtype="bfloat16"),)),
    Case(name="accumulate_gradients", function=accumulate_gradients, args=(PARAMS, *BATCHES)),
    Case(name="life_support", function=life_support, args=(lend(1024, 256),)),
    Case(name="loss_scale", function=loss_scale, args=({"w": own(512, 512), "s": own()}, lend(512, 512))),
    Case(name="unroll_four", function=unroll_four, args=(own(64, 2048), lend(16, 2048))),
    Case(name="dropout", function=dropout, args=(lend(2, dtype="uint32"), own(512, 1024))),
    Case(name="both_sums", function=both_sums, args=(lend(512, 512),)),
)
