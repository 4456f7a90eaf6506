"""Parent side: what a worker can import by name, as this process has it."""

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ligerdiag.compile.worker_faults import is_project_file

WRAPPERS = ("__wrapped__", "fn", "_fun")
"""Attributes under which decorators keep what they decorate."""
MAXIMUM_WRAPPERS = 8


def list_own_folders() -> tuple[str, ...]:
    """Returns the entries of `sys.path` that belong neither to Python nor to installed packages, absolute, each
    once."""
    folders = [os.path.abspath(entry) for entry in sys.path]
    return tuple(dict.fromkeys(entry for entry in folders if os.path.exists(entry) and _is_own(entry)))


def list_unimportable(root: str) -> tuple[ModuleType, ...]:
    """Modules of the project that a worker with this root does not find under their name, or finds another file for."""
    own = list_own_folders()
    path = [root, *(entry for entry in sys.path if os.path.abspath(entry) not in own), *own]
    return tuple(
        module
        for name, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__file__", None), str)
        and getattr(module, "__name__", "") == name != "__main__"
        and is_project_file(file)
        and not _is_found(name, file, path)
    )


def find_reference(value: Any, by_value: frozenset[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Module, name, and the attributes on the way from what has that name to `value`; None where there is no such way.

    by_value: names of modules that a worker cannot import.
    """
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    found: Any = None if module == "__main__" or module in by_value else sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    steps: list[str] = []
    while found is not None and found is not value and len(steps) < MAXIMUM_WRAPPERS:
        step = next((name for name in WRAPPERS if getattr(found, name, None) is not None), "")
        found = getattr(found, step, None) if step else None
        steps.append(step)
    return None if found is not value else (module, qualname, tuple(steps))


def _is_own(entry: str) -> bool:
    return is_project_file(str(Path(entry) / "module.py"))


def _is_found(name: str, file: str, path: Sequence[str]) -> bool:
    parts = name.split(".")
    locations: Sequence[str] | None = path
    for number in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:number]), locations, is_top=number == 1)
        if spec is None:
            return False
        if number == len(parts):
            return spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(file)
        locations = spec.submodule_search_locations
        if locations is None:
            return False
    return False


def _find_spec(name: str, locations: Sequence[str] | None, *, is_top: bool) -> importlib.machinery.ModuleSpec | None:
    """By folders, else by a finder such as those of editable installs."""
    spec = importlib.machinery.PathFinder.find_spec(name, locations)
    if spec is not None or not is_top:
        return spec
    finders = [finder for finder in sys.meta_path if getattr(finder, "__module__", "").startswith("__editable__")]
    found = (finder.find_spec(name, None) for finder in finders)
    return next((one for one in found if one is not None), None)
