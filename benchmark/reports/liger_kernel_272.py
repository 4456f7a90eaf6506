"""A cross entropy that works in place breaks the gradient of the operation before it, and autograd does not notice.

Structure: probabilities = exp(x) feed a loss kernel that overwrites them with its own gradient, to be handed out in the
backward pass. The derivative of exp is its result, so autodiff has saved the very array that the kernel overwrites.

The right answer: dx = (contents after the kernel) * exp(x). The factor exp(x) means the contents before the kernel, and
both are one array: whichever version the schedule delivers to both reads, one of them is wrong, so `gradient` is
clobbered or stale in any schedule that keeps one buffer, and right only where XLA computes exp(x) again. The loss is
right.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place


@triton.jit
def entropy_kernel(x_ptr, loss_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(loss_ptr + row, tl.sum(x * x * x))
    tl.store(x_ptr + at, 3 * x * x)


def call_hidden(x):
    rows, columns = x.shape
    losses = jax_triton.triton_call(  # at: call
        x,
        kernel=entropy_kernel,
        out_shape=jax.ShapeDtypeStruct((rows,), "float32"),
        grid=rows,
        COLUMNS=columns,
        spare_ptr=None,
    )
    return losses, x


def call_declared(x):
    rows, columns = x.shape
    losses = jax.ShapeDtypeStruct((rows,), "float32")
    return call_in_place(x, written=0, kernel=entropy_kernel, outputs=(losses,), grid=rows, COLUMNS=columns)


def train(call, x):
    @jax.custom_vjp
    def compute_loss(p):
        return call(p)[0].sum()

    def forward(p):
        losses, gradient = call(p)
        return losses.sum(), gradient

    compute_loss.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
    loss, gradient = jax.value_and_grad(lambda x: compute_loss(jnp.exp(x)))(x)
    return {"loss": loss, "gradient": gradient}


def train_hidden(x):
    return train(call_hidden, x)


def train_declared(x):
    return train(call_declared, x)


def train_plainly(x):
    loss, gradient = jax.value_and_grad(lambda x: (jnp.exp(x) ** 3).sum())(x)
    return {"loss": loss, "gradient": gradient}


REPORT = Report(
    link="https://github.com/linkedin/Liger-Kernel/issues/272",
    year=2024,
    versions="liger-kernel 0.3, PyTorch",
    kind=Kind.CLOBBERED,
    reported="an in-place loss overwrites a tensor that autograd has saved, and the version counter does not see it",
    finds=Wrong(outputs=("gradient",), kinds=(Kind.CLOBBERED, Kind.STALE)),
)
ARGS = (Arg(shape=(32, 64), draw=Draw(scale=0.5)),)
BAD = Case(name="liger_kernel_272", params=("bad",), function=train_hidden, args=ARGS, reference=train_plainly)
CURED = Case(name="liger_kernel_272", params=("cured",), function=train_declared, args=ARGS, reference=train_plainly)
CASES = (BAD, CURED)
