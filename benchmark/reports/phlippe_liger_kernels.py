"""A fused linear cross entropy in JAX has wrong gradients in half of its tests, while its loss is right.

Structure: logits = x @ weight + bias; a Triton kernel returns the loss of each row and leaves the gradient of the
logits where the logits were; the gradients of x and of the bias are computed from the logits after that call.

The right answer: both gradients mean the contents after the kernel. XLA knows of one read only, so nothing keeps the
product and the sum from running first, and the bias gradient may be summed in the very fusion that makes the logits:
both outputs can be stale. The loss is a declared output, and right.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place


@triton.jit
def loss_kernel(logits_ptr, targets_ptr, loss_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLUMNS)
    logits = tl.load(logits_ptr + row * COLUMNS + column)
    is_target = column == tl.load(targets_ptr + row)
    top = tl.max(logits)
    weights = tl.exp(logits - top)
    total = tl.sum(weights)
    tl.store(loss_ptr + row, tl.log(total) + top - tl.sum(tl.where(is_target, logits, 0.0)))
    tl.store(logits_ptr + row * COLUMNS + column, weights / total - tl.where(is_target, 1.0, 0.0))


def compute_loss(logits, targets):
    rows, columns = logits.shape
    losses = jax_triton.triton_call(  # at: call
        logits,
        targets,
        kernel=loss_kernel,
        out_shape=jax.ShapeDtypeStruct((rows,), "float32"),
        grid=rows,
        COLUMNS=columns,
        spare_ptr=None,
    )
    return losses, logits


def compute_loss_declared(logits, targets):
    rows, columns = logits.shape
    losses = jax.ShapeDtypeStruct((rows,), "float32")
    return call_in_place(logits, targets, written=0, kernel=loss_kernel, outputs=(losses,), grid=rows, COLUMNS=columns)


def train(compute, x, weight, bias, targets):
    losses, gradient = compute(x @ weight + bias, targets)
    return {"loss": losses.sum(), "x": gradient @ weight.T, "bias": gradient.sum(0)}


def train_hidden(x, weight, bias, targets):
    return train(compute_loss, x, weight, bias, targets)


def train_declared(x, weight, bias, targets):
    return train(compute_loss_declared, x, weight, bias, targets)


REPORT = Report(
    link="https://github.com/phlippe/liger_kernels",
    year=2024,
    versions="jax 0.4.34, jax-triton 0.2, H100",
    kind=Kind.STALE,
    reported="gradients computed from the logits that the loss kernel overwrites fail their test, with a bias",
    finds=Wrong(outputs=("x", "bias")),
)
TARGETS = Arg(shape=(64,), dtype="int32", draw=Draw(kind="randint", high=128))
ARGS = (Arg(shape=(64, 32)), Arg(shape=(32, 128)), Arg(shape=(128,)), TARGETS)
BAD = Case(name="phlippe_liger_kernels", params=("bad",), function=train_hidden, args=ARGS)
CURED = Case(name="phlippe_liger_kernels", params=("cured",), function=train_declared, args=ARGS)
CASES = (BAD, CURED)
