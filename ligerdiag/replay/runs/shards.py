"""Groups the devices of collectives, and splits arrays into shards and joins them again, as at the edges of a
shard_map.

The devices of a group take part in a collective together. A module with several replicas is not covered, so a device is
a partition of the only replica. The meaning of the ids in the groups depends on the collective:

- Without a channel they are replicas. There is only one, so each device is alone.
- With a channel, all-reduce, all-gather and reduce-scatter say by `use_global_device_ids` whether the ids are devices.
  If not, they are replicas, and all partitions of the only replica form one group.
- With a channel, the ids of all other collectives are partitions. An empty list of groups means one group of all
  devices.

Groups come as a list, as an iota that is reshaped and transposed, or as axes of a mesh, of which the last one named
moves fastest. XLA's own rules: xla/service/collective_ops_utils, xla/hlo/ir/replica_group.

At the edges of a shard_map, a whole array becomes one shard for each device, and shards become a whole array again. A
shard is a piece of the array, and a body that returns all shards unchanged returns the array. JAX writes the edges as
custom calls with the shardings of their values in shardy's syntax. For example, `#sdy.sharding_per_value<[<@mesh,
[{"x"}, {}]>, …]>` gives for each dimension the mesh axes that split it, the major one first. Not covered: axes that
stay automatic, parts of axes, meshes with their own order of devices.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from ligerdiag.artifacts.call_records import Placement
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import (
    HloInstructionProto,
    IotaReplicaGroupListProto,
    MeshAxesReplicaGroupListProto,
    MeshProto,
)
from ligerdiag.replay.ops.dtypes import have_same_bits
from ligerdiag.replay.ops.scope import (
    Array,
    Cell,
    Cells,
    NotCoveredError,
    Shard,
    Spread,
    Value,
    count_devices,
    pick_cells,
    read_cells,
)

type Groups = tuple[tuple[int, ...], ...]
"""The numbers of the devices in each group, in the order in which the group's data are combined."""

MAX_DEVICES = 1 << 20
"""Number of devices that no machine exceeds; an artifact with more is damaged."""

_MAY_NAME_DEVICES = having(Trait.NAMES_DEVICES)


def check_replicas(module: HloModule) -> None:
    """Raises NotCoveredError for a module that runs in several replicas."""
    if module.replica_count > 1:
        raise NotCoveredError(f"a module that runs in {module.replica_count} replicas")


def compute_groups(instruction: HloInstruction, devices: int) -> Groups:
    """Returns the groups of devices that take part in a collective together. A collective-permute must not be passed,
    because it has pairs of devices instead of groups.

    devices: number of devices of the program.

    Raises:
        NotCoveredError: if the groups name more than one replica.
        ArtifactError: if a device is missing or in two groups.
    """
    listed = parse_groups(instruction.proto)
    everybody = tuple(range(devices))
    if not names_partitions(instruction):
        if any(id_ for group in listed for id_ in group):
            raise NotCoveredError("collectives among replicas")
        return (everybody,) if instruction.proto.channel_id else tuple((device,) for device in everybody)
    if not listed:
        if instruction.proto.use_global_device_ids:
            raise ArtifactError(f"`{instruction.name}` sets `use_global_device_ids`, but lists no groups of devices")
        return (everybody,)
    named = [device for group in listed for device in group]
    if max(named) >= devices:
        raise NotCoveredError(
            f"a collective that names device {max(named)} in a program for devices 0 to {devices - 1}"
        )
    # a broadcast may leave out devices, which get zeros; the others need all devices
    if len(set(named)) != len(named) or (len(named) != devices and instruction.opcode != "collective-broadcast"):
        raise ArtifactError(f"the groups of `{instruction.name}` do not list each of {devices} devices exactly once")
    return listed


def names_partitions(instruction: HloInstruction) -> bool:
    """Returns whether the ids in a collective's groups are partition ids rather than replica ids."""
    proto = instruction.proto
    if proto.use_global_device_ids and not proto.channel_id:
        raise ArtifactError(f"`{instruction.name}` sets `use_global_device_ids`, but has no channel")
    if instruction.opcode in _MAY_NAME_DEVICES:
        return proto.use_global_device_ids
    return bool(proto.channel_id)


def parse_groups(proto: HloInstructionProto) -> Groups:
    """Returns the groups of ids that a collective lists, in any of XLA's formats. Returns an empty tuple if it lists
    none.
    """
    if proto.HasField("iota_collective_device_list"):
        return _expand_iota(proto.iota_collective_device_list)
    if proto.collective_device_list.HasField("iota_replica_group_list"):
        return _expand_iota(proto.collective_device_list.iota_replica_group_list)
    if proto.HasField("mesh_axes_replica_group_list"):
        return _expand_axes(proto.mesh_axes_replica_group_list)
    listed = proto.collective_device_list.replica_groups or proto.replica_groups
    return tuple(tuple(group.replica_ids) for group in listed if group.replica_ids)


def _expand_iota(proto: IotaReplicaGroupListProto) -> Groups:
    groups, each = proto.num_replica_groups, proto.num_devices_per_group
    ids = _transpose_iota(proto.iota_reshape_dims, proto.iota_transpose_perm)
    if ids.size != groups * each:
        raise ArtifactError(
            f"{groups} groups of {each} devices should list {groups * each} device ids, but list {ids.size}"
        )
    return _split_rows(ids.reshape(groups, each))


def _expand_axes(proto: MeshAxesReplicaGroupListProto) -> Groups:
    """Returns the groups of devices that lie along the named axes of a mesh.

    Cuts the mesh so that each axis, or part of one, is a dimension, and moves the named ones last, in the order of
    their names: each row is a group.
    """
    sizes = [axis.size for axis in proto.mesh.axes]
    cuts: dict[int, set[int]] = {}
    """Maps an axis number to the places at which the axis is cut, products of its leading factors."""
    wanted: list[tuple[int, int, int]] = []
    """For each wanted part of an axis: the axis number, the product of the factors before the part, and the part's size."""
    for axis in proto.axes:
        number = axis.mesh_axis_index
        if number >= len(sizes):
            raise ArtifactError(f"a replica group names mesh axis {number}, but the mesh has {len(sizes)} axes")
        before, size = 1, sizes[number]
        if axis.HasField("sub_axis_info"):
            before, size = axis.sub_axis_info.pre_size, axis.sub_axis_info.size
        cuts.setdefault(number, {1, sizes[number]}).update((before, before * size))
        wanted.append((number, before, size))
    dimensions: list[int] = []
    position: dict[tuple[int, int, int], int] = {}
    for number, size in enumerate(sizes):
        ladder = sorted(cuts.get(number, {1, size}))
        if ladder[0] < 1 or ladder[-1] != size or any(later % earlier for earlier, later in pairwise(ladder)):
            raise ArtifactError(
                f"a replica group splits mesh axis {number} ({size} devices) at {ladder}, but each of these numbers "
                "must divide the next"
            )
        for before, after in pairwise(ladder):
            position[number, before, after // before] = len(dimensions)
            dimensions.append(after // before)
    # an axis of one device has no dimension, and needs none
    last = [position.get(key, -1) for key in wanted if key[2] != 1]
    if -1 in last or len(set(last)) != len(last):
        raise ArtifactError("the axes of a replica group overlap")
    first = [d for d in range(len(dimensions)) if d not in last]
    each = math.prod(dimensions[d] for d in last)
    return _split_rows(_place_on_mesh(proto.mesh).reshape(dimensions).transpose(first + last).reshape(-1, each))


def _place_on_mesh(mesh: MeshProto) -> Array:
    """Returns the device numbers of a mesh as a flat array, in row-major order of its axes."""
    total = math.prod(axis.size for axis in mesh.axes)
    ids: Array
    if mesh.device_ids:
        ids = np.array(mesh.device_ids)
    elif mesh.HasField("iota_transform"):
        ids = _transpose_iota(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm)
    else:
        ids = _transpose_iota([total], [0])
    if ids.size != total:
        raise ArtifactError(f"a mesh of {total} devices should list {total} device ids, but lists {ids.size}")
    return ids.reshape(-1)


def _transpose_iota(dimensions: Sequence[int], permutation: Sequence[int]) -> Array:
    if sorted(permutation) != list(range(len(dimensions))):
        raise ArtifactError(
            f"expected a permutation of the {len(dimensions)} dimensions of the device ids but got {list(permutation)}"
        )
    if not 0 < math.prod(dimensions) <= MAX_DEVICES:
        raise ArtifactError(f"expected 1 to {MAX_DEVICES} device ids but got {math.prod(dimensions)}")
    return np.arange(math.prod(dimensions)).reshape(dimensions).transpose(permutation)


def _split_rows(ids: Array) -> Groups:
    return tuple(tuple(int(id_) for id_ in row) for row in ids)


def take_shard(array: Array, placement: Placement, device: int) -> Array:
    """Returns the shard of the array on this device, a partition id. Raises ArtifactError if the array and the
    placement have different shapes.
    """
    if array.shape != placement.shape:
        raise ArtifactError(
            f"an argument has the shape {list(array.shape)} but was compiled for {list(placement.shape)}"
        )
    return array[tuple([slice(start, stop) for start, stop in placement.shards[device]])]


def join_shards(shards: Sequence[Array], placement: Placement) -> Array:
    """Joins the shards of all devices to the whole array. If several devices have a copy of a part, the first device's
    copy counts, as in a `jax.Array`.

    shards: one for each device. Raises ArtifactError if a part is missing.
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
        raise ArtifactError(f"no device has some part of an output of shape {list(placement.shape)}")
    return whole


def find_other_copies(shards: Sequence[Array], placement: Placement) -> list[Array]:
    """Finds the devices whose copy of a part differs in bits from the first device's copy. Returns one whole array for
    each of them. It contains this device's copy of the part, and the first copies of all other parts.
    """
    if len(shards) == 1:
        return []
    first: dict[object, Array] = {}
    others: list[Array] = []
    for shard, ranges in zip(shards, placement.shards, strict=True):
        copy = first.setdefault(ranges, shard)
        if not have_same_bits(copy, shard):
            whole = join_shards(shards, placement)
            whole[tuple([slice(start, stop) for start, stop in ranges])] = shard
            others.append(whole)
    return others


_MESH = re.compile(r"([\w$.-]+) = #sdy\.mesh<\[([^\]]*)\](, [^>]*)?>")
_AXIS = re.compile(r'"([^"]+)"=(\d+)')
_VALUE = re.compile(r"<@([\w$.-]+), \[((?:\{[^{}]*\}(?:, )?)*)\]([^<>]*)>")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r'"([^"]+)"')


@dataclass(frozen=True, slots=True)
class _Sharding:
    axes: dict[str, int]
    """Maps the name of each mesh axis to its size, in the mesh's order."""
    dimensions: tuple[tuple[str, ...], ...]
    """For each dimension of the array, the mesh axes that split it, the major one first."""

    def place(self, shape: tuple[int, ...]) -> Placement:
        """Returns the placement of an array of this shape. Devices are numbered in the mesh's row-major order."""
        sizes = tuple(self.axes.values())
        shards: list[tuple[tuple[int, int], ...]] = []
        for device in range(prod(sizes)):
            place = dict(zip(self.axes, np.unravel_index(device, sizes), strict=True))
            ranges: list[tuple[int, int]] = []
            for size, axes in zip(shape, self.dimensions, strict=True):
                part, parts = 0, 1
                for axis in axes:
                    part, parts = part * self.axes[axis] + int(place[axis]), parts * self.axes[axis]
                if size % parts:
                    raise NotCoveredError("a shard_map that splits a dimension into unequal parts")
                ranges.append((part * (size // parts), (part + 1) * (size // parts)))
            shards.append(tuple(ranges))
        return Placement(shape=shape, shards=tuple(shards))


def split(module: HloModule, entry: HloInstruction, operands: Sequence[Cells]) -> Cells:
    """Splits each array that enters a shard_map into one shard per device, and returns the shards."""
    spread: dict[tuple[int, Placement], Spread] = {}
    found: list[Cells] = []
    for whole, sharding in zip(operands, _parse_shardings(module, entry, "xla.sdy.in_shardings"), strict=True):
        if not isinstance(whole, Cell):
            raise ArtifactError("expected arrays as the values that enter or leave a shard_map but got a tuple")
        placement = sharding.place(whole.array.shape)
        key = id(whole), placement
        if key not in spread:
            spread[key] = Spread(tuple([_cut(whole, placement, d) for d in range(len(placement.shards))]))
        found.append(spread[key])
    return tuple(found) if entry.shape.tuple_shapes else found[0]


def _cut(whole: Cell, placement: Placement, device: int) -> Shard:
    ranges = placement.shards[device]
    return Shard(
        array=take_shard(whole.array, placement, device),
        whole=whole,
        where=tuple([slice(start, stop) for start, stop in ranges]),
        is_first=ranges not in placement.shards[:device],
    )


def join(module: HloModule, leave: HloInstruction, operands: Sequence[Cells]) -> Cells:
    """Joins the devices' parts of each value that leaves a shard_map to a whole array. If several devices have a copy
    of a part, the first device's copy counts.
    """
    shapes = list(leave.shape.tuple_shapes) or [leave.shape]
    joined: list[Cells] = []
    for operand, shape, sharding in zip(
        operands, shapes, _parse_shardings(module, leave, "xla.sdy.out_shardings"), strict=True
    ):
        placement = sharding.place(tuple(shape.dimensions))
        if (whole := _find_whole(operand, placement)) is not None:
            joined.append(whole)
            continue
        devices = count_devices(operand)
        shards = _list_arrays([read_cells(pick_cells(operand, d)) for d in range(len(placement.shards))])
        if devices and devices != len(placement.shards):
            raise ArtifactError(
                f"`{leave.name}` has a sharding over {len(placement.shards)} devices, but joins the values of {devices}"
            )
        joined.append(Cell(join_shards(shards, placement)))
    return tuple(joined) if leave.shape.tuple_shapes else joined[0]


def _find_whole(operand: Cells, placement: Placement) -> Cell | None:
    """Returns the cell of a whole array if the operand consists of all shards of that array, each in its own place;
    None otherwise.
    """
    if not isinstance(operand, Spread) or len(operand.cells) != len(placement.shards):
        return None
    shards = [one for one in operand.cells if isinstance(one, Shard)]
    whole = shards[0].whole if len(shards) == len(operand.cells) else None
    for shard, ranges in zip(shards, placement.shards, strict=False):
        if shard.whole is not whole or shard.where != tuple([slice(start, stop) for start, stop in ranges]):
            return None
    return whole


def _parse_shardings(module: HloModule, edge: HloInstruction, name: str) -> list[_Sharding]:
    meshes = {mesh[1]: mesh for mesh in _MESH.finditer(module.frontend_attributes.get("xla.sdy.meshes", ""))}
    attributes = edge.proto.frontend_attributes.map
    manual = set(_NAME.findall(attributes.get("xla.sdy.manual_axes", "")))
    found: list[_Sharding] = []
    for value in _VALUE.finditer(attributes.get(name, "")):
        mesh = meshes.get(value[1])
        if mesh is None or mesh[3] or ":" in value[2] or "unreduced" in value[3]:
            raise NotCoveredError(f"a shard_map with a sharding that replay does not understand: `{value[0]}`")
        axes = {axis: int(size) for axis, size in _AXIS.findall(mesh[2])}
        dimensions = tuple(tuple(_NAME.findall(one)) for one in _DIMENSION.findall(value[2]))
        if manual != set(axes) or any(axis not in axes for one in dimensions for axis in one):
            raise NotCoveredError("a shard_map over only some axes of its mesh")
        found.append(_Sharding(axes, dimensions))
    if len(found) != len(edge.operands):
        raise NotCoveredError(
            f"a shard_map with {len(found)} shardings for {len(edge.operands)} values (`{edge.name}`)"
        )
    return found


def _list_arrays(values: Sequence[Value]) -> list[Array]:
    arrays = [value for value in values if not isinstance(value, tuple)]
    if len(arrays) != len(values):
        raise ArtifactError("expected arrays as the values that enter or leave a shard_map but got a tuple")
    return arrays
