"""The author of the fix for an in-place loss describes the failure once more: softmax before the loss has wrong
gradients.

Structure: probabilities = softmax(x), whose derivative needs them as they were, feed a kernel that overwrites them with
its own gradient for the backward pass.

The right answer: dx = p * (g - sum(g p)) with p from before the kernel and g from after it. Both are one array, so in
any schedule that has one buffer for it a read gets the wrong version: `gradient` is stale or clobbered. The loss is
right.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def loss_kernel(logits_ptr, losses_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLUMNS)
    logits = tl.load(logits_ptr + row * COLUMNS + column)
    weights = tl.exp(logits - tl.max(logits))
    tl.store(losses_ptr + row, tl.log(tl.sum(weights)) + tl.max(logits))
    tl.store(logits_ptr + row * COLUMNS + column, weights / tl.sum(weights))


def call_hidden(logits):
    rows, columns = logits.shape
    losses = jax_triton.triton_call(  # at: call
        logits,
        kernel=loss_kernel,
        out_shape=jax.ShapeDtypeStruct((rows,), "float32"),
        grid=rows,
        COLUMNS=columns,
        spare_ptr=None,
    )
    return losses, logits


def call_declared(logits):
    rows, columns = logits.shape
    out = jax.ShapeDtypeStruct((rows,), "float32")
    return call_in_place(logits, written=0, kernel=loss_kernel, outputs=(out,), grid=rows, COLUMNS=columns)


def train(call, x):
    @jax.custom_vjp
    def compute_loss(p):
        return call(p)[0].sum()

    def forward(p):
        losses, gradient = call(p)
        return losses.sum(), gradient

    compute_loss.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
    loss, gradient = jax.value_and_grad(lambda x: compute_loss(jax.nn.softmax(x)))(x)
    return {"loss": loss, "gradient": gradient}


def train_hidden(x):
    return train(call_hidden, x)


def train_declared(x):
    return train(call_declared, x)


REPORT = Report(
    link="https://github.com/linkedin/Liger-Kernel/pull/1251",
    year=2026,
    versions="liger-kernel 0.7, T4",
    kind=Kind.CLOBBERED,
    reported="softmax followed by an in-place loss has wrong gradients without an error",
    finds=Wrong(outputs=("gradient",), at=("call",), kinds=(Kind.CLOBBERED, Kind.STALE)),
)
ARGS = (Arg(shape=(32, 64)),)
BAD = Case(name="liger_kernel_1251", params=("bad",), function=train_hidden, args=ARGS)
CURED = Case(name="liger_kernel_1251", params=("cured",), function=train_declared, args=ARGS)
CASES = (BAD, CURED)
