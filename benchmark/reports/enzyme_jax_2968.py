"""A routine gets one array twice, to read and to overwrite, and the update is lost.

Structure: direction = residual + factor * direction, by a kernel that gets `direction` as two operands and writes
through the second one. The next step uses the direction.

The right answer: `step` means the direction as the kernel leaves it. XLA knows of no write, so nothing makes the product
wait for the kernel: `step` is stale, or right by luck.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def axpy_kernel(residual_ptr, direction_ptr, result_ptr, square_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    updated = tl.load(residual_ptr + at) + 0.5 * tl.load(direction_ptr + at)
    tl.store(square_ptr, tl.sum(updated * updated))
    tl.store(result_ptr + at, updated)


def update_hidden(residual, direction):
    square = jax_triton.triton_call(  # at: call
        residual,
        direction,
        direction,
        kernel=axpy_kernel,
        out_shape=jax.ShapeDtypeStruct((), "float32"),
        grid=1,
        SIZE=residual.size,
        spare_ptr=None,
    )
    return square, direction


def update_declared(residual, direction):
    square = jax.ShapeDtypeStruct((), "float32")
    return call_in_place(
        residual, direction, direction, written=2, kernel=axpy_kernel, outputs=(square,), grid=1, SIZE=residual.size
    )


def run(update, matrix, residual, start):
    square, direction = update(residual, matrix @ start)
    return {"square": square, "step": matrix @ direction}


def run_hidden(matrix, residual, start):
    return run(update_hidden, matrix, residual, start)


def run_declared(matrix, residual, start):
    return run(update_declared, matrix, residual, start)


REPORT = Report(
    link="https://github.com/EnzymeAD/Enzyme-JAX/issues/2968",
    year=2026,
    versions="Reactant.jl",
    kind=Kind.LOST_UPDATE,
    reported="with one buffer as input and output of a call, conjugate gradients stand still: the update is dropped",
    finds=Wrong(outputs=("step",), at=("call",), kinds=(Kind.LOST_UPDATE, Kind.STALE)),
)
ARGS = (Arg(shape=(64, 64)), Arg(shape=(64,)), Arg(shape=(64,)))
BAD = Case(name="enzyme_jax_2968", params=("bad",), function=run_hidden, args=ARGS)
CURED = Case(name="enzyme_jax_2968", params=("cured",), function=run_declared, args=ARGS)
CASES = (BAD, CURED)
