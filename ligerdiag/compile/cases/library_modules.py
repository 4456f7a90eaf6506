"""Turns functions of Flax NNX and Equinox modules into functions of arrays, which JAX can compile.

A module of NNX is an object whose variables the function changes. `nnx.jit` returns the changed variables together with
the function's result, and so does the function that is compiled here. Otherwise JAX would drop the operations that
compute the variables, for example an optimizer's kernel. `equinox.filter_jit` traces the arrays in its arguments; every
other leaf, such as an activation function, is static.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ligerdiag.compile.cases.array_records import is_array
from ligerdiag.compile.cases.live_functions import Bound, keeps_unused, name_arguments
from ligerdiag.model.case import Arg


class WithVariables:
    """A function that returns its result together with the NNX variables that it changed in its arguments."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self.function = function
        self._names = name_arguments(function, count)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: Any) -> Any:
        """Returns the function's result together with the changed variables, or the result alone if no variable
        changed.
        """
        before = [_list_changeable(argument) for argument in arguments]
        result = self.function(*arguments)
        changed: dict[str, Any] = {}
        for name, argument, old in zip(self._names, arguments, before, strict=True):
            new = _list_changeable(argument)
            values = {path: value for path, value in new.items() if value is not old.get(path)}
            if values:
                changed[name] = values
        if not changed:
            return result
        return changed if result is None else {"output": result, **changed}

    def name_arguments(self, count: int) -> list[str]:
        """Returns a name for each of `count` arguments of a call."""
        return name_arguments(self.function, count)


class WithLeaves:
    """A function that takes only the arrays of its arguments. Their other leaves are fixed.

    static: the arguments, with None for each array.
    """

    def __init__(self, function: Callable[..., Any], static: Sequence[Any]) -> None:
        self.function = function
        self._static = tuple(static)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: Any) -> Any:
        """Returns the result of the function. arguments: the function's arguments, with None for each static leaf."""
        return self.function(*_map(_choose, self._static, arguments))

    def name_arguments(self, count: int) -> list[str]:
        """Returns a name for each of `count` arguments of a call."""
        return name_arguments(self.function, count)


def keep_variables(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Returns a function whose results include the NNX variables that it changes. If no argument is a module of NNX,
    returns the function itself.
    """
    if isinstance(function, WithVariables):
        return function
    if any(_list_changeable(argument) for argument in arguments):
        return WithVariables(function, len(arguments))
    return function


def bind_static_leaves(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], frozenset[int]]:
    """Binds the leaves that are not arrays to a function of `equinox.filter_jit`. Returns (the function, the arguments
    with None for the bound leaves, the positions of the arguments that the function donates). Any other function is
    returned unchanged.
    """
    if not _is_filtered(function):
        return function, arguments, frozenset()
    filtered: Any = function
    dynamic = _map(_keep_dynamic, arguments)
    static = _map(_keep_static, arguments)
    first, rest = filtered.donate_first, filtered.donate_rest
    donated = frozenset(number for number in range(len(arguments)) if (rest if number else first))
    return WithLeaves(function, static), dynamic, donated


def is_filtered_to_keep(function: Callable[..., Any]) -> bool:
    """Returns whether the function is one of `equinox.filter_jit` that keeps the arguments that it never reads."""
    return _is_filtered(function) and keeps_unused(getattr(function, "_cached", None))


def list_passed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    """Returns the leaves of the arguments that a call passes to JAX's runtime. `nnx.jit` passes a variable once, even
    if several arguments contain it; every other `jit` passes each leaf.
    """
    library: Any = sys.modules.get("jax")
    if library is None:
        return []
    inner = function.function if isinstance(function, Bound) else function
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None or not hasattr(inner, "jitted_fn"):
        return library.tree.leaves(arguments)

    def is_variable(leaf: Any) -> bool:
        return isinstance(leaf, nnx.Variable)

    found: list[Any] = library.tree.leaves(arguments, is_leaf=is_variable)
    variables = {id(one): one for one in found if is_variable(one)}
    return library.tree.leaves([*variables.values(), *(one for one in found if id(one) not in variables)])


def _is_object(argument: Any) -> bool:
    """Whether this is a module, an optimizer or a variable of NNX; the state that `nnx.split` takes out of a module is
    not an object but an ordinary pytree.
    """
    nnx: Any = sys.modules.get("flax.nnx")
    kinds = [getattr(nnx, name, None) for name in ("Object", "Pytree", "Module", "Variable")]
    return isinstance(argument, tuple(kind for kind in kinds if isinstance(kind, type)))


def _is_filtered(function: Any) -> bool:
    kind = cast("type[Any]", type(function))
    return kind.__module__.partition(".")[0] == "equinox" and kind.__name__ == "_JitWrapper"


def _is_dynamic(leaf: Any) -> bool:
    return isinstance(leaf, Arg) or is_array(leaf)


def _keep_dynamic(leaf: Any) -> Any:
    return leaf if _is_dynamic(leaf) else None


def _keep_static(leaf: Any) -> Any:
    return None if _is_dynamic(leaf) else leaf


def _choose(static: Any, dynamic: Any) -> Any:
    return dynamic if static is None else static


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _map(function: Callable[..., Any], *trees: Any) -> Any:
    library: Any = importlib.import_module("jax")
    return library.tree.map(function, *trees, is_leaf=_is_none)


def _list_changeable(argument: Any) -> Mapping[str, Any]:
    """Returns the value of each variable of NNX in a module, by its path such as `layers.0.kernel`; none for any other
    argument.
    """
    if not _is_object(argument):
        return {}
    nnx: Any = sys.modules["flax.nnx"]

    def is_variable(leaf: Any) -> bool:
        return isinstance(leaf, nnx.Variable)

    library: Any = importlib.import_module("jax").tree_util
    leaves: list[tuple[Any, Any]] = library.tree_leaves_with_path(argument, is_leaf=is_variable)
    return {_name_path(path): leaf.get_raw_value() for path, leaf in leaves if is_variable(leaf)}


def _name_path(path: Any) -> str:
    library: Any = importlib.import_module("jax").tree_util
    return library.keystr(path, simple=True, separator=".")
