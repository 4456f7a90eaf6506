"""Half of the gradients of a permutation are wrong, only in the full test suite.

Structure: a kernel gathers rows by an index; input and output have the same bytes.

The right answer: row i is row places[i] of the input. Where input and output share bytes, a program may read a row that
another has already overwritten: `rows` depends on the order of the programs, and is wrong for any permutation with a
cycle.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


@triton.jit
def permute_kernel(rows_ptr, places_ptr, out_ptr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLUMNS)
    source = tl.load(places_ptr + row)
    tl.store(out_ptr + row * COLUMNS + column, tl.load(rows_ptr + source * COLUMNS + column))


def permute(aliases, rows, places):
    out = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    call = jax_triton.triton_call(  # at: call
        jnp.sin(rows),
        places,
        kernel=permute_kernel,
        out_shape=out,
        grid=rows.shape[0],
        COLUMNS=rows.shape[1],
        input_output_aliases=aliases,
    )
    return {"rows": call * 2.0}


def permute_shared(rows, places):
    return permute({0: 0}, rows, places)


def permute_apart(rows, places):
    return permute({}, rows, places)


REPORT = Report(
    link="https://github.com/NVIDIA/TransformerEngine/pull/2730",
    year=2026,
    versions="TransformerEngine 2.13, jax 0.9",
    kind=Kind.SHARED_BYTES,
    reported="sorted chunks are wrong when the dead input and the output of the kernel share memory",
    finds=Wrong(outputs=("rows",), at=("call",)),
)
PLACES = jnp.roll(jnp.arange(16, dtype="int32"), 5)
ARGS = (Arg(shape=(16, 64)), PLACES)
BAD = Case(name="transformer_engine_2730", params=("bad",), function=permute_shared, args=ARGS)
CURED = Case(name="transformer_engine_2730", params=("cured",), function=permute_apart, args=ARGS)
CASES = (BAD, CURED)
