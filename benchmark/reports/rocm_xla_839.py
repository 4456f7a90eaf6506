"""A command buffer and a collective on another stream touch the same memory without an edge between them.

Structure: on two devices the logits are gathered on the communication stream for a statistic of the old logits, while
the kernel overwrites them.

The right answer: `top` means the logits before the kernel. The gather may still read them while the kernel writes,
since no edge orders the two: `top` depends on the race. The losses are right.
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
    def compute(x, weight):
        logits = x @ weight
        everyone = jax.lax.all_gather(logits, "x", tiled=True)
        losses, _ = call(logits)
        return losses, everyone.max(-1)

    part, whole = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()
    each = jax.shard_map(compute, in_specs=(part, whole), out_specs=(part, whole), check_vma=False)
    losses, top = each(x, weight)
    return {"losses": losses, "top": top}


def run_hidden(x, weight):
    return run(call_hidden, x, weight)


def run_declared(x, weight):
    return run(call_declared, x, weight)


REPORT = Report(
    link="https://github.com/ROCm/xla/pull/839",
    year=2026,
    versions="ROCm",
    kind=Kind.OVERLAP,
    reported="a command buffer does not wait for a collective of another stream",
    finds=Wrong(outputs=("top",), at=("call",)),
)
ARGS = (Arg(shape=(64, 64), partition=("x",)), Arg(shape=(64, 256)))
BAD = Case(name="rocm_xla_839", params=("bad",), function=run_hidden, args=ARGS, mesh={"x": 2})
CURED = Case(name="rocm_xla_839", params=("cured",), function=run_declared, args=ARGS, mesh={"x": 2})
CASES = (BAD, CURED)
