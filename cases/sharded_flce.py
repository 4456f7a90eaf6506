"""The seed's warning: the trivial operations are "not robust and fail for training a LLM like Llama on multi-GPU
setups" (https://github.com/phlippe/liger_kernels).

The suspicion: where the vocabulary or the parameters are split over the devices, the partitioner gathers the logits
into a temporary copy for the kernel. The kernel overwrites the copy; every reader, correctly ordered after the kernel,
reads the shard that the copy was gathered from. Split over the batch alone nothing is gathered. Eight devices on one
axis, `x`, or two, where the id ends in 2:

- `batch`: input, targets and mask split over the batch, parameters replicated
- `vocabulary`: weight and bias split over the vocabulary, the rest replicated
- `fsdp`: weight split over the embedding, bias over the vocabulary, input, targets and mask over the batch

In the rows `shard_map` each device calls the kernel on tokens of its own, and gathers the parameters that are split:
the remedy that LD002 asks for, with its price.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from cases.seed_flce import compute, compute_reference, make_args
from kernels.fused_linear_cross_entropy.shapes import SHARDED
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case

PARTITIONS = {
    "batch": (("x",), ("x",), ("x",), (), ()),
    "vocabulary": ((), (), (), (None, "x"), ("x",)),
    "fsdp": (("x",), ("x",), ("x",), ("x", None), ("x",)),
}
"""For input, targets, mask, weight and bias, the mesh axis of each leading dimension."""
SHARD_MAP = "shard_map"
"""The mode `aliased` in a `shard_map`, beside the modes."""
DECLARED = (Mode.ALIASED, Mode.OUT_OF_PLACE, SHARD_MAP)
"""XLA knows of every write."""


def make_sharded_args(partitioning: str) -> tuple[Arg, ...]:
    """Returns the seed's arguments in f32 with bias, split over the mesh as `PARTITIONS` says."""
    args = make_args(SHARDED, dtype="float32", bias=True)
    return tuple(
        replace(arg, partition=partition) for arg, partition in zip(args, PARTITIONS[partitioning], strict=True)
    )


def compute_in_shard_map(partitioning: str, *arrays: Any) -> dict[str, Any]:
    """Returns loss and gradients by the kernel in mode `aliased`, each device on tokens of its own."""
    from kernels.fused_linear_cross_entropy.in_shard_map import fused_linear_cross_entropy_in_shard_map
    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff
    from kernels.seed_flce.api import fused_linear_cross_entropy

    *_, weight, bias = PARTITIONS[partitioning]
    return compute_loss_and_gradients_by_autodiff(
        fused_linear_cross_entropy_in_shard_map,
        *arrays,
        axis="x",
        weight_partition=weight,
        bias_partition=bias,
        local_loss=fused_linear_cross_entropy,
    )


def expect(partitioning: str, mode: str) -> str | dict[str, str]:
    """Returns what the suspicion predicts."""
    if mode in DECLARED:
        return "fresh"
    if mode == Mode.HIDDEN:
        return "hazard"
    return "fresh" if partitioning == "batch" else {"loss": "fresh", "*": "stale"}


CASES = tuple(
    Case(
        name="sharded_flce",
        function=partial(compute_in_shard_map, partitioning) if mode == SHARD_MAP else partial(compute, Mode(mode)),
        args=make_sharded_args(partitioning),
        params=(partitioning, mode) if devices == 8 else (partitioning, mode, devices),
        mesh={"x": devices},
        expected=expect(partitioning, mode),
        reference=compute_reference,
        about="phlippe/liger_kernels: the workaround under a partitioned program",
    )
    for devices in (8, 2)
    for partitioning in PARTITIONS
    for mode in (*Mode, SHARD_MAP)
)
