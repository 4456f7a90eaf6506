"""Worker side: the devices that are not there, and the arguments as they lie on them."""

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ligerdiag.case import Arg, Case
from ligerdiag.compile.target import strip_comments
from ligerdiag.errors import InputError

MAXIMUM_DEVICES = 512
MAXIMUM_PER_HOST = 8


def build_mesh(axes: Mapping[str, int], description: str) -> Mesh:
    """Returns the case's mesh over devices of the described target; one device where `axes` is empty."""
    sizes = dict(axes) or {"x": 1}
    for axis, size in sizes.items():
        if size < 1:
            raise InputError(f"expected at least one device on mesh axis `{axis}` but got {size}")
    devices = prod(sizes.values())
    if devices > MAXIMUM_DEVICES:
        raise InputError(f"expected a mesh of at most {MAXIMUM_DEVICES} devices but got {devices}")
    topology = _build_topology(compute_topology_name(devices), strip_comments(description))
    return Mesh(np.array(topology.devices).reshape(tuple(sizes.values())), tuple(sizes))


def compute_topology_name(devices: int) -> str:
    """`hosts x GPUs per host x 1`, as many per host as fit."""
    per_host = next(count for count in range(min(devices, MAXIMUM_PER_HOST), 0, -1) if devices % count == 0)
    return f"{devices // per_host}x{per_host}x1"


def build_argument_specs(case: Case, mesh: Mesh) -> tuple[Any, ...]:
    """Returns the case's arguments as shapes with shardings; InputError where one does not fit the mesh."""
    tree_util: Any = jax.tree_util
    leaves, structure = tree_util.tree_flatten(case.args)
    specs = [_build_spec(case, number, leaf, mesh) for number, leaf in enumerate(leaves)]
    return tree_util.tree_unflatten(structure, specs)


def compute_donated(case: Case) -> tuple[int, ...]:
    """Positions of the arguments that are donated; InputError when only a part of one is."""
    donated: list[int] = []
    for position, value in enumerate(case.args):
        leaves = jax.tree_util.tree_leaves(value)
        flags = {leaf.donate for leaf in leaves if isinstance(leaf, Arg)}
        if flags == {True, False}:
            raise InputError(f"case `{case.id}` donates a part of argument {position}: donate all of it, or nothing")
        if flags == {True}:
            donated.append(position)
    return tuple(donated)


def _build_spec(case: Case, number: int, arg: object, mesh: Mesh) -> jax.ShapeDtypeStruct:
    place = f"array {number} of case `{case.id}`"
    if not isinstance(arg, Arg):
        raise InputError(f"expected an Arg for {place} but got a {type(arg).__name__}")
    try:
        dtype = jax.numpy.dtype(arg.dtype)
    except TypeError as error:
        raise InputError(f"expected a dtype for {place} but got `{arg.dtype}`") from error
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise InputError(f"`{arg.dtype}` for {place} needs JAX_ENABLE_X64=1")
    _check_partition(place, arg, mesh)
    sharding = NamedSharding(mesh, PartitionSpec(*arg.partition))
    weak: dict[str, Any] = {"weak_type": True} if arg.weak else {}  # what JAX of 2024 does not know
    return jax.ShapeDtypeStruct(tuple(arg.shape), dtype, sharding=sharding, **weak)


def _check_partition(place: str, arg: Arg, mesh: Mesh) -> None:
    if len(arg.partition) > len(arg.shape):
        raise InputError(f"{place} has {len(arg.shape)} dimensions but a partition for {len(arg.partition)}")
    used: set[str] = set()
    for dimension, (size, part) in enumerate(zip(arg.shape, arg.partition, strict=False)):
        axes = () if part is None else (part,) if isinstance(part, str) else tuple(part)
        for axis in axes:
            if axis not in mesh.shape:
                known = ", ".join(f"`{name}`" for name in mesh.shape)
                raise InputError(f"{place} is split over the unknown mesh axis `{axis}`: the mesh has {known}")
            if axis in used:
                raise InputError(f"{place} is split over mesh axis `{axis}` twice")
            used.add(axis)
        count = prod(mesh.shape[axis] for axis in axes)
        if size % count:
            raise InputError(f"dimension {dimension} of {place} is {size} and cannot be split over {count} devices")


@lru_cache(maxsize=8)
def _build_topology(name: str, description: str) -> Any:
    library: Any = topologies
    return library.get_topology_desc(topology_name=name, platform="cuda", topology=name, target_config=description)
