"""Turns a case's arguments into arrays on a mesh of the target, and names the program's inputs and outputs. Runs in a
worker.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ligerdiag.compile.cases.array_records import draw_values, is_key
from ligerdiag.compile.cases.known_fields import build_topology
from ligerdiag.compile.cases.live_functions import name_arguments
from ligerdiag.errors import CaseError, InputError, describe_fault
from ligerdiag.model.case import Arg, Case, Draw, Values
from ligerdiag.toolchains.text_format import strip_comments


def compute_output_names(tree: Any) -> tuple[str, ...]:
    """Names each output array in the tree. The name is `loss` for {"loss": ...} and `grads.w` for {"grads": {"w":
    ...}}. It is `0` for the first array of a tuple, and `output` for a single array.
    """
    return make_unique([_join(path) or "output" for path in _compute_paths(tree)])


def compute_input_names(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, ...]:
    """Names each array in the arguments by the function's parameter and the path inside of the argument, such as
    `params.w`. The first array of `*args` is `args.0`.
    """
    names = name_arguments(function, len(args))
    return make_unique([_name_input(names, path) for path in _compute_paths(args)])


def _name_input(names: list[str], path: tuple[Any, ...]) -> str:
    position: int = path[0].idx
    return _join((names[position], *path[1:]))


def _compute_paths(tree: Any) -> list[tuple[Any, ...]]:
    tree_util: Any = jax.tree_util
    leaves, _ = tree_util.tree_flatten_with_path(tree)
    return [path for path, _ in leaves]


def _join(path: tuple[Any, ...]) -> str:
    return ".".join(_name_key(key) for key in path)


def _name_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def make_unique(names: list[str]) -> tuple[str, ...]:
    """Returns the names without duplicates. A name that occurs several times gets a number, as in `x#1` and `x#2`."""
    counts, seen = Counter(names), Counter[str]()
    unique: list[str] = []
    for name in names:
        seen[name] += 1
        unique.append(name if counts[name] == 1 else f"{name}#{seen[name]}")
    return tuple(unique)


MAXIMUM_DEVICES = 512
MAXIMUM_PER_HOST = 8


def build_mesh(axes: Mapping[str, int], description: str, explicit: Sequence[str] = ()) -> Mesh:
    """Returns the case's mesh over devices of the described target. If `axes` is empty, the mesh has one device.

    axes: mesh axis to size. description: the target's `GpuTargetConfigProto` as text, without fields that XLA does not
    know (`known_fields.fit_description`). explicit: the axes that have JAX's type Explicit. Raises InputError if the
    size of an axis is not positive, or the mesh has too many devices.
    """
    sizes = dict(axes) or {"x": 1}
    for axis, size in sizes.items():
        if size < 1:
            raise InputError(f"expected at least one device on mesh axis `{axis}` but got {size}")
    devices = prod(sizes.values())
    if devices > MAXIMUM_DEVICES:
        raise InputError(f"expected a mesh of at most {MAXIMUM_DEVICES} devices but got {devices}")
    topology = build_topology(compute_topology_name(devices), strip_comments(description))
    return arrange_mesh(topology.devices, sizes, explicit)


def arrange_mesh(devices: Sequence[Any], sizes: Mapping[str, int], explicit: Sequence[str]) -> Mesh:
    """Returns a mesh of these devices in row-major order: the last axis varies fastest.

    sizes: mesh axis to size, in order; the product is the number of devices. explicit: the axes that have JAX's type
    Explicit; if there are any, all others have the type Auto.
    """
    library: Any = jax.sharding
    types: dict[str, Any] = {}
    if explicit:
        kinds = library.AxisType
        types["axis_types"] = tuple(kinds.Explicit if axis in explicit else kinds.Auto for axis in sizes)
    return library.Mesh(np.array(devices).reshape(tuple(sizes.values())), tuple(sizes), **types)


def compute_topology_name(devices: int) -> str:
    """Returns XLA's name of a topology with this many devices, `<hosts>x<GPUs per host>x1`. Each host has as many GPUs
    as possible, at most 8.
    """
    per_host = next(count for count in range(min(devices, MAXIMUM_PER_HOST), 0, -1) if devices % count == 0)
    return f"{devices // per_host}x{per_host}x1"


def build_argument_specs(case: Case, mesh: Mesh) -> tuple[Any, ...]:
    """Returns the case's arguments with a `jax.ShapeDtypeStruct` in place of each array: its shape, dtype and sharding.
    Raises InputError if the dtype is unknown, or if an array cannot be split over the mesh as the case says.
    """
    tree_util: Any = jax.tree_util
    leaves, structure = tree_util.tree_flatten(case.args)
    specs = [_build_spec(case, number, leaf, mesh) for number, leaf in enumerate(leaves)]
    return tree_util.tree_unflatten(structure, specs)


def compute_donated(case: Case) -> tuple[int, ...]:
    """Returns the positions of the donated arguments. Raises InputError if only a part of an argument is donated."""
    donated: list[int] = []
    for position, value in enumerate(case.args):
        leaves = jax.tree_util.tree_leaves(value)
        flags = {leaf.donate for leaf in leaves if isinstance(leaf, Arg)}
        if flags == {True, False}:
            raise InputError(
                f"case `{case.id}` donates only a part of argument {position}: donate the whole argument, or no part "
                "of it"
            )
        if flags == {True}:
            donated.append(position)
    return tuple(donated)


def _build_spec(case: Case, number: int, arg: object, mesh: Mesh) -> jax.ShapeDtypeStruct:
    place = f"array {number} of case `{case.id}`"
    if not isinstance(arg, Arg):
        raise InputError(f"expected an `Arg` for {place} but got `{type(arg).__name__}`")
    try:
        dtype = parse_dtype(arg.dtype)
    except TypeError as error:
        raise InputError(f"expected a dtype for {place} but got `{arg.dtype}`") from error
    if not is_key(arg.dtype) and jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise InputError(f"`{arg.dtype}` for {place} needs JAX_ENABLE_X64=1")
    _check_partition(place, arg, mesh)
    sharding = NamedSharding(mesh, PartitionSpec(*arg.partition))
    weak: dict[str, Any] = {"weak_type": True} if arg.weak else {}  # JAX of 2024 does not know this parameter
    return jax.ShapeDtypeStruct(tuple(arg.shape), dtype, sharding=sharding, **weak)


def _check_partition(place: str, arg: Arg, mesh: Mesh) -> None:
    if len(arg.partition) > len(arg.shape):
        raise InputError(f"{place} has {len(arg.shape)} dimensions, but its partition has {len(arg.partition)}")
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


NEXT_DRAW = 1_000_003
"""Number that is added to every seed for each additional set of random arguments."""


def draw_arguments(case: Case, draw: int = 0) -> tuple[Any, ...]:
    """Returns the case's arguments as arrays, with random values or with the values that an `Arg` contains.

    NumPy's `PCG64` draws the random numbers, with the seed in the Arg's `Draw`. Floats are drawn in f32 and then cast
    to the Arg's dtype. JAX's generator is not used, because JAX would compile a program for each shape, which takes 0.3
    s each. If the user gave the Arg a function instead of a `Draw`, that function is called with a key of JAX's.
    Arguments that are one array in memory (`Arg.array`) get the values of the first of them.

    draw: number of the set of arguments: 0 for the set from the case's own seeds, n for the n-th additional set. Values
    that an Arg contains are the same in each set. Raises CaseError if the function that draws an Arg raises, and
    InputError if it returns an array of another shape than the Arg's.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    shared: dict[tuple[object, ...], jax.Array] = {}

    def draw_next(arg: Arg) -> jax.Array:
        if not arg.array:
            return draw_one(arg)
        key = arg.array, arg.shape, arg.dtype
        if key not in shared:
            shared[key] = draw_one(arg)
        return shared[key]

    def draw_one(arg: Arg) -> jax.Array:
        alike = prod(arg.shape), arg.draw
        seen[alike] += 1
        return draw_array(draw, arg, seen[alike] - 1)

    return jax.tree_util.tree_map(draw_next, case.args, is_leaf=lambda leaf: isinstance(leaf, Arg))


def draw_array(number: int, arg: Arg, alike: int = 0) -> jax.Array:
    """Returns an array with the shape and dtype of the Arg.

    number: the number of the set of arguments, as `draw` in `draw_arguments`. alike: how many earlier arguments have
    the same `Draw` and the same number of elements. A `Draw` without a seed gets `alike` as its seed, so that no two
    arguments are equal. With equal arguments, the replay could not find out which of the two an output reads.
    """
    dtype = parse_dtype(arg.dtype)
    if is_key(arg.dtype) and not callable(arg.draw):
        return _draw_keys(number, arg, dtype, alike)
    match arg.draw:
        case Values(data=data):
            return _as_array(np.frombuffer(data, dtype).reshape(arg.shape))
        case Draw() as draw:
            seed = _compute_seed(draw, number, alike)
            return _put(draw_values(draw, np.random.Generator(np.random.PCG64(seed)), arg.shape, dtype))
        case function:
            return _call(function, jax.random.key(number * NEXT_DRAW + alike), arg.shape, dtype)


def _compute_seed(draw: Draw, number: int, alike: int) -> int:
    """Returns the seed of one array of a set of arguments. number, alike: as in `draw_array`."""
    return ((alike if draw.seed is None else draw.seed) + number * NEXT_DRAW) % 2**64


def _draw_keys(number: int, arg: Arg, dtype: Any, alike: int) -> jax.Array:
    """Returns typed random keys whose data are the values that the Arg contains, or random if it contains none.

    number, alike: as in `draw_array`. dtype: that of the keys.
    """
    implementation = _find_implementation(arg.dtype)
    shape = (*arg.shape, *compute_words(jax.ShapeDtypeStruct(arg.shape, dtype)))
    match arg.draw:
        case Values(data=data):
            words = np.frombuffer(data, np.uint32).reshape(shape)
        case draw:
            assert isinstance(draw, Draw)
            seed = _compute_seed(draw, number, alike)
            words = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**32, shape, np.uint32)
    library: Any = jax
    return library.random.wrap_key_data(_as_array(words), impl=implementation)


IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
"""JAX's own generators of random numbers; the dtype of their keys is `key<fry>`, `key<rbg>` and `key<urbg>`."""


def parse_dtype(name: str) -> Any:
    """Returns the dtype of this name, such as `float32`, or `key<fry>` for typed random keys. Raises TypeError if no
    dtype has this name, and InputError for the keys of a generator that does not come with JAX.
    """
    if not is_key(name):
        return jnp.dtype(name)
    return _make_key_dtype(_find_implementation(name))


@lru_cache(maxsize=8)
def _find_implementation(name: str) -> str:
    for implementation in IMPLEMENTATIONS:
        if str(_make_key_dtype(implementation)) == name:
            return implementation
    raise InputError(
        f"`{name}` is the dtype of keys of a random generator that does not come with JAX: pass "
        "`jax.random.key_data(key)`,"
        f" and rebuild the key in the function with `jax.random.wrap_key_data`"
    )


def _make_key_dtype(implementation: str) -> Any:
    library: Any = jax
    return library.eval_shape(partial(library.random.key, impl=implementation), 0).dtype


def compute_words(array: Any) -> tuple[int, ...]:
    """Returns the shape of the u32 data of one typed random key, such as (2,). Returns () if the array has no such
    keys.
    """
    if not is_key(str(array.dtype)):
        return ()
    library: Any = jax
    return tuple(library.eval_shape(library.random.key_data, jax.ShapeDtypeStruct((), array.dtype)).shape)


def read_numbers(array: Any) -> Any:
    """Returns the array as a NumPy array. Typed random keys become their u32 data, as in a compiled program."""
    return np.asarray(jax.random.key_data(array) if is_key(str(array.dtype)) else array)


def _as_array(values: Any) -> jax.Array:
    """Returns the values as an array of JAX. An array of NumPy is copied: a function may donate its argument, and then JAX
    overwrites the memory, which others may still use.
    """
    library: Any = jnp
    return _put(np.array(cast("Any", values))) if isinstance(values, np.ndarray) else library.asarray(values)


def _put(values: Any) -> jax.Array:
    """Returns an array of NumPy, which nobody else uses, as one of JAX; `asarray` would compile a program for each shape."""
    library: Any = jax
    return library.device_put(values)


def _call(function: Any, key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    try:
        values = function(key, shape, dtype)
        values = values if is_key(str(getattr(values, "dtype", ""))) else _as_array(values)
    except Exception as fault:
        traceback.print_exception(fault)
        raise CaseError(f"the `draw` function of an Arg raises: {describe_fault(fault)}") from fault
    if values.shape != shape:
        raise InputError(
            f"expected the `draw` function of an Arg to return the Arg's shape {list(shape)} but got "
            f"{list(values.shape)}"
        )
    return values if values.dtype == dtype else values.astype(dtype)
