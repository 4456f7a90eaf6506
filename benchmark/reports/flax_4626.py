"""With gradient checkpointing a model with its own kernels computes junk.

Structure: a kernel returns the sum of squares of each row and leaves the gradient in the rows. The derivative rule saves the
rows, to use what the kernel leaves in them. The model is under `jax.checkpoint`, so the forward pass runs again for the
derivative; there nobody uses the sums, and the call is dropped with the gradient that it would leave.

The right answer: the loss is sum((x @ w)**2), its gradient 2 * x.T @ (x @ w). Without the write the rule multiplies the
rows themselves: `gradient` is stale (here half of what is right). The cured twin saves the declared output.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

ROWS, INNER, COLUMNS = 16, 32, 64


@triton.jit
def squares_kernel(h_ptr, sums_ptr, spare_ptr, COLUMNS: tl.constexpr):
    at = h_ptr + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    h = tl.load(at)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(h * h))
    tl.store(at, 2.0 * h)


def squares_hidden(h):
    sums = jax.ShapeDtypeStruct((ROWS,), h.dtype)
    call = {"kernel": squares_kernel, "out_shape": sums, "grid": ROWS, "COLUMNS": COLUMNS, "spare_ptr": None}
    return jax_triton.triton_call(h, **call), h


def squares_declared(h):
    sums = jax.ShapeDtypeStruct((ROWS,), h.dtype)
    return call_in_place(h, written=0, kernel=squares_kernel, outputs=(sums,), grid=ROWS, COLUMNS=COLUMNS)


def train(squares, w, x):
    @jax.custom_vjp
    def row_loss(h):
        return squares(h)[0].sum()

    def forward(h):
        sums, left = squares(h)
        return sums.sum(), left

    row_loss.defvjp(forward, lambda left, cotangent: (cotangent * left,))
    loss, gradient = jax.value_and_grad(jax.checkpoint(lambda w: row_loss(x @ w)))(w)
    return {"gradient": gradient, "loss": loss}


def train_hidden(w, x):
    return train(squares_hidden, w, x)


def train_declared(w, x):
    return train(squares_declared, w, x)


def reference(w, x):
    return {"gradient": 2.0 * x.T @ (x @ w), "loss": ((x @ w) ** 2).sum()}


ARGS = (Arg(shape=(INNER, COLUMNS)), Arg(shape=(ROWS, INNER)))
REPORT = Report(
    link="https://github.com/google/flax/issues/4626",
    year=2025,
    versions="flax 0.10, GPU and TPU",
    kind=Kind.STALE,
    reported="gradient checkpointing makes a model with its own attention kernels compute junk",
    finds=Wrong(outputs=("gradient",), kinds=(Kind.STALE, Kind.MOVED_BY_JAX)),
)
BAD = Case(name="flax_4626", params=("bad",), function=train_hidden, args=ARGS, reference=reference)
CURED = Case(name="flax_4626", params=("cured",), function=train_declared, args=ARGS, reference=reference)
CASES = (BAD, CURED)
