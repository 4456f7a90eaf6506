"""The options of `check`, `inspect`, `bisect`, `diff` and `compare`, each declared once, with its words on the command line.

`cli.options.make_command` turns the fields that have a Option into options for typer. The other fields are filled in by
the command: from [tool.ligerdiag], or from options of the command line alone.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from ligerdiag.compile.cases.selectors import Selector
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.model.memory_limits import MemoryBudgets
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.comparisons import Axis
from ligerdiag.report.suppressions import ConfigEntry
from ligerdiag.toolchains.toolchain_table import DEFAULT

DEFAULT_TARGETS = ("h100",)


class Option:
    """How the command line spells and explains a field."""

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        min: float | None = None,
        show_default: bool = True,
        hidden: bool = False,
    ) -> None:
        """names: spellings such as `--jobs`, `-j`; none for a positional argument. min: the least number allowed."""
        self.names, self.help, self.metavar, self.min = names, help, metavar, min
        self.show_default, self.hidden = show_default, hidden


Jobs = Annotated[int | None, Option("--jobs", "-j", min=1, metavar="N", help="Workers. [default: one a core]")]
Cache = Annotated[
    Path | None, Option("--cache-dir", metavar="DIR", help="Where artifacts are kept. [default: the user's cache]")
]
"""None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
Targets = Annotated[
    tuple[str, ...],
    Option("--target", metavar="NAMES", help="GPUs to compile for: a100,h100. Repeatable. [default: h100]"),
]
BisectTargets = Annotated[
    tuple[str, ...],
    Option(
        "--target",
        metavar="NAMES",
        help="GPUs to compile for: a100,h100. Repeatable. [default: h100; all for --over targets]",
    ),
]
Replays = Annotated[bool, Option("--replay/--no-replay", help="Replay on numbers.")]
ToolchainName = Annotated[
    str, Option("--toolchain", metavar="NAME", help="Compile with these versions, see `ligerdiag toolchains`.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Options of `check`: which cases to check, and how."""

    selectors: Annotated[tuple[Selector, ...], Option(help="Ids, globs, files, module:name.", show_default=False)] = ()
    """Without any, all cases of the folder `cases`."""
    targets: Targets = DEFAULT_TARGETS
    """Names of targets, or paths of target descriptions."""
    jobs: Jobs = None
    timeout: Annotated[
        float, Option("--timeout", min=0.001, metavar="SECONDS", help="Longest to compile a case, and to replay it.")
    ] = 300.0
    """Seconds that one case may take to compile, and again to replay."""
    cache_directory: Cache = None
    refresh: Annotated[bool, Option("--refresh", help="Compile and replay again despite the cache.")] = False
    replay: Replays = True
    """Whether to replay programs within the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The memory and the copies that the user allows each program."""
    rows: Annotated[bool, Option("--rows", help="Count the fresh and stale rows of each output; -v shows them.")] = (
        False
    )
    orders: Annotated[
        int,
        Option("--orders", min=0, metavar="N", help="Replay each schedule in N other legal orders, too."),
    ] = 0
    device: Annotated[bool, Option("--device", help="Compile for this machine's GPUs, too, run there and compare.")] = (
        False
    )
    source_roots: Annotated[
        tuple[Path, ...] | None,
        Option(
            "--source-root",
            metavar="DIR",
            help="Show source lines of files below DIR and obey their comments. Repeatable. [default: this repository, or "
            "this folder outside one, and the cases' own projects]",
        ),
    ] = None
    """None means the repository of the current folder, or that folder where it is in none, and the folders that the
    cases' imports start from, PYTHONPATH's among them."""
    baseline: Annotated[
        Path | None, Option("--baseline", metavar="FILE", help="Report drift since FILE was recorded (LD015, LD034).")
    ] = None
    toolchain: ToolchainName = DEFAULT
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    record: bool = False
    """Whether to compute the data of a baseline, too: the caller records the report."""
    view: bool = False
    """Whether to compute the data of the HTML pages, too."""
    usual_targets: tuple[str, ...] = DEFAULT_TARGETS
    """Targets that the project is checked for by default; without all of them no suppression is called unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """Options of `inspect`: which modules to inspect, and how."""

    paths: Annotated[tuple[Path, ...], Option(help="Directories and files.", show_default=False)]
    """Dump directories, files with a module, artifact directories."""
    module: Annotated[
        str, Option("--module", metavar="GLOB", help="Only modules whose name matches, such as '*step*'.")
    ] = ""
    timeout: Annotated[
        float | None,
        Option(
            "--timeout",
            min=0.001,
            metavar="SECONDS",
            help="Longest for a module, and for its replay. [default: by its size]",
        ),
    ] = None
    """Seconds that one module may take, and again its replay; None means by the size of its files, and by an estimate.
    """
    cache_directory: Annotated[
        Path | None, Option("--cache-dir", metavar="DIR", help="Where kernels' effects are kept.")
    ] = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    replay: Replays = True
    """Whether to replay the modules with a hidden write, within the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The memory and the copies that the user allows each module."""
    seed: Annotated[int, Option("--seed", min=0, metavar="N", help="Seed of the arguments that a replay draws.")] = 0
    source_roots: Annotated[
        tuple[Path, ...],
        Option(
            "--source-root",
            metavar="DIR",
            help="Show source lines of files below DIR and obey their comments. Repeatable. [default: none]",
        ),
    ] = ()
    """None by default, as the dump names the files."""
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    neighbourhoods: bool = False
    """Whether to compute, too, which instructions read the overwritten values."""
    view: bool = False
    """Whether to compute the data of the HTML pages, too."""
    notes: tuple[str, ...] = ()
    """Further notes for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """Options of `bisect`: the case, the axis, and how to search."""

    selectors: Annotated[tuple[str, ...], Option(metavar="CASE...", help="Ids, globs, files, module:name.")]
    """Each case is bisected by itself."""
    axis: Annotated[Axis, Option("--over", help="What to vary.")]
    targets: BisectTargets = DEFAULT_TARGETS
    """Names of targets, or paths of target descriptions. Each is searched by itself, except over `targets`, which
    compares them (all there are for ())."""
    toolchain: ToolchainName = DEFAULT
    toolchains: Annotated[
        tuple[str, ...],
        Option(
            "--toolchains",
            metavar="NAMES",
            help="With --over toolchains: those to compare, in that order. [default: all that exist]",
        ),
    ] = ()
    """() means all of the table, oldest first, and the default one."""
    create: Annotated[bool, Option("--create", help="With --over toolchains: create missing environments.")] = False
    """Each takes some GB."""
    limit: Annotated[int, Option("--limit", min=1, metavar="N", help="Trials of one search, at most.")] = 200
    jobs: Jobs = None
    timeout: Annotated[
        float, Option("--timeout", min=0.001, metavar="SECONDS", help="Longest to compile once, and to replay it.")
    ] = 300.0
    """Seconds that one trial may take to compile, and again to replay."""
    cache_directory: Cache = None
    replay: Replays = True
    """Whether to replay programs within the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    device: Annotated[bool, Option("--device", help="With --over mitigation: time each on this machine's GPUs.")] = (
        False
    )
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Options of `diff`: what to compare, and how."""

    subjects: Annotated[
        tuple[str, ...], Option(metavar="A B | CASE...", help="Two paths, or cases.", show_default=False)
    ] = ()
    """Two paths; or, with two targets or toolchains, cases."""
    targets: Annotated[
        tuple[str, ...], Option("--targets", metavar="X,Y", help="GPUs to compile for. [default: h100]")
    ] = ()
    """One for both sides, or one for each."""
    toolchains: Annotated[
        tuple[str, ...],
        Option("--toolchains", metavar="X,Y", help="Versions to compile with, see `ligerdiag toolchains`."),
    ] = ()
    """One for both sides, or one for each."""
    module: Annotated[str, Option("--module", metavar="GLOB", help="Of a dump: the module whose name matches.")] = ""
    jobs: Jobs = None
    timeout: Annotated[
        float | None, Option("--timeout", min=0.001, metavar="SECONDS", help="Longest for one compile. [default: 300]")
    ] = None
    """Seconds that one compile may take, or one module to be read; None means as of `check` and `inspect`."""
    cache_directory: Cache = None
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    notes: tuple[str, ...] = ()
    """Further notes for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Options of `compare`: the two reports."""

    old: Annotated[Path, Option(metavar="OLD", help="JSON report, or a path for `inspect`.", show_default=False)]
    new: Annotated[Path, Option(metavar="NEW", help="The same, of the newer state.", show_default=False)]
    module: Annotated[
        str, Option("--module", metavar="GLOB", help="Of a dump: only modules whose name matches, such as '*step*'.")
    ] = ""
    timeout: Annotated[
        float | None,
        Option(
            "--timeout", min=0.001, metavar="SECONDS", help="Of a dump: longest for a module. [default: by its size]"
        ),
    ] = None
    """Seconds that one module may take; None means by the size of its files."""
    cache_directory: Annotated[
        Path | None, Option("--cache-dir", metavar="DIR", help="Where kernels' effects are kept.")
    ] = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    notes: tuple[str, ...] = ()
    """Further notes for the comparison."""
