"""Copies on the device become asynchronous: a copy may then run beside a kernel that writes its source behind XLA's back.

Structure: a scan computes logits, a kernel returns the loss of each row and leaves the gradient in the logits, and the scan
stacks the logits. The copy into the stack can start as soon as the logits are there, and run while the kernel writes them.

The right answer: `gradients` are meant to be what the kernel leaves: exp(h) where the loss is the sum of exp(h). A copy that
starts before the kernel is done holds old contents, in part or altogether: stale. The losses are right. The cured twin
stacks the declared output.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

CHUNKS, ROWS, INNER, COLUMNS = 4, 16, 32, 64


@triton.jit
def exp_kernel(h_ptr, losses_ptr, spare_ptr, COLUMNS: tl.constexpr):
    at = h_ptr + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    gradient = tl.exp(tl.load(at))
    tl.store(losses_ptr + tl.program_id(0), tl.sum(gradient))
    tl.store(at, gradient)


LOSSES = jax.ShapeDtypeStruct((ROWS,), "float32")


def exp_hidden(h):
    keywords = {"kernel": exp_kernel, "out_shape": LOSSES, "grid": ROWS, "COLUMNS": COLUMNS, "spare_ptr": None}
    return jax_triton.triton_call(h, **keywords), h


def exp_declared(h):
    return call_in_place(h, written=0, kernel=exp_kernel, outputs=(LOSSES,), grid=ROWS, COLUMNS=COLUMNS)


def run(call, chunks, w):
    def body(total, x):
        losses, left = call(x @ w)
        return total + losses.sum(), left

    total, gradients = jax.lax.scan(body, 0.0, chunks)
    return {"gradients": gradients, "total": total}


def run_hidden(chunks, w):
    return run(exp_hidden, chunks, w)


def run_declared(chunks, w):
    return run(exp_declared, chunks, w)


def reference(chunks, w):
    gradients = jnp.exp(chunks @ w)
    return {"gradients": gradients, "total": gradients.sum()}


ARGS = (Arg(shape=(CHUNKS, ROWS, INNER)), Arg(shape=(INNER, COLUMNS)))
REPORT = Report(
    link="https://github.com/openxla/xla/pull/46106",
    year=2026,
    versions="XLA of July 2026",
    kind=Kind.OVERLAP,
    reported="copies on the device run on a stream of their own, beside the kernels",
    finds=Wrong(outputs=("gradients",), kinds=(Kind.OVERLAP, Kind.STALE)),
)
BAD = Case(name="xla_46106", params=("bad",), function=run_hidden, args=ARGS)
CURED = Case(name="xla_46106", params=("cured",), function=run_declared, args=ARGS, reference=reference)
CASES = (BAD, CURED)
