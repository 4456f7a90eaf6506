"""Memory that the program allocates and reads before anything writes it; and similar programs that are right."""

import inspect

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl
from jax import lax

from ligerdiag import Arg, Case, Draw

NEW = "out_type" in inspect.signature(jt.triton_call).parameters
OUT = "out_type" if NEW else "out_shape"
ROWS, N = 8, 32
S = jax.ShapeDtypeStruct
X = Arg(shape=(ROWS, N))
KEEP = Arg(shape=(ROWS,), dtype="int32", draw=Draw(kind="randint", high=2))


@triton.jit
def add_rows(x, o, N: tl.constexpr):
    tl.atomic_add(o + tl.arange(0, N), tl.load(x + tl.program_id(0) * N + tl.arange(0, N)))


@triton.jit
def add_rows_there(x, o_in, o, N: tl.constexpr):
    add_rows(x, o, N)


@triton.jit
def copy_rows(x, o, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + at, tl.load(x + at))


@triton.jit
def copy_rows_there(x, o_in, o, N: tl.constexpr):
    copy_rows(x, o, N)


@triton.jit
def copy_some(x, o, keep, N: tl.constexpr):
    if tl.load(keep + tl.program_id(0)) != 0:
        copy_rows(x, o, N)


@triton.jit
def copy_some_there(x, o_in, keep, o, N: tl.constexpr):
    copy_some(x, o, keep, N)


@triton.jit
def add(x, y, o, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + at, tl.load(x + at) + tl.load(y + at))


def onto(there, kernel, x, array, *more, programs=ROWS):
    """Returns the array after the kernel: through a Ref, or through an alias before jax-triton 0.4."""
    if not NEW:
        aliased = {"out_shape": S(array.shape, array.dtype), "input_output_aliases": {1: 0}}
        return jt.triton_call(x, array, *more, kernel=there, grid=(programs,), N=N, **aliased)
    ref = jax.new_ref(array)
    jt.triton_call(x, ref, *more, kernel=kernel, grid=(programs,), out_type=(), N=N)
    return jax.freeze(ref)


def empty(*shape, dtype="float32"):
    return lax.empty(shape, jnp.dtype(dtype))


def total(x):
    return {"sum": onto(add_rows_there, add_rows, x, empty(N)), "other": x.sum()}


def total_from_zero(x):
    return {"sum": onto(add_rows_there, add_rows, x, jnp.zeros(N))}


def count(x):
    return {"sum": onto(add_rows_there, add_rows, (x > 0).astype(jnp.int32), empty(N, dtype="int32"))}


def total_in_scan(x):
    def step(carry, row):
        return onto(add_rows_there, add_rows, x * row[0], carry), row.sum()

    last, sums = lax.scan(step, empty(N), x)
    return {"last": last, "sums": sums}


def copied(x):
    return {"y": onto(copy_rows_there, copy_rows, x, empty(ROWS, N))}


def copied_in_part(x):
    y = onto(copy_rows_there, copy_rows, x, empty(ROWS, N), programs=5)
    return {"y": y.sum(0), "written": y[:5]}


def copied_some(x, keep):
    y = onto(copy_some_there, copy_some, x, empty(ROWS, N), keep)
    return {"y": y, "kept": jnp.where(keep[:, None] != 0, y, 0)}


def operand(x):
    return {"y": jt.triton_call(x, empty(ROWS, N), kernel=add, grid=(ROWS,), N=N, **{OUT: S(x.shape, x.dtype)})}


def updated(x, rows):
    def put(i, rows):
        return lax.dynamic_update_slice(rows, 2 * y[i][None], (i, 0))

    y = onto(copy_rows_there, copy_rows, x, jnp.zeros_like(x))
    return {"y": y, "rows": lax.fori_loop(0, rows, put, empty(ROWS, N))}


def all_updated(x):
    return updated(x, ROWS)


def some_updated(x):
    return updated(x, ROWS - 1)


def read_without_kernel(x):
    return {"sum": total_from_zero(x)["sum"], "other": x + empty(ROWS, N)}


def case(function, args, expected, *rules):
    return Case(name=function.__name__, function=function, args=args, expected=expected, expected_rules=rules)


CASES = (
    case(total, (X,), {"sum": "unknown", "other": "fresh"}, "LD025"),
    case(total_from_zero, (X,), "fresh"),
    case(count, (X,), {"sum": "unknown"}, "LD025"),
    case(total_in_scan, (X,), {"last": "unknown", "sums": "fresh"}, "LD025"),
    case(copied, (X,), "fresh"),
    case(copied_in_part, (X,), {"y": "unknown", "written": "fresh"}, "LD025"),
    case(copied_some, (X, KEEP), {"y": "unknown", "kept": "fresh"}, "LD025"),
    case(operand, (X,), {"y": "unknown"}, "LD025"),
    case(all_updated, (X,), "fresh"),
    case(some_updated, (X,), {"y": "fresh", "rows": "unknown"}, "LD025"),
    case(read_without_kernel, (X,), {"sum": "fresh", "other": "unknown"}, "LD025"),
)
