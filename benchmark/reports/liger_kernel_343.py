"""A loss overwrites the logits that the caller wants to look at afterwards, for an accuracy.

Structure: the kernel leaves its gradient where the logits were; the caller computes the sum of squares of the logits
after the loss, and means the logits.

The right answer: `squares` means the logits before the kernel. The call does not say that it overwrites them, and the
caller reads the same array, so as written the reader sees the gradient. The report calls that wrong: `squares` differs
from the one of plain formulas. The loss is right.
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


def evaluate(call, x, weight):
    logits = x @ weight
    losses, _ = call(logits)
    return {"loss": losses.sum(), "squares": (logits @ weight.T).sum(0)}


def evaluate_hidden(x, weight):
    return evaluate(call_hidden, x, weight)


def evaluate_declared(x, weight):
    return evaluate(call_declared, x, weight)


def evaluate_plainly(x, weight):
    return evaluate(lambda logits: (jax.nn.logsumexp(logits, axis=1), None), x, weight)


REPORT = Report(
    link="https://github.com/linkedin/Liger-Kernel/issues/343",
    year=2024,
    versions="liger-kernel 0.4",
    kind=Kind.CLOBBERED,
    reported="the input of the cross entropy is modified, which a caller who uses it afterwards does not expect",
    finds=Wrong(outputs=("squares",), at=("call",)),
)
ARGS = (Arg(shape=(32, 64)), Arg(shape=(64, 64)))
BAD = Case(name="liger_kernel_343", params=("bad",), function=evaluate_hidden, args=ARGS, reference=evaluate_plainly)
CURED = Case(
    name="liger_kernel_343", params=("cured",), function=evaluate_declared, args=ARGS, reference=evaluate_plainly
)
CASES = (BAD, CURED)
