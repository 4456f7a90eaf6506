"""Both sides: a function of `jax.jit` without it, as it is compiled inside of another `jax.jit`."""

from dataclasses import dataclass
from typing import Any

from ligerdiag.compile.bound import Bound

_SHARDINGS = ("in_shardings_leaves", "out_shardings_leaves")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """A function, and the options of `jax.jit` for its arguments."""

    function: Any
    arguments: tuple[Any, ...]
    """Those that are not static."""
    donated: frozenset[int]
    """Positions among `arguments`."""


def unwrap_jitted(function: Any, arguments: tuple[Any, ...]) -> Unwrapped:
    """Returns the function with its static arguments bound to it, and what it donates; any other function as it is.

    One that has shardings of its own stays inside of its `jax.jit`.
    """
    info = getattr(function, "_jit_info", None)
    if info is None:
        return Unwrapped(function=function, arguments=arguments, donated=frozenset())
    static = {position % len(arguments) for position in info.static_argnums if position < len(arguments)}
    kept = [position for position in range(len(arguments)) if position not in static]
    inner: Any = function if has_shardings(function) else function.__wrapped__
    if static:
        inner = Bound(inner, {position: arguments[position] for position in static})
    return Unwrapped(
        function=inner,
        arguments=tuple(arguments[position] for position in kept),
        donated=frozenset(number for number, position in enumerate(kept) if position in info.donate_argnums),
    )


def has_shardings(jitted: Any) -> bool:
    """Returns whether a function of `jax.jit` was given shardings."""
    leaves = [leaf for name in _SHARDINGS for leaf in getattr(jitted._jit_info, name, ())]
    return any(type(leaf).__name__ != "UnspecifiedValue" for leaf in leaves)
