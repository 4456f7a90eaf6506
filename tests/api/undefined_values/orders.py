"""Results that depend on the order of a grid's programs, or on two running at once; and similar ones that are right."""

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
PLACES = Arg(shape=(ROWS,), dtype="int32", draw=Draw(kind="randint", high=3))


def call_pallas(kernel, *operands, out_shape, **words):
    return pl.pallas_call(kernel, out_shape=out_shape, compiler_params=plt.CompilerParams(num_warps=1), **words)(
        *operands
    )


def tile_kernel(x_ref, z_ref, o_ref):
    del z_ref
    o_ref[...] = o_ref[...] + x_ref[pl.program_id(0), :]


def tile(x):
    words = {"grid": (ROWS,), "input_output_aliases": {1: 0}}
    return {"total": call_pallas(tile_kernel, x, jnp.zeros(BLOCK), out_shape=S((BLOCK,), jnp.float32), **words)}


def revisited_kernel(x_ref, o_ref):
    """Written as for a TPU, whose grid runs its programs one after another."""

    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def revisited(x):
    block = pl.BlockSpec((1, BLOCK), lambda i: (i, 0))
    one = pl.BlockSpec((1, BLOCK), lambda i: (0, 0))
    words = {"grid": (ROWS,), "in_specs": [block], "out_specs": one}
    return {"total": call_pallas(revisited_kernel, x, out_shape=S((1, BLOCK), jnp.float32), **words)}


def own_rows(x):
    block = pl.BlockSpec((1, BLOCK), lambda i: (i, 0))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[...] += x_ref[...]

    return {"twice": call_pallas(kernel, x, out_shape=x, grid=(ROWS,), in_specs=[block], out_specs=block)}


@triton.jit
def cell_kernel(x, o, BLOCK: tl.constexpr):
    s = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.store(o, tl.load(o) + s)


def call_cell(x, **words):
    return jt.triton_call(
        x, kernel=cell_kernel, grid=(ROWS,), BLOCK=BLOCK, zeroed_outputs=(0,), **{OUT: S((1,), x.dtype)}
    )


def cell(x):
    return {"total": call_cell(x), "other": x + 1}


def cell_bf16(x):
    return {"total": call_cell(x)}


def own(x):
    c = jax.new_ref(jnp.zeros((1,)))
    jt.triton_call(x, c, kernel=cell_kernel, grid=(ROWS,), BLOCK=BLOCK, out_type=())
    return {"total": c[...]}


@triton.jit
def bins_kernel(i, o):
    at = tl.load(i + tl.program_id(0))
    tl.store(o + at, tl.load(o + at) + 1)


def bins(i):
    shape = {OUT: S((4,), "int32")}
    return {"counts": jt.triton_call(i, kernel=bins_kernel, grid=(ROWS,), zeroed_outputs=(0,), **shape)}


@triton.jit
def ticket_kernel(x, c, o, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.atomic_add(c, 1)
    tl.store(o + place * BLOCK + at, tl.load(x + tl.program_id(0) * BLOCK + at))


def call_tickets(x):
    shapes = (S((1,), "int32"), S(x.shape, "float32"))
    words = {"grid": (ROWS,), "zeroed_outputs": (0,), "BLOCK": BLOCK, OUT: shapes}
    return jt.triton_call(x, kernel=ticket_kernel, **words)


def tickets(x):
    count, rows = call_tickets(x)
    return {"rows": rows, "count": count}


def tickets_sorted(x):
    """The rows in any order, then sorted: always the same."""
    count, rows = call_tickets(x)
    return {"rows": jnp.sort(rows.reshape(-1)), "count": count}


def tickets_by_ref(x):
    c = jax.new_ref(jnp.zeros((1,), jnp.int32))
    o = jt.triton_call(x, c, kernel=ticket_kernel, out_type=S(x.shape, "float32"), grid=(ROWS,), BLOCK=BLOCK)
    return {"rows": o, "count": c[...]}


@triton.jit
def queue_kernel(x, c, o, TILES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tile = tl.atomic_add(c, 1)
    while tile < TILES:
        tl.store(o + tile * BLOCK + at, 2 * tl.load(x + tile * BLOCK + at))
        tile = tl.atomic_add(c, 1)


def queue(x):
    shapes = (S((1,), "int32"), S(x.shape, "float32"))
    words = {"grid": (3,), "zeroed_outputs": (0,), "TILES": ROWS, "BLOCK": BLOCK, OUT: shapes}
    return {"twice": jt.triton_call(x, kernel=queue_kernel, **words)[1]}


@triton.jit
def locked_kernel(x, lock, dw, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    own = row % GROUP
    mine = dw + own * BLOCK + at
    partial = tl.load(x + row * BLOCK + at)
    while tl.atomic_cas(lock + own, 0, 1) == 1:
        pass
    if tl.load(lock + GROUP + own) == 0:
        tl.atomic_xchg(lock + GROUP + own, 1)
    else:
        partial += tl.load(mine)
    tl.store(mine, partial)
    tl.debug_barrier()
    tl.atomic_xchg(lock + own, 0)


def locked(x):
    """The backward pass of layer norm in Triton's tutorial."""
    shapes = (S((4,), "int32"), S((2, BLOCK), "float32"))
    words = {"grid": (ROWS,), "zeroed_outputs": (0,), "GROUP": 2, "BLOCK": BLOCK, OUT: shapes}
    return {"dw": jt.triton_call(x, kernel=locked_kernel, **words)[1].sum(0)}


def case(function, args, expected, *rules):
    return Case(name=function.__name__, function=function, args=args, expected=expected, expected_rules=rules)


CASES = (
    case(tile, (X,), {"total": "unknown"}, "LD011"),
    case(revisited, (X,), {"total": "unknown"}, "LD019"),
    case(own_rows, (X,), "fresh"),
    case(cell, (X,), {"total": "unknown", "other": "fresh"}, "LD019"),
    case(cell_bf16, (Arg(shape=(ROWS, BLOCK), dtype="bfloat16"),), {"total": "unknown"}, "LD019"),
    case(bins, (PLACES,), {"counts": "unknown"}, "LD019"),
    case(tickets, (X,), {"rows": "unknown", "count": "fresh"}, "LD019"),
    case(tickets_sorted, (X,), "fresh"),
    case(queue, (X,), "fresh"),
    case(locked, (X,), "fresh"),
)
if NEW:
    CASES = (
        *CASES,
        case(own, (X,), {"total": "unknown"}, "LD011"),
        case(tickets_by_ref, (X,), {"rows": "unknown", "count": "fresh"}, "LD019"),
    )
