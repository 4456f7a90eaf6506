"""The options of `bisect`, as data."""

from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.compile.toolchain_table import DEFAULT
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.replay.plan import Bounds
from ligerdiag.report.bisection import Axis

LIMIT = 200
"""Trials of one search, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """Options of `bisect`: the case, the axis, and how to search."""

    selectors: tuple[str, ...]
    """Ids, globs, files, `module:name`; each case is bisected by itself."""
    axis: Axis
    targets: tuple[str, ...] = ("h100",)
    """Names of targets, or paths of target descriptions; each is searched by itself, but for `targets`, which compares
    them (and takes all there are for ())."""
    toolchain: str = DEFAULT
    """Compile with that one; see `list_toolchains`."""
    toolchains: tuple[str, ...] = ()
    """The toolchains to go through, in that order; () means all of the table, oldest first, and the default one."""
    create: bool = False
    """Make the environments that are missing; each takes some GB."""
    replay: bool = True
    """Replay what fits the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    device: bool = False
    """Also run on the GPUs of this machine, on axes that use them."""
    limit: int = LIMIT
    """Trials of one search, at most."""
    jobs: int | None = None
    """Compile and replay workers; None means one a core."""
    timeout: float = 300.0
    """Seconds that one trial may take to compile, and again to replay."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
