"""The workaround of the same package is not robust on several GPUs.

Structure: the vocabulary is sharded over two devices and the call works on whole rows, so the partitioner gathers the
logits into a temporary copy for the kernel; the gradient of the input is computed from the logits after the call.

The right answer: `x` means the contents after the kernel. The kernel overwrites the gathered copy, and the product
reads the shards from which it was gathered: stale, whatever the order. The loss is right.
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


def train(call, x, weight):
    losses, gradient = call(x @ weight)
    return {"loss": losses.sum(), "x": gradient @ weight.T}


def train_hidden(x, weight):
    return train(call_hidden, x, weight)


def train_declared(x, weight):
    def each(x, part):
        whole = jax.lax.all_gather(part, "x", axis=1, tiled=True)
        return train(call_declared, x, whole)

    whole, columns = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(None, "x")
    return jax.shard_map(each, in_specs=(whole, columns), out_specs=whole, check_vma=False)(x, weight)


REPORT = Report(
    link="https://github.com/phlippe/liger_kernels#readme",
    year=2024,
    versions="jax 0.4.34, several H100s",
    kind=Kind.STALE,
    reported="a workaround that orders kernel and readers on one GPU does not on several",
    finds=Wrong(outputs=("x",), at=("call",)),
    revised="the cured twin had a real fault of its own, LD032, and uses shard_map now",
)
ARGS = (Arg(shape=(64, 32)), Arg(shape=(32, 256), partition=(None, "x")))
BAD = Case(name="phlippe_liger_kernels_sharded", params=("bad",), function=train_hidden, args=ARGS, mesh={"x": 2})
CURED = Case(name="phlippe_liger_kernels_sharded", params=("cured",), function=train_declared, args=ARGS, mesh={"x": 2})
CASES = (BAD, CURED)
