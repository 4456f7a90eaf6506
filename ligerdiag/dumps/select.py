"""Selects the requested modules from those that were found, and names them if several paths were given."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ligerdiag.dumps.find import Dump, ModuleFiles, find_modules
from ligerdiag.errors import InputError
from ligerdiag.limits import MAXIMUM_FOLDER_DEPTH
from ligerdiag.words import count_of

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The modules to inspect."""

    modules: tuple[ModuleFiles, ...]
    artifacts: tuple[Path, ...]
    notes: tuple[str, ...]
    """Notes on modules that were found and are not inspected, one line each."""


def select_modules(paths: Sequence[Path], pattern: str = "") -> Selection:
    """Returns the modules under the paths whose id, or a part of it, matches the glob; all of them without one.

    Raises InputError for a path that is not there, one that holds no module, or a pattern that matches none.
    """
    dumps = [find_modules(path) for path in dict.fromkeys(paths)]
    for path, dump in zip(dict.fromkeys(paths), dumps, strict=True):
        if not dump.modules and not dump.artifacts:
            raise InputError(_describe_empty(path, dump))
    found = _name_apart([(path, dump) for path, dump in zip(dict.fromkeys(paths), dumps, strict=True)])
    modules = tuple(module for module in found if _matches(module.id, pattern))
    artifacts = tuple(path for dump in dumps for path in dump.artifacts) if not pattern else ()
    if not modules and not artifacts:
        names = ", ".join(f"`{module.id}`" for module in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise InputError(f"no module matches `{pattern}`: there are {names}{more}")
    notes: list[str] = []
    if pattern and len(modules) < len(found):
        notes.append(f"{count_of(len(found) - len(modules), 'module')} not asked for: no match of `{pattern}`")
    notes += _describe_rest(dumps)
    return Selection(modules=modules, artifacts=artifacts, notes=tuple(notes))


def _matches(module: str, pattern: str) -> bool:
    """Returns whether the glob matches the id, its last part, or the name that XLA gave."""
    last = module.rpartition("/")[2]
    return not pattern or any(fnmatchcase(text, pattern) for text in (module, last, last.partition(".")[2]))


def _name_apart(dumps: Sequence[tuple[Path, Dump]]) -> tuple[ModuleFiles, ...]:
    """Returns all modules; those of several paths with the same id have the path before it."""
    ids = Counter(module.id for _, dump in dumps for module in dump.modules)
    return tuple(
        replace(module, id=f"{path}/{module.id}" if path.is_dir() else str(path)) if ids[module.id] > 1 else module
        for path, dump in dumps
        for module in dump.modules
    )


def _describe_empty(path: Path, dump: Dump) -> str:
    if dump.unscheduled:
        number = count_of(dump.unscheduled, "module")
        return (
            f"`{path}` holds {number} before optimizations and none after: the schedule is in `…after_optimizations…`"
        )
    return f"no HLO module in `{path}`: expected what `--xla_dump_to` writes, as protobuf or text"


def _describe_rest(dumps: Sequence[Dump]) -> list[str]:
    notes: list[str] = []
    unscheduled, snapshots, links, deep = (
        sum(dump.unscheduled for dump in dumps),
        sum(dump.snapshots for dump in dumps),
        sum(dump.links for dump in dumps),
        sum(dump.deep for dump in dumps),
    )
    if unscheduled:
        notes.append(f"{count_of(unscheduled, 'module')} without an optimized form, not inspected")
    if snapshots:
        notes.append(f"{count_of(snapshots, 'snapshot')} between passes, not read")
    if links:
        notes.append(f"{count_of(links, 'symbolic link')} not followed")
    if deep:
        notes.append(
            f"{count_of(deep, 'folder')} more than {MAXIMUM_FOLDER_DEPTH} levels down, not looked into: name one itself"
        )
    return notes
