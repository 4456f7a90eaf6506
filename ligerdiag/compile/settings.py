"""Worker side: the current settings of JAX and the environment, including changes by the import of the case's file."""

from typing import Any

import jax

from ligerdiag.compile.toolchain import compute_important_environment

_PLAIN: tuple[type[object], ...] = (str, int, float, tuple, type(None))


def compute_settings() -> dict[str, str]:
    """Each setting of `jax.config`, by name; of one that is no plain value, its type."""
    config: Any = jax.config
    return {name: _render(getattr(config, name, value)) for name, value in sorted(config.values.items())}


def compute_environment() -> dict[str, str]:
    """Returns the variables that can change what is compiled, without PYTHONPATH, which the worker itself was started
    with."""
    return {name: value for name, value in compute_important_environment().items() if name != "PYTHONPATH"}


def _render(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else type(value).__qualname__
