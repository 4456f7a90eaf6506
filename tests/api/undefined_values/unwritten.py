"""Outputs that no kernel writes, or that are read before they are written; and similar programs that are right."""

import inspect

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case, Draw

NEW = "out_type" in inspect.signature(jt.triton_call).parameters
OUT = "out_type" if NEW else "out_shape"
ROWS, BLOCK = 8, 64
S = jax.ShapeDtypeStruct
X = Arg(shape=(ROWS, BLOCK))
PLACES = Arg(shape=(ROWS * BLOCK,), dtype="int32", draw=Draw(kind="randint", high=32))


@triton.jit
def sum_kernel(x, o, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o, tl.sum(tl.load(x + at)))


def call_sum(x, **words):
    return jt.triton_call(x, kernel=sum_kernel, grid=(ROWS,), BLOCK=BLOCK, **{OUT: S((1,), "float32")}, **words)


def total(x):
    """An output computed from the unwritten value is not fresh either; any other output is."""
    s = call_sum(x)
    return {"total": s, "scaled": x / s, "other": x.sum()}


def total_zeroed(x):
    return {"total": call_sum(x, zeroed_outputs=(0,))}


def total_through_kernel(x):
    """A second kernel reads the unwritten value."""
    return {"twice": call_sum(call_sum(x) + jnp.zeros((ROWS, BLOCK)), zeroed_outputs=(0,))}


def total_unused(x):
    call_sum(x)
    return {"x": x * 2}


def total_in_scan(x):
    def step(carry, row):
        return carry + call_sum(row + x)[0], row.sum()

    last, sums = jax.lax.scan(step, 0.0, x)
    return {"last": last, "sums": sums}


def total_in_branch(x):
    return {"y": jax.lax.cond(x[0, 0] > 1e9, lambda: call_sum(x), lambda: jnp.ones(1))}


def scatter_kernel(i_ref, g_ref, o_ref):
    part = pl.dslice(pl.program_id(0) * BLOCK, BLOCK)
    plt.atomic_add(o_ref, (i_ref[part],), g_ref[part])


def scatter(i, g):
    table = S((32,), jnp.float32)
    return {
        "table": pl.pallas_call(scatter_kernel, out_shape=table, grid=(ROWS,), compiler_params=plt.CompilerParams())(
            i, g
        )
    }


def scatter_kernel_onto(i_ref, g_ref, z_ref, o_ref):
    del z_ref
    scatter_kernel(i_ref, g_ref, o_ref)


def scatter_onto_zeros(i, g):
    call = pl.pallas_call(
        scatter_kernel_onto,
        out_shape=S((32,), jnp.float32),
        grid=(ROWS,),
        input_output_aliases={2: 0},
        compiler_params=plt.CompilerParams(),
    )
    return {"table": call(i, g, jnp.zeros(32))}


def add_kernel(x_ref, o_ref):
    o_ref[...] += x_ref[...]


def pallas_update(x):
    """Applies `+=` to an output."""
    return {"y": pl.pallas_call(add_kernel, out_shape=x, compiler_params=plt.CompilerParams())(x)}


def start_kernel(x_ref, o_ref):
    o_ref[...] = jnp.zeros_like(o_ref)
    o_ref[...] += x_ref[...]


def pallas_start(x):
    return {"y": pl.pallas_call(start_kernel, out_shape=x, compiler_params=plt.CompilerParams())(x)}


@triton.jit
def norm_kernel(x, y, mean, BLOCK: tl.constexpr, STATS: tl.constexpr):
    row = tl.program_id(0)
    at = row * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    average = tl.sum(value) / BLOCK
    if STATS:
        tl.store(mean + row, average)
    tl.store(y + at, value - average)


def call_norm(x, *, stats):
    shapes = (S(x.shape, "float32"), S((ROWS,), "float32"))
    return jt.triton_call(x, kernel=norm_kernel, grid=(ROWS,), BLOCK=BLOCK, STATS=stats, **{OUT: shapes})


def unused_statistics(x):
    y, _ = call_norm(x, stats=False)
    return {"y": y}


def dead_statistics(x):
    """The program uses the output, but nothing uses the results."""
    y, mean = call_norm(x, stats=False)
    jnp.exp(mean)
    return {"y": y}


def missing_statistics(x):
    y, mean = call_norm(x, stats=False)
    return {"y": y, "centre": mean * 2}


TUNED = triton.autotune(configs=[triton.Config({"BK": 32}), triton.Config({"BK": 64})], key=["K"])


@TUNED
@triton.jit
def splitk_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.program_id(0) * BK + tl.arange(0, BK)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    tl.atomic_add(c + m[:, None] * N + n[None, :], tl.dot(left, right, input_precision="ieee"))


def splitk(a, b, **words):
    grid = lambda meta: (128 // meta["BK"],)  # noqa: E731
    shape = {OUT: S((32, 32), "float32")}
    return {"c": jt.triton_call(a, b, kernel=splitk_kernel, grid=grid, M=32, N=32, K=128, **shape, **words)}


def splitk_zeroed(a, b):
    return splitk(a, b, zeroed_outputs=(0,))


@triton.jit
def half_kernel(x, o, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at), mask=at % 2 == 0)


def half(x):
    y = jt.triton_call(x, kernel=half_kernel, grid=(ROWS,), BLOCK=BLOCK, **{OUT: S(x.shape, "float32")})
    return {"even": y[:, ::2], "all": y}


@triton.jit
def first_kernel(x, o, n: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n), mask=at < n)


def pad(x):
    """Pads 500 elements; the output has room for whole blocks."""
    flat, room = x.reshape(-1)[:500], S((ROWS * BLOCK,), "float32")
    return jt.triton_call(flat, kernel=first_kernel, grid=(ROWS,), n=500, BLOCK=BLOCK, **{OUT: room})


def padding_cut_off(x):
    return {"y": pad(x)[:500]}


def padding_reshaped_and_cut_off(x):
    return {"y": pad(x).reshape(ROWS, BLOCK)[:7, 3:].sum(0)}


def padding_read(x):
    return {"y": pad(x)[:501], "sum": pad(x).sum()}


@triton.jit
def half_elements_kernel(x, o, BLOCK: tl.constexpr):
    """Writes two bytes of each four-byte element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o.to(tl.pointer_type(tl.int16)) + 2 * at, tl.load(x + at).to(tl.int16))


def half_elements(x):
    return {
        "y": jt.triton_call(x, kernel=half_elements_kernel, grid=(ROWS,), BLOCK=BLOCK, **{OUT: S(x.shape, "float32")})
    }


@triton.jit
def positive_kernel(x, o, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(o + at, value, mask=value > 0)


def positive(x):
    return jt.triton_call(x, kernel=positive_kernel, grid=(ROWS,), BLOCK=BLOCK, **{OUT: S(x.shape, "float32")})


def positive_chosen(x):
    return {"y": jnp.where(x > 0, positive(x), 0)}


def positive_read(x):
    return {"y": positive(x).max(1)}


A, B = Arg(shape=(32, 128)), Arg(shape=(128, 32))


def case(function, args, expected, *rules):
    return Case(name=function.__name__, function=function, args=args, expected=expected, expected_rules=rules)


CASES = (
    case(total, (X,), {"total": "unknown", "scaled": "unknown", "other": "fresh"}, "LD025"),
    case(total_zeroed, (X,), "fresh"),
    case(total_through_kernel, (X,), {"twice": "unknown"}, "LD025"),
    case(total_unused, (X,), "fresh"),
    case(total_in_scan, (X,), {"last": "unknown", "sums": "fresh"}, "LD025"),
    case(total_in_branch, (X,), {"y": "unknown"}, "LD025"),
    case(scatter, (PLACES, Arg(shape=(ROWS * BLOCK,))), {"table": "unknown"}, "LD025"),
    case(scatter_onto_zeros, (PLACES, Arg(shape=(ROWS * BLOCK,))), "fresh"),
    case(pallas_update, (X,), {"y": "unknown"}, "LD025"),
    case(pallas_start, (X,), "fresh"),
    case(unused_statistics, (X,), "fresh"),
    case(dead_statistics, (X,), "fresh"),
    case(missing_statistics, (X,), {"y": "fresh", "centre": "unknown"}, "LD013"),
    case(splitk, (A, B), {"c": "unknown"}, "LD010", "LD025"),
    case(splitk_zeroed, (A, B), "fresh"),
    case(half, (X,), {"even": "fresh", "all": "unknown"}, "LD013"),
    case(padding_cut_off, (X,), "fresh"),
    case(padding_reshaped_and_cut_off, (X,), "fresh"),
    case(padding_read, (X,), {"*": "unknown"}, "LD013"),
    case(half_elements, (X,), {"*": "unknown"}, "LD013"),
    case(positive_chosen, (X,), "fresh"),
    case(positive_read, (X,), {"*": "unknown"}, "LD013"),
)
