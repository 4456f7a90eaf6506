"""A factorisation overwrites the caller's matrix, although its call declares to read it only.

Structure: an argument of the jitted function, not donated, goes straight to a call that works in place; the solution is
another, declared output.

The right answer: a JAX array never changes, so after the call the caller's matrix must be what it was. The call
overwrites the parameter's own bytes, since XLA makes no copy for an operand that is only read: the caller's array is
clobbered. All outputs of the program itself are right.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place


@triton.jit
def solve_kernel(matrix_ptr, right_ptr, x_ptr, spare_ptr, SIZE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, SIZE)
    entries = tl.load(matrix_ptr + row * SIZE + column)
    pivot = tl.sum(tl.where(column == row, entries, 0.0))
    tl.store(x_ptr + row, tl.load(right_ptr + row) / pivot)
    tl.store(matrix_ptr + row * SIZE + column, entries / pivot)


def solve_hidden(matrix, right):
    x = jax_triton.triton_call(  # at: call
        matrix,
        right,
        kernel=solve_kernel,
        out_shape=jax.ShapeDtypeStruct(right.shape, right.dtype),
        grid=right.shape,
        SIZE=right.size,
        spare_ptr=None,
    )
    return {"x": x}


def solve_declared(matrix, right):
    out = jax.ShapeDtypeStruct(right.shape, right.dtype)
    x, _ = call_in_place(
        matrix, right, written=0, kernel=solve_kernel, outputs=(out,), grid=right.shape, SIZE=right.size
    )
    return {"x": x}


REPORT = Report(
    link="https://github.com/flatironinstitute/jaxmg/pull/12",
    year=2026,
    versions="not said",
    kind=Kind.CLOBBERED,
    reported="a multi-GPU solver overwrites its input without an alias in its FFI call",
    finds=Wrong(at=("call",)),
)
ARGS = (Arg(shape=(64, 64), draw=Draw(kind="uniform", low=1, high=2)), Arg(shape=(64,)))
BAD = Case(name="jaxmg_12", params=("bad",), function=solve_hidden, args=ARGS)
CURED = Case(name="jaxmg_12", params=("cured",), function=solve_declared, args=ARGS)
CASES = (BAD, CURED)
