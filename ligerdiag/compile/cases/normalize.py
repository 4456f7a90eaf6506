"""Turns a case into the form that is compiled, whether a file defines it or a live function.

The function inside a `jax.jit` is compiled without the `jax.jit`: donations become a property of the arguments, static
arguments are bound, and `keep_unused` is that of the case. Every leaf of an argument becomes an `Arg`: arrays, recorded
arrays and Python numbers. The state of an optimizer may contain squared gradients. If the case does not say how to draw
their random values, these are squares of random numbers, because the optimizer takes their square root.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ligerdiag.compile.cases.array_records import build_arg, choose_mesh, is_array, record_array
from ligerdiag.compile.cases.library_modules import (
    WithVariables,
    bind_static_leaves,
    is_filtered_to_keep,
    keep_variables,
    list_passed,
)
from ligerdiag.compile.cases.live_functions import Bound, name_arguments, unwrap_jitted
from ligerdiag.compile.cases.shardings import has_shardings, list_meshes, place_arguments
from ligerdiag.compile.cases.shared_arrays import number_shared_arrays
from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg, Case, Draw, Values

type _Meshes = list[tuple[Mapping[str, int], tuple[str, ...]]]
"""The sizes and the axes of the type Explicit of the meshes on which arrays lie."""

_SECOND_MOMENTS = frozenset(
    ("nu", "nu_max", "v_row", "v_col", "sum_of_squares", "exp_avg_sq", "second_moment")
)  # the names in optax and PyTorch, and the plain term
_SECOND_MOMENT_FIELD = "v"
"""Name that means squared gradients only as the field of a class: in a dictionary, `v` is as often the value of
attention.
"""


def normalize_case(case: Case, donated: frozenset[int] = frozenset()) -> Case:
    """Returns the case in the form that is compiled. Raises InputError for an argument that is neither an array nor a
    number.

    donated: positions of donated arguments, in addition to those that the function's own `jax.jit` donates.
    """
    unwrapped = unwrap_jitted(case.function, case.args, case.kwargs)
    function, values, given = bind_static_leaves(unwrapped.function, unwrapped.arguments)
    meshes: _Meshes = []
    shared = number_shared_arrays(list_passed(unwrapped.function, values))
    arguments = tuple(
        _normalize_argument(value, name, case.id, meshes, shared)
        for name, value in zip(name_arguments(function, len(values)), values, strict=True)
    )
    jitted = unwrapped.function.function if isinstance(unwrapped.function, Bound) else unwrapped.function
    if hasattr(jitted, "_jit_info") and has_shardings(jitted):
        arguments = place_arguments(jitted, arguments)
        meshes += list_meshes(jitted)
    donated |= unwrapped.donated | given
    arguments = tuple(
        _map(_donate, value) if position in donated else value for position, value in enumerate(arguments)
    )
    filtered_keeps = is_filtered_to_keep(unwrapped.function)
    reference = None if case.reference is None else keep_variables(case.reference, arguments)
    function = keep_variables(function, arguments)
    returns_all = isinstance(function, WithVariables)  # as `nnx.jit` does: there, no variable is unused
    return replace(
        case,
        function=_make_hashable(function),
        reference=reference,
        args=arguments,
        kwargs={},
        keep_unused=case.keep_unused or unwrapped.keeps_unused or filtered_keeps or returns_all,
        mesh=choose_mesh(case.mesh or None, [sizes for sizes, _ in meshes]),
        explicit_axes=tuple(sorted({*case.explicit_axes, *(axis for _, axes in meshes for axis in axes)})),
    )


def _make_hashable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function in a form that `jax.jit` accepts: a callable object that contains arrays has no hash, so it
    is wrapped.
    """
    try:
        hash(function)
    except TypeError:
        return Bound(function, {})
    return function


def _donate(path: object, arg: Arg) -> Arg:
    del path
    return replace(arg, donate=True)


def _normalize_argument(value: Any, name: str, case_id: str, meshes: _Meshes, shared: Mapping[int, int]) -> Any:
    """Returns the argument with an `Arg` for each leaf. shared: the numbers of arrays that are several leaves, by id."""

    def normalize(path: Any, leaf: Any) -> Arg:
        arg = _make_arg(leaf, f"argument `{name}{_render_path(path)}` of `{case_id}`", meshes)
        if id(leaf) in shared:
            arg = replace(arg, array=shared[id(leaf)])
        match arg.draw:
            case Draw(kind="usual") as draw if "float" in arg.dtype and any(map(_is_second_moment, path)):
                return replace(arg, draw=replace(draw, kind="squares"))
            case _:
                return arg

    return _map(normalize, value)


def _render_path(path: Any) -> str:
    library: Any = importlib.import_module("jax")
    return library.tree_util.keystr(path)


def _make_arg(leaf: Any, place: str, meshes: _Meshes) -> Arg:
    if isinstance(leaf, Arg):
        return leaf
    if not is_array(leaf):
        return _make_scalar(leaf, place)
    try:
        record = record_array(leaf)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    if record.mesh:
        meshes.append((record.mesh, record.explicit))
    return build_arg(record.fields, record.draw, record.values)


def _make_scalar(value: object, place: str) -> Arg:
    """Returns the Arg for a Python number, with the type that `jax.jit` gives such a number. place: names the argument
    in the error message.
    """
    match value:
        case bool():
            return Arg(shape=(), dtype="bool", draw=Draw(kind="bernoulli", scale=float(value)))
        case int():
            return Arg(
                shape=(), dtype=_name_dtype(int), draw=Draw(kind="randint", low=value, high=value + 1), weak=True
            )
        case float():
            return Arg(shape=(), dtype=_name_dtype(float), draw=Draw(kind="uniform", low=value, high=value), weak=True)
        case complex():
            data = np.dtype(_name_dtype(complex)).type(value).tobytes()
            return Arg(shape=(), dtype=_name_dtype(complex), draw=Values(data=data), weak=True)
        case _:
            raise InputError(
                f"expected arrays and numbers in {place} but got {value!r:.60}"
                f" (type={type(value).__name__}): bind it to the function, as in `functools.partial(function, "
                "name=value)`"
                f"{', or give the function as `equinox.filter_jit`' if 'equinox' in sys.modules else ''}"
            )


def _is_second_moment(key: Any) -> bool:
    """Whether a step on JAX's path to a leaf, such as a field of a class or a key of a dictionary, names squared
    gradients.
    """
    field = getattr(key, "name", None)
    return field == _SECOND_MOMENT_FIELD or (field or getattr(key, "key", None)) in _SECOND_MOMENTS


def _map(function: Any, value: Any) -> Any:
    library: Any = importlib.import_module("jax")
    return library.tree_util.tree_map_with_path(function, value)


def _name_dtype(kind: type) -> str:
    library: Any = importlib.import_module("jax")
    return str(library.dtypes.canonicalize_dtype(kind))
