"""A kernel writes through a reshaped view of an array; the array itself, returned afterwards, has its old values.

Structure: `x.reshape` goes to a kernel that overwrites it without a declaration, and `x` is returned.

The right answer: in the author's language the view and `x` are one array, so `base` means the contents after the kernel.
In XLA a reshape may be a copy, or the same bytes; either way no read of `x` has to wait for the kernel: `base` is stale,
or right by luck.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def fill_kernel(x_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * COLUMNS + column)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + row * COLUMNS + column, x + 1.0)


def write_hidden(x):
    base = jnp.sin(x)
    view = base.reshape(8, -1)
    sums = jax_triton.triton_call(  # at: call
        view,
        kernel=fill_kernel,
        out_shape=jax.ShapeDtypeStruct((8,), "float32"),
        grid=8,
        COLUMNS=view.shape[1],
        spare_ptr=None,
    )
    return {"sums": sums, "base": base * 2.0}


def write_declared(x):
    view = jnp.sin(x).reshape(8, -1)
    out = jax.ShapeDtypeStruct((8,), "float32")
    sums, view = call_in_place(view, written=0, kernel=fill_kernel, outputs=(out,), grid=8, COLUMNS=view.shape[1])
    return {"sums": sums, "base": view.reshape(-1) * 2.0}


REPORT = Report(
    link="https://github.com/pytorch/helion/pull/3475",
    year=2026,
    versions="helion 1.2",
    kind=Kind.STALE,
    reported="a store through a reshaped view leaves the base array as it was",
    finds=Wrong(outputs=("base",), at=("call",)),
)
BAD = Case(name="helion_3475", params=("bad",), function=write_hidden, args=(Arg(shape=(512,)),))
CURED = Case(name="helion_3475", params=("cured",), function=write_declared, args=(Arg(shape=(512,)),))
CASES = (BAD, CURED)
