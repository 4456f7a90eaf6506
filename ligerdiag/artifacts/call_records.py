"""Records of an artifact beside its modules: which readers can be tied to a kernel call, and where the shards of inputs
and outputs lie. Device numbers are the partition ids of the SPMD module.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ligerdiag.codec import (
    FieldError,
    Json,
    encode_record,
    read_record,
    read_str,
)
from ligerdiag.errors import CompileError
from ligerdiag.model.findings import SourceLine

type Range = tuple[int, int]
"""(start, stop) of one dimension, in elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One array over the devices."""

    shape: tuple[int, ...]
    """The whole array's."""
    shards: tuple[tuple[Range, ...], ...]
    """For each device, by partition id, what it holds of each dimension; all of it where the array is replicated."""

    def __post_init__(self) -> None:
        """Raises FieldError where a shard is no part of the array."""
        for shard in self.shards:
            fits = len(shard) == len(self.shape)
            if not fits or any(not 0 <= a <= b <= n for (a, b), n in zip(shard, self.shape, strict=True)):
                raise FieldError(f"expected a part of {list(self.shape)} for `shards` but got {shard!r:.60}")


def compute_placements(
    shapes: Sequence[tuple[int, ...]], shardings: Sequence[Any], devices: Sequence[Any]
) -> tuple[Placement, ...]:
    """Placements of arrays of these shapes under `jax.sharding.Sharding`s; `devices` are in the order of partition ids.

    That order is the device assignment's: of the mesh, flattened. Raises CompileError where XLA has not said how an array is
    split, as without its partitioner.
    """
    return tuple(_compute_placement(s, sharding, devices) for s, sharding in zip(shapes, shardings, strict=True))


def _compute_placement(shape: tuple[int, ...], sharding: Any, devices: Sequence[Any]) -> Placement:
    shape = tuple(int(size) for size in shape)
    find_indices = getattr(sharding, "devices_indices_map", None)
    if find_indices is None:
        raise CompileError(f"XLA does not say how an array of shape {list(shape)} is split over the devices")
    indices = find_indices(shape)
    shards = tuple(
        tuple(_read_slice(part, size) for part, size in zip(indices[device], shape, strict=True)) for device in devices
    )
    return Placement(shape=shape, shards=shards)


def _read_slice(part: slice, size: int) -> Range:
    start, stop, _ = part.indices(size)
    return start, stop


class RefMove(StrEnum):
    """What JAX has done to a Ref while it took a function apart, see `compile.lowering.refs`."""

    OUT_OF_LOOP = "out of loop"
    """It is made and read before the loop, and written in the loop."""
    SHARED = "shared"
    """It is made before the loop, and all iterations have it."""
    DROPPED = "dropped"
    """It is made and read once more, and not written in between."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRef:
    """One read of a Ref that JAX has parted from the write before it."""

    kind: RefMove
    made: SourceLine | None
    """The line that makes the Ref; None where it is not known, as below."""
    read: SourceLine | None
    write: SourceLine | None
    """The line of the kernel call, or of the store."""
    kernel: str
    """The kernel's function name; empty for a store."""
    call: str
    """The name that the kernel call, or the store, has in the trace, see `compile.lowering.call_names`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefStore:
    """A store into a Ref that is no kernel's: `ref[...] = value`."""

    tag: int
    """Of the operation that stands for the stored value, in the program as written and in the one that XLA gets."""
    name: str
    """The same for one place of the user's code."""
    source: SourceLine | None
    """None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieSite:
    """One use, after a kernel call, of a value that the kernel was given; see `readers`.

    Tags are those of the untied program, whatever is tied.
    """

    id: str
    """`<call>.<operand>:<reader>.<reader_operand>`, the tags of the calls `through` before the first: `9/40.0:12.1`."""
    kernel: str
    """The kernel's function name, the custom call's target where it has none."""
    call: int
    """Tag of the kernel's custom call."""
    operand: int
    """Of the kernel call, 0-based."""
    through: tuple[int, ...]
    """Tags of the function calls that lead from the reader's function to the kernel's; empty when it is the same."""
    reader: int
    """Tag of the operation that reads."""
    reader_operand: int
    """Of that operation, 0-based."""
    opcode: str
    """StableHLO's name of the operation."""
    shape: str
    """Of the value that is read, such as `f32[4,32]`."""
    source: SourceLine
    """The innermost frame of the reading operation outside of installed packages; file "" when there is none."""
    untieable: str = ""
    """The reason why no trivial operation can be put here; empty when one can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """All that were found in one program, in program order."""

    found: tuple[TieSite, ...] = ()
    trouble: str = ""
    """The reason why they were not looked for, or not found; empty when they are complete."""


def render_readers(readers: Readers) -> str:
    return json.dumps({"trouble": readers.trouble, "readers": encode_record(readers.found)}, indent=1) + "\n"


def parse_readers(fields: Json) -> Readers:
    """Returns the records of a JSON object; raises FieldError."""
    return Readers(found=read_record(tuple[TieSite, ...], fields, "readers"), trouble=read_str(fields, "trouble"))
