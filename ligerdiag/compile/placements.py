"""The placement of the shards of a program's inputs and outputs. Device numbers are the partition ids of the SPMD
module."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ligerdiag.compile.fields import FieldError, Json, as_int, as_list, as_object, read_ints, read_list
from ligerdiag.errors import CompileError

type Range = tuple[int, int]
"""(start, stop) of one dimension, in elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One array over the devices."""

    shape: tuple[int, ...]
    """The whole array's."""
    shards: tuple[tuple[Range, ...], ...]
    """For each device, by partition id, what it holds of each dimension; all of it where the array is replicated."""


def compute_placements(
    shapes: Sequence[tuple[int, ...]], shardings: Sequence[Any], devices: Sequence[Any]
) -> tuple[Placement, ...]:
    """Placements of arrays of these shapes under `jax.sharding.Sharding`s; `devices` are in the order of partition ids.

    That order is the device assignment's: of the mesh, flattened. Raises CompileError where XLA has not said how an array is
    split, as without its partitioner.
    """
    return tuple(_compute_placement(s, sharding, devices) for s, sharding in zip(shapes, shardings, strict=True))


def parse_placements(items: list[object]) -> tuple[Placement, ...]:
    """Returns the records of a JSON array; FieldError when they are not what was expected."""
    return tuple(_parse_placement(as_object(item, "placement")) for item in items)


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


def _parse_placement(fields: Json) -> Placement:
    shape = read_ints(fields, "shape")
    shards = tuple(_parse_shard(as_list(shard, "shards"), shape) for shard in read_list(fields, "shards"))
    return Placement(shape=shape, shards=shards)


def _parse_shard(items: list[object], shape: tuple[int, ...]) -> tuple[Range, ...]:
    ranges: list[Range] = []
    for item in items:
        pair = [as_int(bound, "shards") for bound in as_list(item, "shards")]
        if len(pair) != 2:
            raise FieldError(f"expected start and stop for `shards` but got {pair!r:.60}")
        ranges.append((pair[0], pair[1]))
    if len(ranges) != len(shape) or any(not 0 <= a <= b <= n for (a, b), n in zip(ranges, shape, strict=True)):
        raise FieldError(f"expected a part of {list(shape)} for `shards` but got {items!r:.60}")
    return tuple(ranges)
