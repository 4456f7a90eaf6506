"""Options of the commands, as data, and the lines of a report about declarations."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.compile.cases.selectors import Selector
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.errors import InputError
from ligerdiag.judgement.suppression_entry import ConfigEntry
from ligerdiag.model.report import Progress
from ligerdiag.replay.service.job import Bounds
from ligerdiag.toolchains.catalogue import DEFAULT


def list_declared(effects: Sequence[DeclaredEffects]) -> tuple[str, ...]:
    """Returns a line for each declaration: a verdict can hang on it."""
    names = dict.fromkeys(one.name for one in effects)
    return tuple(f"what `{name}` does is declared, and believed where it could not be told" for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Options of `check`: which cases to check, and how."""

    selectors: tuple[Selector, ...] = ()
    """Ids, globs, files, module:name; none means all of the folder `cases`."""
    targets: tuple[str, ...] = ("h100",)
    """Names of targets, or paths of target descriptions."""
    jobs: int | None = None
    """Compile and replay workers; None means one a core."""
    timeout: float = 300.0
    """Seconds that one case may take to compile, and again to replay."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    refresh: bool = False
    """Compile and replay again what the cache has."""
    replay: bool = True
    """Replay what fits the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    rows: bool = False
    """Count the rows of each output that are fresh and stale."""
    device: bool = False
    """Compile each case for the GPUs of this machine, too, run it on them and compare."""
    toolchain: str = DEFAULT
    """Compile with that one; see `list_toolchains`."""
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    baseline: Path | None = None
    """Compare each schedule with what this file has of it, see `baseline`."""
    record: bool = False
    """The report is to be recorded: look for what a baseline holds."""
    view: bool = False
    """Compute what the HTML draws, too."""
    source_roots: tuple[Path, ...] | None = None
    """Folders below which source lines and comments are read. None means the repository of the current folder, or that
    folder where it is in none, and the folders that the cases' imports start from, PYTHONPATH's among them."""
    usual_targets: tuple[str, ...] = ("h100",)
    """Targets that the project is checked for by default; without all of them no suppression is called unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """Options of `inspect`: which modules to inspect, and how."""

    paths: tuple[Path, ...]
    """Dump directories, files with a module, artifact directories."""
    module: str = ""
    """Glob over the modules' ids; empty means all."""
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    neighbourhoods: bool = False
    """Also compute which instructions read the values that kernels overwrite."""
    view: bool = False
    """Compute what the HTML draws, too."""
    source_roots: tuple[Path, ...] = ()
    """Folders below which source lines and comments are read; none by default, as the dump says which files."""
    notes: tuple[str, ...] = ()
    """Further notes for the report."""
    timeout: float | None = None
    """Seconds that one module may take; None means by the size of its files."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""


def ignore_progress(progress: Progress) -> None:
    """Ignores the progress, for callers that do not report any."""
    del progress


def split_targets(target: str | Sequence[str]) -> tuple[str, ...]:
    """Names, or one text with commas between them, each once and in their order; InputError where there is none."""
    names = [target] if isinstance(target, str) else target
    parts = tuple(dict.fromkeys(part.strip() for name in names for part in name.split(",") if part.strip()))
    if not parts:
        raise InputError(f"expected a target such as `h100` but got {target!r}")
    return parts
