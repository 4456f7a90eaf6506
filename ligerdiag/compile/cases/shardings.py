"""Reads the shardings of arrays, and the `in_shardings` and `out_shardings` of a `jax.jit`. The `in_shardings` become the
shardings of the case's arguments.

A `jax.jit` with `in_shardings` moves its arguments into these shardings before the program starts. So ligerdiag compiles the
program with arguments that have these shardings already. The `jax.jit` itself stays around the function, so that its
`out_shardings` apply to the results. The mesh comes from the shardings; its devices need not exist.

This module imports neither jax nor NumPy, because the caller's process imports it.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg

SPECS = ("PartitionSpec", "P")
"""Names of the class `jax.sharding.PartitionSpec` in the versions of JAX."""
IN, OUT = "in_shardings", "out_shardings"


def has_shardings(jitted: Any) -> bool:
    """Returns whether the `jax.jit` of this function was given shardings."""
    return any(not _is_open(leaf) for name in (IN, OUT) for leaf in _list_leaves(jitted, name))


def read_shardings(jitted: Any) -> dict[str, Any]:
    """Returns the options `in_shardings` and `out_shardings` of the function's `jax.jit`, as far as they were given.
    Raises InputError for a sharding that names devices instead of axes of a mesh.
    """
    return {
        name: _unflatten(jitted, name)
        for name in (IN, OUT)
        if any(not _is_open(leaf) for leaf in _list_leaves(jitted, name))
    }


def list_meshes(jitted: Any) -> Iterator[tuple[Mapping[str, int], tuple[str, ...]]]:
    """Yields the mesh of each sharding of the function's `jax.jit`: (size by axis, axes of the type Explicit)."""
    for name in (IN, OUT):
        for leaf in _list_leaves(jitted, name):
            mesh = getattr(leaf, "mesh", None)
            if mesh is not None and mesh.shape:
                yield {str(axis): int(size) for axis, size in mesh.shape.items()}, list_explicit_axes(mesh)


def place_arguments(jitted: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Completes the arguments from the `in_shardings` of the function's `jax.jit`. An `Arg` without a partition or kind
    of memory gets it from there.

    arguments: the positional arguments that are not static, each a pytree of `Arg`. Raises InputError if the shardings
    do not fit the arguments.
    """
    given = read_shardings(jitted).get(IN)
    if given is None:
        return tuple(arguments)
    tree: Any = importlib.import_module("jax").tree_util

    def place(sharding: Any, part: Any) -> Any:
        spec = getattr(sharding, "spec", sharding)
        partition = () if spec is None else read_partition(spec)
        return tree.tree_map(partial(_place, partition, read_memory(sharding)), part)

    try:
        placed = tree.tree_map(place, given, tuple(arguments), is_leaf=_is_open)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the in_shardings of `{jitted.__name__}` do not fit its arguments: {reason:.300}") from None
    return cast("tuple[Any, ...]", placed)


def read_partition(spec: Any) -> tuple[Any, ...]:
    """Returns a `PartitionSpec` as the partition of an `Arg`. It has one entry for each dimension: the mesh axis or the
    tuple of mesh axes that splits it, or None. Raises InputError for any other entry, such as UNCONSTRAINED.
    """
    partition: list[Any] = []
    for part in spec:
        if part is not None and not isinstance(part, str | tuple):
            raise InputError(f"expected mesh axes in the sharding `{spec}` but got `{part}`")
        partition.append(part)
    return tuple(partition)


def read_memory(sharding: Any) -> str:
    """Returns the kind of memory that a sharding names, such as `pinned_host`. Returns an empty string if it is the
    usual memory of the devices.
    """
    kind = getattr(sharding, "memory_kind", None)
    return "" if kind in (None, "device", "unpinned_host") else str(kind)


def list_explicit_axes(mesh: Any) -> tuple[str, ...]:
    """Returns the axes of a mesh that have JAX's type Explicit. Returns an empty tuple if this JAX has no types of
    axes.
    """
    types = getattr(mesh, "axis_types", None)
    if not isinstance(types, tuple):
        return ()
    pairs = zip(mesh.axis_names, cast("tuple[Any, ...]", types), strict=True)
    return tuple(str(axis) for axis, kind in pairs if getattr(kind, "name", "") == "Explicit")


def _place(partition: tuple[Any, ...], memory: str, arg: Arg) -> Arg:
    return replace(arg, partition=arg.partition or partition, memory=arg.memory or memory)


def _is_open(leaf: object) -> bool:
    """Whether the leaf of a tree of shardings leaves the choice to JAX."""
    return leaf is None or type(leaf).__name__ == "UnspecifiedValue"


def _list_leaves(jitted: Any, name: str) -> tuple[Any, ...]:
    return getattr(jitted._jit_info, f"{name}_leaves", ())


def _unflatten(jitted: Any, name: str) -> Any:
    leaves = _list_leaves(jitted, name)
    for leaf in leaves:
        if not _is_open(leaf) and not hasattr(leaf, "spec") and type(leaf).__name__ not in SPECS:
            raise InputError(
                f"`{jitted.__name__}` has a `{type(leaf).__name__}` in its {name}, and ligerdiag compiles for devices "
                "that"
                " are not here: expected a `NamedSharding`, for example on a `jax.sharding.AbstractMesh`"
            )
    tree = getattr(jitted._jit_info, f"{name}_treedef")
    return tree.unflatten([None if _is_open(leaf) else leaf for leaf in leaves])
