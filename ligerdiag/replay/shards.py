"""From whole arrays to what each device holds of them, and back."""

from collections.abc import Sequence

import numpy as np

from ligerdiag.compile.placements import Placement
from ligerdiag.errors import ArtifactError
from ligerdiag.replay.opcodes.scope import Array


def take_shard(array: Array, placement: Placement, device: int) -> Array:
    """Returns the part of the array on this device, numbered by partition id; raises ArtifactError when it is another
    array."""
    if array.shape != placement.shape:
        raise ArtifactError(f"an argument of shape {list(array.shape)} was compiled as {list(placement.shape)}")
    return array[tuple([slice(start, stop) for start, stop in placement.shards[device]])]


def join_shards(shards: Sequence[Array], placement: Placement) -> Array:
    """Returns the whole array; of several copies of a part the first device's counts, as in a `jax.Array`.

    Raises ArtifactError where a part is missing.
    """
    if len(shards) == 1:
        return shards[0]
    whole = np.empty(placement.shape, shards[0].dtype)
    written = np.zeros(placement.shape, np.bool_)
    for shard, ranges in reversed(list(zip(shards, placement.shards, strict=True))):
        where = tuple([slice(start, stop) for start, stop in ranges])
        whole[where] = shard
        written[where] = True
    if not written.all():
        raise ArtifactError(f"no device holds all parts of an output of shape {list(placement.shape)}")
    return whole


def find_other_copies(shards: Sequence[Array], placement: Placement) -> list[Array]:
    """Returns the whole array once more for each device whose copy of its part has other bits than the first
    device's."""
    first: dict[object, Array] = {}
    others: list[Array] = []
    for shard, ranges in zip(shards, placement.shards, strict=True):
        copy = first.setdefault(ranges, shard)
        if copy.tobytes() != shard.tobytes():
            whole = join_shards(shards, placement)
            whole[tuple([slice(start, stop) for start, stop in ranges])] = shard
            others.append(whole)
    return others
