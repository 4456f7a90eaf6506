"""A vector is both an input and the output of one call, and the update vanishes.

Structure: the kernel of a conjugate gradient step computes `d = z + beta * d`; the caller passes `d` for both pointers, and
continues with the name `d`. The call declares only the sum of the new `d`.

The right answer: after the call `d` holds `z + beta * d`, so `next` should be computed from that. XLA sees two operands that
are one value and no write: `next` may be computed from the old `d`, so it is stale (or right by luck). The cured twin passes
`d` once, declares the write, and uses the value that comes back.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

SIZE = 256


@triton.jit
def direction_kernel(z_ptr, old_ptr, new_ptr, sum_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    d = tl.load(z_ptr + at) + 0.5 * tl.load(old_ptr + at)
    tl.store(new_ptr + at, d)
    tl.store(sum_ptr, tl.sum(d))


@triton.jit
def direction_once_kernel(z_ptr, d_ptr, sum_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    d = tl.load(z_ptr + at) + 0.5 * tl.load(d_ptr + at)
    tl.store(d_ptr + at, d)
    tl.store(sum_ptr, tl.sum(d))


CELL = jax.ShapeDtypeStruct((1,), "float32")


def step(z, d, matrix):
    d = jnp.tanh(d)
    total = jax_triton.triton_call(z, d, d, kernel=direction_kernel, out_shape=CELL, grid=1, SIZE=SIZE)
    return {"next": matrix @ d, "total": total[0]}


def step_declared(z, d, matrix):
    total, d = call_in_place(
        z, jnp.tanh(d), written=1, kernel=direction_once_kernel, outputs=(CELL,), grid=1, SIZE=SIZE
    )
    return {"next": matrix @ d, "total": total[0]}


def reference(z, d, matrix):
    d = z + 0.5 * jnp.tanh(d)
    return {"next": matrix @ d, "total": d.sum()}


ARGS = (Arg(shape=(SIZE,)), Arg(shape=(SIZE,)), Arg(shape=(16, SIZE)))
REPORT = Report(
    link="https://github.com/EnzymeAD/Reactant.jl/pull/3238",
    year=2026,
    versions="Reactant of August 2026",
    kind=Kind.STALE,
    reported="where an output of a kernel is also its input, the stale input survives and the update is lost",
    finds=Wrong(outputs=("next",)),
)
BAD = Case(name="reactant_3238", params=("bad",), function=step, args=ARGS)
CURED = Case(name="reactant_3238", params=("cured",), function=step_declared, args=ARGS, reference=reference)
CASES = (BAD, CURED)
