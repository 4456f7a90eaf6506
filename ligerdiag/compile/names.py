"""Worker side: names of a program's outputs and inputs, from the paths of their leaves."""

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax


def compute_output_names(tree: Any) -> tuple[str, ...]:
    """`loss` for {"loss": …}, `grads.w` for nested ones, `0` for a tuple's first, `output` for a single array."""
    return _make_unique([_join(path) or "output" for path in _compute_paths(tree)])


def compute_input_names(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, ...]:
    """Returns the function's parameter names, with the path of the leaf; `args.0` for one of `*args`."""
    names = _compute_parameter_names(function, len(args))
    return _make_unique([_name_input(names, path) for path in _compute_paths(args)])


def _name_input(names: list[str], path: tuple[Any, ...]) -> str:
    position: int = path[0].idx
    return _join((names[position], *path[1:]))


def _compute_paths(tree: Any) -> list[tuple[Any, ...]]:
    tree_util: Any = jax.tree_util
    leaves, _ = tree_util.tree_flatten_with_path(tree)
    return [path for path, _ in leaves]


def _compute_parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    return names + [f"{rest}.{number}" for number in range(count - len(names))]


def _join(path: tuple[Any, ...]) -> str:
    return ".".join(_name_key(key) for key in path)


def _name_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _make_unique(names: list[str]) -> tuple[str, ...]:
    counts, seen = Counter(names), Counter[str]()
    unique: list[str] = []
    for name in names:
        seen[name] += 1
        unique.append(name if counts[name] == 1 else f"{name}#{seen[name]}")
    return tuple(unique)
