"""The edges of a shard_map in program order: from one array to each device's shard, and back.

JAX writes them as the custom calls below, with the shardings of their values in shardy's own words:
`#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, …]>` gives for each dimension the mesh axes that it is split over, the major
one first.
Not covered: axes that stay automatic, parts of axes, meshes with an order of devices of their own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ligerdiag.compile.placements import Placement
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.replay.cells import Cell, Cells, Spread, count_devices, pick_cells, read_cells
from ligerdiag.replay.opcodes.scope import Array, NotCoveredError, Value
from ligerdiag.replay.shards import join_shards, take_shard

ENTRY, EXIT = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
EDGES = frozenset({ENTRY, EXIT})

_MESH = re.compile(r"([\w$.-]+) = #sdy\.mesh<\[([^\]]*)\](, [^>]*)?>")
_AXIS = re.compile(r'"([^"]+)"=(\d+)')
_VALUE = re.compile(r"<@([\w$.-]+), \[((?:\{[^{}]*\}(?:, )?)*)\]([^<>]*)>")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r'"([^"]+)"')


@dataclass(frozen=True, slots=True)
class _Sharding:
    axes: dict[str, int]
    """Axis name to size, in the mesh's order."""
    dimensions: tuple[tuple[str, ...], ...]
    """For each dimension the axes that it is split over."""

    def place(self, shape: tuple[int, ...]) -> Placement:
        """Returns the placement of the shards of an array of this shape; a device's number is its place in the mesh,
        last axis fastest."""
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
                    raise NotCoveredError("shard_map over a dimension that its axes do not divide")
                ranges.append((part * (size // parts), (part + 1) * (size // parts)))
            shards.append(tuple(ranges))
        return Placement(shape=shape, shards=tuple(shards))


def split(module: HloModule, entry: HloInstruction, values: Sequence[Value]) -> Cells:
    """Each operand as every device has it inside of the shard_map."""
    spread: list[Cells] = []
    for value, sharding in zip(
        _list_arrays(values), _parse_shardings(module, entry, "xla.sdy.in_shardings"), strict=True
    ):
        placement = sharding.place(value.shape)
        spread.append(Spread(tuple([Cell(take_shard(value, placement, d)) for d in range(len(placement.shards))])))
    return tuple(spread) if entry.shape.tuple_shapes else spread[0]


def join(module: HloModule, leave: HloInstruction, operands: Sequence[Cells]) -> Cells:
    """Each operand as one array again; of several copies of a part the first device's counts."""
    shapes = list(leave.shape.tuple_shapes) or [leave.shape]
    joined: list[Cells] = []
    for operand, shape, sharding in zip(
        operands, shapes, _parse_shardings(module, leave, "xla.sdy.out_shardings"), strict=True
    ):
        placement = sharding.place(tuple(shape.dimensions))
        devices = count_devices(operand)
        shards = _list_arrays([read_cells(pick_cells(operand, d)) for d in range(len(placement.shards))])
        if devices and devices != len(placement.shards):
            raise ArtifactError(f"`{leave.name}` joins the values of {devices} devices over {len(placement.shards)}")
        joined.append(Cell(join_shards(shards, placement)))
    return tuple(joined) if leave.shape.tuple_shapes else joined[0]


def _parse_shardings(module: HloModule, edge: HloInstruction, name: str) -> list[_Sharding]:
    meshes = {mesh[1]: mesh for mesh in _MESH.finditer(module.frontend_attributes.get("xla.sdy.meshes", ""))}
    attributes = edge.proto.frontend_attributes.map
    manual = set(_NAME.findall(attributes.get("xla.sdy.manual_axes", "")))
    found: list[_Sharding] = []
    for value in _VALUE.finditer(attributes.get(name, "")):
        mesh = meshes.get(value[1])
        if mesh is None or mesh[3] or ":" in value[2] or "unreduced" in value[3]:
            raise NotCoveredError(f"shard_map with the sharding `{value[0]}`")
        axes = {axis: int(size) for axis, size in _AXIS.findall(mesh[2])}
        dimensions = tuple(tuple(_NAME.findall(one)) for one in _DIMENSION.findall(value[2]))
        if manual != set(axes) or any(axis not in axes for one in dimensions for axis in one):
            raise NotCoveredError("shard_map over a part of the mesh's axes")
        found.append(_Sharding(axes, dimensions))
    if len(found) != len(edge.operands):
        raise NotCoveredError(f"shard_map whose shardings do not say where its values lie (`{edge.name}`)")
    return found


def _list_arrays(values: Sequence[Value]) -> list[Array]:
    arrays = [value for value in values if not isinstance(value, tuple)]
    if len(arrays) != len(values):
        raise ArtifactError("an edge of a shard_map takes a tuple")
    return arrays
