"""Kernels called in place, in the forms that people write; references derived by hand, in plain jnp."""

import functools

import jax
import jax.numpy as jnp
import triton
import triton.language as tl
from jax.sharding import PartitionSpec

from ligerdiag.in_place import call_in_place
from ligerdiag.model.case import Arg, Case

N = 128
ROW, ROWS = Arg(shape=(N,)), Arg(shape=(4, N))
SCALAR = jax.ShapeDtypeStruct((), "float32")


@triton.jit
def add_kernel(by_ptr, factor, x_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at) + factor * tl.load(by_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, x.to(x_ptr.dtype.element_ty))


@triton.jit
def momentum_kernel(p_ptr, m_ptr, g_ptr, spare_p_ptr, spare_m_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = 0.5 * tl.load(m_ptr + at) + tl.load(g_ptr + at)
    tl.store(m_ptr + at, m)
    tl.store(p_ptr + at, tl.load(p_ptr + at) - 0.25 * m)


@triton.jit
def append_kernel(k_ptr, v_ptr, x_ptr, spare_k_ptr, spare_v_ptr, N: tl.constexpr):
    """Adds to half of each cache, so that the other half is unchanged."""
    at = tl.arange(0, N // 2)
    tl.store(k_ptr + at, tl.load(k_ptr + at) + tl.load(x_ptr + at))
    tl.store(v_ptr + N // 2 + at, tl.load(v_ptr + N // 2 + at) + 2 * tl.load(x_ptr + at))


@triton.jit
def sine_kernel(y_ptr, x_ptr, total_ptr, spare_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(total_ptr, tl.sum(x))
    tl.store(y_ptr + tl.arange(0, N), tl.load(y_ptr + tl.arange(0, N)) + tl.sin(x))


@triton.jit
def square_kernel(x_ptr, sum_ptr, spare_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + tl.arange(0, N), 2 * x)


tuned_kernel = triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=[])(
    momentum_kernel
)
chosen_kernel = triton.heuristics({"BLOCK": lambda _: 64})(momentum_kernel)


def add(x, by, factor=3, rows=4):
    outputs = [jax.ShapeDtypeStruct((rows,), "float32")]
    options = {"kernel": add_kernel, "outputs": outputs, "grid": (rows,), "COLUMNS": x.size // rows}
    return call_in_place(by, factor, x, written=2, **options)


def step(p, m, g, kernel=momentum_kernel, **options):
    return call_in_place(p, m, g, kernel=kernel, written=(0, 1), grid=lambda meta: (N // meta["BLOCK"],), **options)


def append(k, v, x):
    return call_in_place(k, v, x, written=("k_ptr", "v_ptr"), kernel=append_kernel, grid=1, N=N)


def square(x):
    return call_in_place(x, written=0, kernel=square_kernel, outputs=SCALAR, grid=1, N=N)


def behind_a_scalar(x, by):
    sums, added = add(x * 2, by)
    return {"sums": sums, "added": added * 5}


def behind_a_scalar_plain(x, by):
    return {"sums": (x * 2 + 3 * by).sum(1), "added": (x * 2 + 3 * by) * 5}


def optimizer(p, m, g):
    p, m = step(p, m, g, BLOCK=32)
    return {"p": p, "m": m}


def optimizer_plain(p, m, g):
    m = 0.5 * m + g
    return {"p": p - 0.25 * m, "m": m}


def tuned(kernel, p, m, g):
    """The program reads the operands afterwards, too."""
    q, m = step(p * 1.5, m, g, kernel=kernel)
    return {"p": q + p, "m": m}


def tuned_plain(p, m, g):
    m = 0.5 * m + g
    return {"p": 2.5 * p - 0.25 * m, "m": m}


def caches(xs):
    """Two equal arrays of zeros, one value to XLA, appended to in a scan that stacks them."""

    def body(state, x):
        k, v = append(*state, jnp.sin(x))
        return (k, v), (k + v, v)

    (k, v), (both, vs) = jax.lax.scan(body, (jnp.zeros(N), jnp.zeros(N)), xs)
    return {"k": k, "v": v, "both": both, "vs": vs}


def zeros_each_time(xs):
    def body(total, x):
        k, v = append(jnp.zeros(N), jnp.zeros(N), x)
        return total + k, (k, v)

    total, (k, v) = jax.lax.scan(body, jnp.zeros(N), xs)
    return {"total": total, "k": k, "v": v}


def zeros_each_time_plain(xs):
    none = jnp.zeros((4, N // 2))
    k, v = jnp.concatenate([xs[:, : N // 2], none], 1), jnp.concatenate([none, 2 * xs[:, : N // 2]], 1)
    return {"total": k.sum(0), "k": k, "v": v}


def caches_plain(xs):
    each = zeros_each_time_plain(jnp.sin(xs))
    k, v = jnp.cumsum(each["k"], 0), jnp.cumsum(each["v"], 0)
    return {"k": k[-1], "v": v[-1], "both": k + v, "vs": v}


def halves(x):
    h = jnp.sin(x)
    first, second = square(h[:N]), square(h[N:])
    return {"sum": first[0] + second[0], "first": first[1], "second": second[1]}


def halves_plain(x):
    return {"sum": (jnp.sin(x) ** 2).sum(), "first": 2 * jnp.sin(x[:N]), "second": 2 * jnp.sin(x[N:])}


def read_and_written(x):
    sums, added = add(x, x)
    return {"sums": sums, "added": added, "x": x}


def read_and_written_plain(x):
    return {"sums": (4 * x).sum(1), "added": 4 * x, "x": x}


def kept(x):
    """A parameter that is not donated, and that a second call reads again."""
    total, doubled = square(x)
    return {"total": total, "doubled": doubled, "again": square(x + 0 * doubled)[1], "x": x * 1.5}


def kept_plain(x):
    return {"total": (x * x).sum(), "doubled": 2 * x, "again": 2 * x, "x": x * 1.5}


def low_precision(x, by):
    sums, added = add(x + by, by)
    return {"sums": sums, "added": added}


def low_precision_plain(x, by):
    added = (x + by).astype("float32") + 3 * by.astype("float32")
    return {"sums": added.sum(1), "added": added.astype("bfloat16")}


def make_squares(**options):
    squares = jax.custom_vjp(lambda x: square(x)[0])
    squares.defvjp(square, lambda doubled, g: (g * doubled,), **options)
    return squares


def computed_again(xs, w, options, policy=None):
    squares = make_squares(**options)

    def loss(w):
        body = jax.checkpoint(lambda total, x: (total + squares(x * w), None), policy=policy)
        return jax.lax.scan(body, 0.0, xs)[0]

    total, gradient = jax.value_and_grad(loss)(w)
    return {"total": total, "gradient": gradient}


def computed_again_plain(xs, w):
    return {"total": ((xs * w) ** 2).sum(), "gradient": 2 * (xs * xs * w).sum(0)}


def differentiated_scan(xs, w):
    """The zeros do not depend on the iteration."""

    def call(x):
        return call_in_place(jnp.zeros(N), x, written=0, kernel=sine_kernel, outputs=[SCALAR], grid=1, N=N)[1]

    sine = jax.custom_vjp(call)
    sine.defvjp(lambda x: (call(x), x), lambda x, g: (g * jnp.cos(x),))

    def loss(w):
        return (jax.lax.scan(lambda c, x: (c + sine(x * w), None), jnp.zeros(N), xs)[0] ** 2).sum()

    total, gradient = jax.value_and_grad(loss)(w)
    return {"total": total, "gradient": gradient}


def differentiated_scan_plain(xs, w):
    total, gradient = jax.value_and_grad(lambda w: (jnp.sin(xs * w).sum(0) ** 2).sum())(w)
    return {"total": total, "gradient": gradient}


def carried(x):
    """Through a while loop and a branch, twice through the same jitted function."""
    double = jax.jit(lambda x: square(x)[1])

    def body(state):
        i, x = state
        return i + 1, jax.lax.cond(i % 2 == 0, double, lambda x: double(double(x)) * 0.25, x)

    _, last = jax.lax.while_loop(lambda state: state[0] < 4, body, (0, x))
    return {"last": last, "x": x}


def carried_plain(x):
    return {"last": 4 * x, "x": x}


def sharded(x, by):
    spec = PartitionSpec("x")
    sums, added = jax.shard_map(functools.partial(add, rows=2), in_specs=spec, out_specs=spec)(x * 2, by)
    return {"sums": sums, "added": added * 5}


def batched(xs):
    return {"doubled": jax.vmap(jax.custom_batching.sequential_vmap(lambda x: square(x)[1]))(xs * 2), "xs": xs}


def batched_plain(xs):
    return {"doubled": 4 * xs, "xs": xs}


def make(name, function, args, reference, **options):
    return Case(name=name, function=function, args=args, reference=reference, expected="fresh", **options)


DONATED = Arg(shape=(N,), donate=True)
LOW = Arg(shape=(4, N), dtype="bfloat16")
PARTED = Arg(shape=(4, N), partition=("x",))
CASES = (
    make("behind_a_scalar", behind_a_scalar, (ROWS, ROWS), behind_a_scalar_plain),
    make("optimizer", optimizer, (DONATED, DONATED, ROW), optimizer_plain),
    make("optimizer_kept", optimizer, (ROW, ROW, ROW), optimizer_plain),
    make("tuned", functools.partial(tuned, tuned_kernel), (ROW, ROW, ROW), tuned_plain),
    make("chosen", functools.partial(tuned, chosen_kernel), (ROW, ROW, ROW), tuned_plain),
    make("caches", caches, (ROWS,), caches_plain),
    make("zeros_each_time", zeros_each_time, (ROWS,), zeros_each_time_plain),
    make("halves", halves, (Arg(shape=(2 * N,)),), halves_plain),
    make("read_and_written", read_and_written, (ROWS,), read_and_written_plain),
    make("kept", kept, (ROW,), kept_plain),
    make("low_precision", low_precision, (LOW, LOW), low_precision_plain),
    make("computed_again", functools.partial(computed_again, options={}), (ROWS, ROW), computed_again_plain),
    make(
        "computed_again_on_purpose",
        functools.partial(computed_again, options={"optimize_remat": True}),
        (ROWS, ROW),
        computed_again_plain,
    ),
    make(
        "saved",
        functools.partial(computed_again, options={}, policy=jax.checkpoint_policies.everything_saveable),
        (ROWS, ROW),
        computed_again_plain,
    ),
    make("differentiated_scan", differentiated_scan, (ROWS, ROW), differentiated_scan_plain),
    make("carried", carried, (ROW,), carried_plain),
    make("sharded", sharded, (PARTED, PARTED), behind_a_scalar_plain, mesh={"x": 2}),
    make("batched", batched, (ROWS,), batched_plain),
)
