"""Lists the traits of custom-call targets, as `opcodes` lists the traits of opcodes.

`custom_calls.toml` lists the targets by group and says where each is defined. A target in no group has no trait: its
effects are unknown until the user declares them. NCCL has no targets, because XLA's collectives are instructions.
"""

import re
import tomllib
from collections.abc import Mapping
from enum import Flag, auto
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ligerdiag.hlo.module import HloInstruction

TABLE = Path(__file__).with_suffix(".toml")
ALLOCATES = "AllocateBuffer"
"""Target of the custom call whose result is a buffer that nobody has written (`jax.lax.empty`)."""
PARTITIONED = "CustomSPMDPartitioning"
"""Target of the custom call by which JAX lowers a function with `custom_partitioning`. ligerdiag uses it for the calls
that it lowers itself, too.
"""


class CallTrait(Flag):
    """The traits of custom-call targets. A trait is true of every call of the target; for example, the call only reads its
    operands.
    """

    NONE = 0
    READS_ONLY = auto()
    """The call overwrites no operand, except those that its outputs declare to alias."""
    MADE_BY_XLA = auto()
    """XLA itself rewrites an operation to this call, and XLA's launcher of the call knows every buffer: so
    `fused_aliases` (LD022) does not check the aliases that the call declares inside of a fusion.
    """

    # targets that carry a kernel
    JAX_TRITON = auto()
    """The call's payload is a kernel in the form of jax-triton before 0.4."""
    JAX_TRITON_FFI = auto()
    """The call's payload is a kernel in the form of jax-triton 0.4 and later."""
    PALLAS_TRITON = auto()
    """The call's payload is a kernel in the form of Pallas on Triton."""
    MOSAIC = auto()
    """The call's payload is a Mosaic GPU module, which `effects` can follow."""
    TILE_IR = auto()
    """The call's payload is a kernel of cuTile, with the text of its Tile IR."""
    CUTE = auto()
    """The call's payload is machine code of CuTe DSL, for the host and the GPU, of which only the kernels' names can be
    read.
    """
    UNREAD_MOSAIC = auto()
    """The call's payload is a Mosaic GPU module of an older form, of which only the kernel's name can be read."""
    UNREAD_KERNEL = auto()
    """The call runs code that cannot be read; the note of the target's group in custom_calls.toml gives the reason."""
    KERNEL_BY_NAME = auto()
    """The target's name looks like that of a launcher of kernels."""

    # values: the replay evaluates these
    MATRIX_PRODUCT = auto()
    """The first result is the product of operands 0 and 1; a matrix may be added."""
    TOP_K = auto()
    """The results are the largest elements of each row, and their indices in the row."""
    RADIX_SORT = auto()
    """The results are keys, or keys and values, sorted along the last dimension."""
    THREEFRY = auto()
    """The results are JAX's random bits."""
    ALLOCATES = auto()
    """The result is a buffer that nobody has written."""
    IDENTITY = auto()
    """Result k has the value of operand k."""

    # autotuning
    TUNED_PRODUCT = auto()
    """The call is a product of matrices whose algorithm XLA's autotuner chooses."""
    TUNED_CONVOLUTION = auto()
    """The call is a convolution whose algorithm XLA's autotuner chooses."""

    # partitioning
    MARKER = auto()
    """The call only marks a place in the program, and does nothing at run time, such as `Sharding`."""
    FOR_PARTITIONER = auto()
    """The partitioner reads the call in the program, and removes it."""
    SHARDY = auto()
    """A call of the Shardy partitioner."""
    ENTERS_SHARDS = auto()
    """Result k is the part of operand k that the device holds: the call enters a shard_map."""
    LEAVES_SHARDS = auto()
    """Result k is the whole array of which operand k is the device's part: the call leaves a shard_map."""
    CUSTOM_PARTITIONING = auto()
    """The call runs a function that JAX's `custom_partitioning` partitions."""

    CARRIES_TRITON = JAX_TRITON | JAX_TRITON_FFI | PALLAS_TRITON
    """The call's payload holds a kernel in Triton IR."""
    SHARD_EDGE = ENTERS_SHARDS | LEAVES_SHARDS
    """Result k is operand k in another sharding: the call is at the edge of a shard_map."""


def read_table() -> None:
    """Reads the table of custom-call targets now, and not at the first question: for a process that forks others."""
    _load_traits()


@lru_cache(maxsize=4096)
def find_traits(target: str) -> CallTrait:
    """Returns the traits of a custom-call target."""
    exact, patterns = _load_traits()
    found = exact.get(target, CallTrait.NONE)
    for pattern, traits in patterns:
        if pattern.fullmatch(target):
            found |= traits
    return found


def has_trait(target: str, traits: CallTrait) -> bool:
    """Returns whether the target has at least one of the traits."""
    return bool(find_traits(target) & traits)


def is_call_with(instruction: HloInstruction, traits: CallTrait) -> bool:
    """Returns whether the instruction is a custom call whose target has at least one of the traits."""
    return instruction.opcode == "custom-call" and has_trait(instruction.proto.custom_call_target, traits)


@cache
def load_notes() -> Mapping[str, str]:
    """Returns why the effects of some targets cannot be read, by target. All other targets are left out."""
    return {target: group["note"] for group in load_groups() if "note" in group for target in group["targets"]}


def load_groups() -> list[dict[str, Any]]:
    """Returns the `[[group]]` entries of custom_calls.toml, as they are parsed."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["group"]


@cache
def _load_traits() -> tuple[Mapping[str, CallTrait], tuple[tuple[re.Pattern[str], CallTrait], ...]]:
    """Returns the traits by the name of each target, and a list of (pattern, traits) for targets that are known by a
    pattern.
    """
    exact, patterns = dict[str, CallTrait](), list[tuple[re.Pattern[str], CallTrait]]()
    for group in load_groups():
        traits = CallTrait.NONE
        for name in group["traits"]:
            traits |= CallTrait[name.replace("-", "_").upper()]
        for target in group.get("targets", ()):
            exact[target] = exact.get(target, CallTrait.NONE) | traits
        patterns += [(re.compile(pattern, re.ASCII | re.DOTALL), traits) for pattern in group.get("patterns", ())]
    return exact, tuple(patterns)
