"""Outputs that the program drops but the kernel reads: scratch memory, counters; and similar programs that are right."""

import inspect

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case, Draw

OUT = "out_type" if "out_type" in inspect.signature(jt.triton_call).parameters else "out_shape"
ROWS, N = 8, 16
S = jax.ShapeDtypeStruct
X = Arg(shape=(ROWS, N))
KEEP = Arg(shape=(ROWS,), dtype="int32", draw=Draw(kind="randint", high=2))
COUNTER = S((1,), "int32")


@triton.jit
def add_scratch(x, scratch, o, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + at, tl.load(x + at) + tl.load(scratch + at))


@triton.jit
def add_some_scratch(keep, x, scratch, o, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at)
    if tl.load(keep + tl.program_id(0)) != 0:
        value += tl.load(scratch + at)
    tl.store(o + at, value)


@triton.jit
def reverse_by_scratch(x, scratch, o, N: tl.constexpr):
    first = tl.program_id(0) * N
    tl.store(scratch + first + tl.arange(0, N), tl.load(x + first + tl.arange(0, N)))
    tl.debug_barrier()
    tl.store(o + first + tl.arange(0, N), tl.load(scratch + first + N - 1 - tl.arange(0, N)))


@triton.jit
def place_by_counter(x, counter, o, N: tl.constexpr):
    place = tl.atomic_add(counter, 1)
    tl.store(o + place, tl.load(x + tl.program_id(0)), mask=(place >= 0) & (place < N))


@triton.jit
def count_beside(x, counter, o, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.atomic_add(counter, 1)
    tl.store(o + at, 2 * tl.load(x + at))


@triton.jit
def add_some_in_place(keep, x, scratch, o, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + at, 1.0)
    if tl.load(keep + tl.program_id(0)) != 0:
        tl.store(x + at, tl.load(x + at) + tl.load(scratch + at))


def call(kernel, *args, first, **words):
    outputs = (first, S((ROWS, N), "float32"))
    return jt.triton_call(*args, kernel=kernel, grid=(ROWS,), N=N, **{OUT: outputs}, **words)[1]


def read(x):
    return {"y": call(add_scratch, x, first=S(x.shape, x.dtype)), "other": x.sum()}


def read_some(keep, x):
    return {"y": call(add_some_scratch, keep, x, first=S(x.shape, x.dtype))}


def read_in_scan(x):
    def step(carry, row):
        return call(add_scratch, x * carry, first=S(x.shape, x.dtype)).mean(), row.sum()

    last, sums = jax.lax.scan(step, 1.0, x)
    return {"last": last, "sums": sums}


def read_into_operands(keep, x):
    """The values read reach the program through the operand that the kernel overwrites, and through no result."""
    y, z = jnp.sin(x), jnp.cos(x)
    ones = call(add_some_in_place, keep, y, first=S(x.shape, x.dtype))
    more = call(add_some_in_place, keep, z, first=S(x.shape, x.dtype))
    return {"y": y * ones, "z": z * more, "ones": ones + 1}


def written_first(x):
    return {"y": call(reverse_by_scratch, x, first=S(x.shape, x.dtype))}


def counted(x, **words):
    outputs = (COUNTER, S((ROWS,), "float32"))
    _, y = jt.triton_call(x, kernel=place_by_counter, grid=(ROWS,), N=ROWS, **{OUT: outputs}, **words)
    return {"sorted": jnp.sort(y)}


def counted_from_zero(x):
    return counted(x, zeroed_outputs=(0,))


def counter_unused(x):
    """Nothing uses the values that the atomic additions return."""
    return {"y": call(count_beside, x, first=COUNTER)}


def case(function, args, expected, *rules):
    return Case(name=function.__name__, function=function, args=args, expected=expected, expected_rules=rules)


CASES = (
    case(read, (X,), {"y": "unknown", "other": "fresh"}, "LD025"),
    case(read_some, (KEEP, X), {"y": "unknown"}, "LD025"),
    case(read_in_scan, (X,), {"last": "unknown", "sums": "fresh"}, "LD025"),
    case(read_into_operands, (KEEP, X), {"y": "unknown", "z": "unknown", "ones": "fresh"}, "LD006", "LD025"),
    case(written_first, (X,), "fresh"),
    case(counted, (Arg(shape=(ROWS,)),), {"sorted": "unknown"}, "LD013", "LD025"),
    case(counted_from_zero, (Arg(shape=(ROWS,)),), "fresh"),
    case(counter_unused, (X,), "fresh"),
)
