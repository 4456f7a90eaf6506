"""Inside command buffers async operations lost their order with what comes before and after them.

Structure: a scan stacks what a kernel leaves of each row block; XLA copies the block into the stack by an async
operation on a stream of its own, which may start before the kernel.

The right answer: `stack` means each block after its kernel. The write is hidden, so the copy need not wait for the
kernel and may overlap with it: `stack` is stale, or depends on the race.
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


def run(call, x, weight):
    def add_block(total, block):
        losses, contents = call(block @ weight)
        return total + losses.sum(), contents

    total, stack = jax.lax.scan(add_block, 0.0, x)
    return {"total": total, "stack": stack}


def run_hidden(x, weight):
    return run(call_hidden, x, weight)


def run_declared(x, weight):
    return run(call_declared, x, weight)


REPORT = Report(
    link="https://github.com/openxla/xla/pull/48900",
    year=2026,
    versions="XLA of September 2026",
    kind=Kind.OVERLAP,
    reported="async start and done in a command buffer are unordered with the operations around them",
    finds=Wrong(outputs=("stack",)),
)
ARGS = (Arg(shape=(4, 64, 64)), Arg(shape=(64, 256)))
BAD = Case(name="xla_48900", params=("bad",), function=run_hidden, args=ARGS)
CURED = Case(name="xla_48900", params=("cured",), function=run_declared, args=ARGS)
CASES = (BAD, CURED)
