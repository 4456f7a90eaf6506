"""Worker side: a case as it is compiled, whether a file defines it or a live function.

1. A function of `jax.jit` is compiled without it: the arguments say what is donated, and static ones are bound to it.
2. Every leaf of an argument is an `Arg`: arrays, records of arrays and Python numbers are turned into one.
3. The usual draw for an optimizer's squared gradients is of squares: the optimizer takes their root.
"""

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ligerdiag.compile.cases.array_records import build_arg, choose_mesh, is_array, record_array
from ligerdiag.compile.cases.live_functions import (
    unwrap_jitted,
)
from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg, Case, Draw

_SECOND_MOMENTS = frozenset(
    ("nu", "nu_max", "v_row", "v_col", "sum_of_squares", "exp_avg_sq", "second_moment")
)  # optax, PyTorch's names, and the plain word
_SECOND_MOMENT_FIELD = "v"
"""Of a class alone: in a dictionary it is as often attention's value."""


def normalize_case(case: Case, donated: frozenset[int] = frozenset()) -> Case:
    """Returns the case by 1 to 3; InputError for an argument that is none. donated: positions beside those of the
    function."""
    unwrapped = unwrap_jitted(case.function, case.args)
    meshes: list[Mapping[str, int]] = []
    arguments = tuple(
        _normalize_argument(value, f"argument {position} of `{case.id}`", meshes)
        for position, value in enumerate(unwrapped.arguments)
    )
    donated |= unwrapped.donated
    arguments = tuple(
        _map(_donate, value) if position in donated else value for position, value in enumerate(arguments)
    )
    return replace(case, function=unwrapped.function, args=arguments, mesh=choose_mesh(case.mesh or None, meshes))


def _donate(path: object, arg: Arg) -> Arg:
    del path
    return replace(arg, donate=True)


def _normalize_argument(value: Any, place: str, meshes: list[Mapping[str, int]]) -> Any:
    def normalize(path: Any, leaf: Any) -> Arg:
        arg = _make_arg(leaf, place, meshes)
        match arg.draw:
            case Draw(kind="usual") as draw if "float" in arg.dtype and any(map(_is_second_moment, path)):
                return replace(arg, draw=replace(draw, kind="squares"))
            case _:
                return arg

    return _map(normalize, value)


def _make_arg(leaf: Any, place: str, meshes: list[Mapping[str, int]]) -> Arg:
    if isinstance(leaf, Arg):
        return leaf
    if not is_array(leaf):
        return _make_scalar(leaf, place)
    try:
        record = record_array(leaf)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    if record.mesh:
        meshes.append(record.mesh)
    return build_arg(record.fields, record.draw, record.values)


def _make_scalar(value: object, place: str) -> Arg:
    """Returns a number of Python's own, as `jax.jit` takes it."""
    match value:
        case bool():
            return Arg(shape=(), dtype="bool", draw=Draw(kind="bernoulli", scale=float(value)))
        case int():
            return Arg(
                shape=(), dtype=_name_dtype(int), draw=Draw(kind="randint", low=value, high=value + 1), weak=True
            )
        case float():
            return Arg(shape=(), dtype=_name_dtype(float), draw=Draw(kind="uniform", low=value, high=value), weak=True)
        case _:
            raise InputError(
                f"expected arrays and numbers in {place} but got {value!r:.60}"
                f" (type={type(value).__name__}): bind it before, as in `functools.partial(function, name=value)`"
            )


def _is_second_moment(key: Any) -> bool:
    """key: one of JAX's path of a leaf: of a class, or of a dictionary."""
    field = getattr(key, "name", None)
    return field == _SECOND_MOMENT_FIELD or (field or getattr(key, "key", None)) in _SECOND_MOMENTS


def _map(function: Any, value: Any) -> Any:
    library: Any = importlib.import_module("jax")
    return library.tree_util.tree_map_with_path(function, value)


def _name_dtype(kind: type) -> str:
    library: Any = importlib.import_module("jax")
    return str(library.dtypes.canonicalize_dtype(kind))
