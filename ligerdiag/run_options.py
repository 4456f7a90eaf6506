"""The options of `check`, `record-tuning`, `inspect`, `bisect`, `reduce`, `diff` and `compare`, each declared once, with its
spelling and its help text.

`cli.options.make_command` turns the fields that have an `Option` into options for typer. The other fields are filled in
by the command: from [tool.ligerdiag], or from options of the command line alone.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from ligerdiag.compile.cases.selectors import Selector
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.model.memory_limits import MemoryBudgets
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.allowed.suppressions import ConfigEntry
from ligerdiag.report.comparisons import Axis
from ligerdiag.toolchains.toolchain_table import DEFAULT

DEFAULT_TARGETS = ("h100",)


class Option:
    """The name and the help text that a field has as an option of the command line."""

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


Jobs = Annotated[
    int | None, Option("--jobs", "-j", min=1, metavar="N", help="Number of worker processes. [default: one per core]")
]
Cache = Annotated[
    Path | None,
    Option(
        "--cache-dir", metavar="DIR", help="Folder in which to cache compiled programs. [default: the user's cache]"
    ),
]
"""Folder of the cache; None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
_TIMEOUT = "Time limit for each compile, inspection or replay of one program."
Timeout = Annotated[float, Option("--timeout", min=0.001, metavar="SECONDS", help=_TIMEOUT)]
TimeoutBySize = Annotated[
    float | None,
    Option(
        "--timeout",
        min=0.001,
        metavar="SECONDS",
        help=f"{_TIMEOUT} [default: 300 for a compile, otherwise by the program's size]",
    ),
]
"""The option `--timeout` of the commands that read dumps; all other commands have `Timeout`."""
Targets = Annotated[
    tuple[str, ...],
    Option("--target", metavar="NAMES", help="GPUs to compile for, such as a100,h100. Repeatable. [default: h100]"),
]
BisectTargets = Annotated[
    tuple[str, ...],
    Option(
        "--target",
        metavar="NAMES",
        help="GPUs to compile for, such as a100,h100. Repeatable. [default: h100; with --over targets: a100,b200,h100,h200]",
    ),
]
Replays = Annotated[bool, Option("--replay/--no-replay", help="Replay the schedules on the CPU, on concrete inputs.")]
Opaque = Annotated[
    bool,
    Option(
        "--opaque",
        help="Replay all programs again, in f64, with opaque functions that read and write the same buffers in place of "
        "kernels and library calls. By default, only programs that replay does not cover or cannot decide are replayed so.",
    ),
]
ComparedModules = Annotated[
    str,
    Option(
        "--module", metavar="GLOB", help="With dumps: compare only modules whose name matches GLOB, such as '*step*'."
    ),
]
ToolchainName = Annotated[
    str,
    Option(
        "--toolchain",
        metavar="NAME",
        help="Compile with the versions of this toolchain; `ligerdiag toolchains` lists them.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The options of `check`: which cases to check, and how."""

    selectors: Annotated[
        tuple[Selector, ...], Option(help="Cases, as ids, globs, files, or module:name.", show_default=False)
    ] = ()
    """The cases to check; without any, all cases of the folder `cases`."""
    targets: Targets = DEFAULT_TARGETS
    """Names of targets, or paths of target descriptions."""
    jobs: Jobs = None
    timeout: Timeout = 300.0
    """Seconds that compiling one case may take, and that its replay may take."""
    cache_directory: Cache = None
    refresh: Annotated[
        bool,
        Option(
            "--refresh",
            help="Compile and replay again, even if the cache has the results: for a program that depends on the time,"
            " random numbers, or files that a C library reads, which the cache does not see.",
        ),
    ] = False
    replay: Replays = True
    """Whether to replay the programs whose estimated time and memory are within `bounds`."""
    bounds: Bounds = field(default_factory=Bounds)
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The bytes of memory, and the bytes copied in one call, that the user allows each program."""
    rows: Annotated[
        bool,
        Option("--rows", help="Count the fresh and stale rows of each output; with -v, the report prints both counts."),
    ] = False
    orders: Annotated[
        int,
        Option(
            "--orders",
            min=0,
            metavar="N",
            help="Replay each schedule also in N more orders that its dependences allow.",
        ),
    ] = 0
    opaque: Opaque = False
    device: Annotated[
        bool, Option("--device", help="Also compile for this machine's GPUs, run there, and compare the results.")
    ] = False
    source_roots: Annotated[
        tuple[Path, ...] | None,
        Option(
            "--source-root",
            metavar="DIR",
            help="Show source lines from files below DIR, and obey suppressions in their comments. Repeatable. [default: "
            "this repository, or this folder if it is in no repository; and the cases' own projects]",
        ),
    ] = None
    """Folders whose files may be shown, and read for comments that suppress findings. None means the repository of the
    working directory (or the working directory, if it is in none) and the folders that the cases' imports start from,
    including those of PYTHONPATH.
    """
    baseline: Annotated[
        Path | None,
        Option(
            "--baseline",
            metavar="FILE",
            help="Report where schedules and memory differ from the baseline FILE (LD015, LD034).",
        ),
    ] = None
    known: Annotated[
        Path | None,
        Option("--known", metavar="FILE", help="Allow the findings that FILE lists; see --record-known."),
    ] = None
    autotune_results: Annotated[
        Path | None,
        Option(
            "--autotune-results",
            metavar="FILE",
            help="Compile with the choices that XLA's autotuner made on a GPU; see `ligerdiag record-tuning`.",
        ),
    ] = None
    """The file with the choices, as XLA writes it; None compiles without them."""
    toolchain: ToolchainName = DEFAULT
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""
    record: bool = False
    """Whether to compute the data of a baseline, too, because the caller will record the report as a baseline."""
    view: bool = False
    """Whether to compute the data of the HTML pages, too."""
    usual_targets: tuple[str, ...] = DEFAULT_TARGETS
    """Targets that the project is checked for by default. A run that leaves out one of them reports no unused
    suppressions, since a missing target may need them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """The options of `record-tuning`: the cases to compile on this machine's GPUs, and the file to write."""

    selectors: Annotated[
        tuple[str, ...], Option(help="Cases, as ids, globs, files, or module:name.", show_default=False)
    ] = ()
    """The cases to compile; without any, all cases of the folder `cases`."""
    output: Annotated[
        Path,
        Option("--output", metavar="FILE", help="File to write: text if its name ends in .pbtxt or .txt, else binary."),
    ]
    timeout: Timeout = 600.0
    """Seconds that compiling one case may take."""
    cache_directory: Cache = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """The options of `inspect`: which modules to inspect, and how."""

    paths: Annotated[tuple[Path, ...], Option(help="Directories and files to inspect.", show_default=False)]
    """The paths to inspect: dump directories, files with a module, artifact directories."""
    module: Annotated[
        str, Option("--module", metavar="GLOB", help="Inspect only modules whose name matches GLOB, such as '*step*'.")
    ] = ""
    timeout: TimeoutBySize = None
    """Seconds of processor time that inspecting one module may take, and that its replay may take. None derives the
    first limit from the size of the module's files, and the second one from an estimate.
    """
    cache_directory: Annotated[
        Path | None, Option("--cache-dir", metavar="DIR", help="Folder in which to cache the effects of kernels.")
    ] = None
    """Folder of the cache; None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    replay: Replays = True
    """Whether to replay the modules that have a hidden write, and whose estimated time and memory are within `bounds`."""
    bounds: Bounds = field(default_factory=Bounds)
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The bytes of memory, and the bytes copied in one call, that the user allows each module."""
    opaque: Opaque = False
    seed: Annotated[int, Option("--seed", min=0, metavar="N", help="Seed for the random arguments of a replay.")] = 0
    targets: Annotated[
        tuple[str, ...],
        Option(
            "--target",
            metavar="NAMES",
            help="With StableHLO: GPUs to compile for, such as a100,h100. Repeatable. [default: h100]",
        ),
    ] = ()
    """Names of targets, or paths of target descriptions, for which StableHLO is compiled; () means the default."""
    toolchain: Annotated[
        str,
        Option(
            "--toolchain",
            metavar="NAME",
            help="With StableHLO: compile with the versions of this toolchain; `ligerdiag toolchains` lists them.",
            show_default=False,
        ),
    ] = ""
    """The toolchain with which StableHLO is compiled; empty means the default one."""
    source_roots: Annotated[
        tuple[Path, ...],
        Option(
            "--source-root",
            metavar="DIR",
            help="Show source lines from files below DIR, and obey suppressions in their comments. Repeatable. "
            "[default: none]",
        ),
    ] = ()
    """Folders whose files may be shown, and read for comments that suppress findings. Empty by default, because the
    paths of the files come from the dump, which a stranger may have made.
    """
    suppress: tuple[ConfigEntry, ...] = ()
    """Findings that the configuration file allows; comments in the code are always read."""
    effects: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""
    neighbourhoods: bool = False
    """Whether to compute, too, which instructions read the values that kernels overwrite."""
    view: bool = False
    """Whether to compute the data of the HTML pages, too."""
    notes: tuple[str, ...] = ()
    """Further notes for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """The options of `bisect`: the case, the axis (the property to vary, such as XLA's flags), and how to search."""

    selectors: Annotated[
        tuple[str, ...], Option(metavar="CASE...", help="Cases, as ids, globs, files, or module:name.")
    ]
    """The cases to bisect, each by itself."""
    axis: Annotated[Axis, Option("--over", help="Property to vary from compile to compile.")]
    targets: BisectTargets = DEFAULT_TARGETS
    """Names of targets, or paths of target descriptions. There is one search for each target, except along the axis
    `targets`, which compares them with each other; for this axis, () means a100, b200, h100 and h200.
    """
    toolchain: ToolchainName = DEFAULT
    toolchains: Annotated[
        tuple[str, ...],
        Option(
            "--toolchains",
            metavar="NAMES",
            help="With --over toolchains: the toolchains to compare, in this order. [default: all that exist]",
        ),
    ] = ()
    """Names of the toolchains to compare. () means the toolchains in ligerdiag's table `toolchains.toml`, in its order,
    and then the default one; unless `create` is set, toolchains without an environment are left out.
    """
    create: Annotated[bool, Option("--create", help="With --over toolchains: create missing environments.")] = False
    """Whether to create missing environments of toolchains, of which each takes some GB."""
    limit: Annotated[
        int, Option("--limit", min=1, metavar="N", help="Largest number of trials (ways to compile) of one search.")
    ] = 200
    jobs: Jobs = None
    timeout: Timeout = 300.0
    """Seconds that the compile of one trial may take, and that its replay may take."""
    cache_directory: Cache = None
    replay: Replays = True
    """Whether to replay the programs whose estimated time and memory are within `bounds`."""
    bounds: Bounds = field(default_factory=Bounds)
    device: Annotated[
        bool, Option("--device", help="With --over mitigation: time each mitigation on this machine's GPUs.")
    ] = False
    effects: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceOptions:
    """The options of `reduce`: the case, the symptom to keep (such as a finding), and where the result goes."""

    selector: Annotated[
        str,
        Option(
            metavar="CASE|DUMP",
            help="A case, as an id, a file, or module:name; or a dump of one module, as a folder or a file.",
            show_default=False,
        ),
    ]
    """The case or dump to reduce; the selector must match exactly one."""
    output: Annotated[
        Path,
        Option(
            "--output",
            metavar="FILE",
            help="Python file to write. Two more files get its name with the suffixes .hlo and .steps.",
        ),
    ] = Path("reduced.py")
    rule: Annotated[
        str,
        Option(
            "--rule",
            metavar="RULE",
            help="The reduced program must still have a finding of this rule. [default: the most severe finding]",
        ),
    ] = ""
    numbers: Annotated[
        bool, Option("--numbers", help="Replay each smaller program, too, and keep it only if its numbers are wrong.")
    ] = False
    target: Annotated[str, Option("--target", metavar="NAME", help="GPU to compile for.")] = "h100"
    toolchains: Annotated[
        tuple[str, ...],
        Option(
            "--toolchains",
            metavar="NAMES",
            help="Toolchain to compile with. With two, such as 0.6,default, the program keeps the difference in verdicts.",
        ),
    ] = ()
    """Names of one or two toolchains; () means the default one."""
    jobs: Jobs = None
    timeout: Timeout = 300.0
    """Seconds that compiling one candidate may take, and that its replay may take."""
    cache_directory: Cache = None
    bounds: Bounds = field(default_factory=Bounds)
    effects: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """The options of `diff`: what to compare, and how."""

    subjects: Annotated[
        tuple[str, ...],
        Option(
            metavar="A B | CASE...",
            help="Two paths to compare; or cases, compiled for two GPUs or with two toolchains.",
            show_default=False,
        ),
    ] = ()
    """Two paths to compare; or cases, if two targets or two toolchains are given."""
    targets: Annotated[
        tuple[str, ...],
        Option("--targets", metavar="X,Y", help="The GPU to compile for, or two GPUs to compare. [default: h100]"),
    ] = ()
    """The target of both sides, or one for each side."""
    toolchains: Annotated[
        tuple[str, ...],
        Option("--toolchains", metavar="X,Y", help="The toolchain to compile with, or two toolchains to compare."),
    ] = ()
    """The toolchain of both sides, or one for each side."""
    module: ComparedModules = ""
    jobs: Jobs = None
    timeout: TimeoutBySize = None
    """Seconds that one compile may take, or the reading of one module; None means the defaults of `check` and
    `inspect`.
    """
    cache_directory: Cache = None
    effects: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""
    notes: tuple[str, ...] = ()
    """Further notes for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The options of `compare`: the two reports to compare, and how."""

    old: Annotated[
        Path,
        Option(metavar="OLD", help="The older JSON report, or a path that `inspect` accepts.", show_default=False),
    ]
    new: Annotated[
        Path,
        Option(metavar="NEW", help="The newer JSON report, or a path that `inspect` accepts.", show_default=False),
    ]
    module: ComparedModules = ""
    timeout: TimeoutBySize = None
    """Seconds that inspecting one module of a dump may take; None derives the limit from the size of its files."""
    cache_directory: Annotated[
        Path | None, Option("--cache-dir", metavar="DIR", help="Folder in which to cache the effects of kernels.")
    ] = None
    """Folder of the cache; None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    effects: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""
    notes: tuple[str, ...] = ()
    """Further notes for the comparison."""
