"""The seed's warning: the trivial operations are "not robust and fail for training a LLM like Llama on multi-GPU
setups" (https://github.com/phlippe/liger_kernels).

The suspicion: where the vocabulary or the parameters are split over the devices, the partitioner gathers the logits
into a temporary copy for the kernel. The kernel overwrites the copy; every reader, duly ordered after the kernel, reads
the shard that it was gathered from. Split over the batch alone nothing is gathered. Eight devices on one axis, `x`, or
two, where the id ends in 2:

- `batch`: input, targets and mask split over the batch, parameters replicated
- `vocabulary`: weight and bias split over the vocabulary, the rest replicated
- `fsdp`: weight split over the embedding, bias over the vocabulary, input, targets and mask over the batch
"""

from dataclasses import replace
from functools import partial

from cases.seed_flce import compute, compute_reference, make_args
from kernels.fused_linear_cross_entropy.shapes import SHARDED
from kernels.modes import Mode
from ligerdiag.case import Arg, Case

PARTITIONS = {
    "batch": (("x",), ("x",), ("x",), (), ()),
    "vocabulary": ((), (), (), (None, "x"), ("x",)),
    "fsdp": (("x",), ("x",), ("x",), ("x", None), ("x",)),
}
"""For input, targets, mask, weight and bias, the mesh axis of each leading dimension."""


def make_sharded_args(partitioning: str) -> tuple[Arg, ...]:
    """Returns the seed's arguments in f32 with bias, split over the mesh as `PARTITIONS` says."""
    args = make_args(SHARDED, dtype="float32", bias=True)
    return tuple(
        replace(arg, partition=partition) for arg, partition in zip(args, PARTITIONS[partitioning], strict=True)
    )


def expect(partitioning: str, mode: Mode) -> str | dict[str, str]:
    """Returns what the suspicion predicts."""
    if mode is Mode.ALIASED:
        return "fresh"
    if mode is Mode.HIDDEN:
        return "hazard"
    return "fresh" if partitioning == "batch" else {"loss": "fresh", "*": "stale"}


CASES = tuple(
    Case(
        name="sharded_flce",
        function=partial(compute, mode),
        args=make_sharded_args(partitioning),
        params=(partitioning, mode) if devices == 8 else (partitioning, mode, devices),
        mesh={"x": devices},
        expected=expect(partitioning, mode),
        reference=compute_reference,
        about="phlippe/liger_kernels: the workaround under a partitioned program",
    )
    for devices in (8, 2)
    for partitioning in PARTITIONS
    for mode in (Mode.HIDDEN, Mode.TRIVIAL, Mode.ALIASED)
)
