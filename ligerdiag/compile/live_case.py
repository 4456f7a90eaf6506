"""Worker side: the case of a live function, from its `function_file`."""

import importlib
import io
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ligerdiag.case import Case
from ligerdiag.compile.function_file import read_function_file
from ligerdiag.compile.job import Source
from ligerdiag.compile.rebuild import forget_kernels, register_pytree_class
from ligerdiag.compile.settled_case import settle_case
from ligerdiag.errors import InputError

_settings: dict[str, object] = {}
"""The settings of `jax.config` before the caller's own were applied."""


def list_live_files(source: Source) -> tuple[str, ...]:
    """Returns the files that the case depends on beside what is imported."""
    surroundings, _ = read_function_file(Path(source.pickled))
    return (source.pickled, *(file for file in surroundings.files if Path(file).is_file()))


def load_live_case(source: Source) -> Case:
    """Unpickles the case with its surroundings. Raises InputError, and any exception of the user's modules."""
    surroundings, pickled = read_function_file(Path(source.pickled))
    python = "{}.{}".format(*sys.version_info)
    if surroundings.python != python:
        raise InputError(
            f"`{source}` was made by Python {surroundings.python} and the toolchain has Python {python}:"
            f" write it as a case in a file, see `ligerdiag init`"
        )
    sys.path += [folder for folder in surroundings.path if folder not in sys.path]
    _apply_settings(surroundings.settings)
    stream = io.BytesIO(pickled)
    arguments: Any = pickle.load(stream)
    case: Case = pickle.load(stream)
    for kind, fields, functions in pickle.load(stream):
        register_pytree_class(kind, fields, functions)
    return settle_case(replace(case, args=arguments), frozenset(surroundings.donated))


def forget_live_case() -> None:
    """Undoes what loading one did to this process."""
    forget_kernels()
    if _settings:
        _update(_settings)
        _settings.clear()


def _apply_settings(settings: Mapping[str, object]) -> None:
    config: Any = importlib.import_module("jax").config
    changed = {name: value for name, value in settings.items() if getattr(config, name, value) != value}
    _settings.update({name: getattr(config, name) for name in changed})
    _update(changed)


def _update(settings: Mapping[str, object]) -> None:
    config: Any = importlib.import_module("jax").config
    for name, value in settings.items():
        config.update(name, value)
