"""From the options of a command to judgements: what is known of the cases of one run, also on this machine's GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.selectors import Selector
from ligerdiag.compile.service import CompileResult
from ligerdiag.device.device_service import run_judged_cases
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.judgement.suppression_entry import ConfigEntry
from ligerdiag.model.findings import DeviceRun, Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import (
    Identity,
    Inspection,
    Judged,
    OnProgress,
    Progress,
    leave_undone,
    refuse,
    refuse_for_bug,
)
from ligerdiag.replay.replay_service import ReplayOptions, ReplayTask
from ligerdiag.replay.replay_worker import ALONE_SECONDS, Bounds
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.pool import Pool


def list_declared(effects: Sequence[DeclaredEffects]) -> tuple[str, ...]:
    """Returns a line for each declaration: a verdict can hang on it."""
    told = {one.name: _BY_NUMBER if one.writes is not None else _BY_ALIAS for one in effects}
    return tuple(f"what `{name}` does is declared, and {believed}" for name, believed in told.items())


_BY_NUMBER = "believed where it could not be told"
_BY_ALIAS = "believed of a library's calls without side effects: they overwrite what their outputs alias, and no more"


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
    orders: int = 0
    """Other legal orders of each schedule in which the replay runs it, too."""
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
    """Seconds that one module may take, and again its replay; None means by the size of its files, and by an estimate."""
    replay: bool = True
    """Replay the modules in which a kernel overwrites something, where that fits the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    seed: int = 0
    """Of the arguments that a replay draws."""
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


def expect_of(case: CaseSpec, toolchain: Toolchain) -> CaseSpec:
    """Returns the case with what is expected when this toolchain compiles it."""
    if toolchain.name not in case.expected_elsewhere:
        return case
    return replace(case, expected=case.expected_elsewhere[toolchain.name], expected_rules=None)


def find_file(source: Source) -> str:
    """Returns the file that defines the source's cases; empty where it is a module that is not below the folder of the
    project."""
    if source.file or not source.module:
        return source.file
    path = Path(source.root, *source.module.partition(":")[0].split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((str(candidate) for candidate in candidates if candidate.is_file()), "")


def name_source(source: Source) -> str:
    """Returns the source in a report: a file below the current folder as it is called from there."""
    path = Path(source.file)
    return str(path.relative_to(Path.cwd())) if source.file and path.is_relative_to(Path.cwd()) else str(source)


def refuse_source(
    name: str, target: str, toolchain: str, error: LigerdiagError, source: Source | None = None
) -> Judged:
    """Returns the record of a file without cases, as it cannot be read; the other files stand."""
    file = "" if source is None else find_file(source)
    return refuse(Identity(id=name, target=target, toolchain=toolchain, source=file), error)


def judge_result(
    result: CompileResult,
    toolchain: str,
    cache: Cache,
    declared: Sequence[DeclaredEffects],
    readers: Pool | None,
    *,
    neighbourhoods: bool = False,
    view: bool = False,
) -> Judged:
    """Returns what the schedule says. neighbourhoods, view: as in `inspect_artifact`."""
    started, cached = perf_counter(), result.cached
    identity = _describe(result.case, result.target, toolchain)
    if result.artifact is None:
        return refuse(identity, result.error or LigerdiagError("no artifact"), result.seconds, cached=cached)
    identity = replace(identity, artifact=str(result.artifact.directory))
    try:
        inspection = inspect_artifact(
            result.artifact,
            effects_cache=cache.root / "effects",
            declared=declared,
            readers=readers,
            neighbourhoods=neighbourhoods,
            view=view,
        )
    except LigerdiagError as error:
        return refuse(identity, error, result.seconds + perf_counter() - started, cached=cached)
    except Exception as fault:
        return refuse_for_bug(identity, fault, result.seconds, cached=cached)
    seconds = result.seconds + perf_counter() - started
    return Judged(identity=identity, result=inspection, seconds=seconds, cached=cached)


def _describe(case: CaseSpec, target: str, toolchain: str) -> Identity:
    return Identity(
        id=case.id,
        target=target,
        toolchain=toolchain,
        about=case.about,
        expected=case.expected,
        expected_rules=case.expected_rules,
        source=find_file(case.source),
    )


type RunKey = tuple[Source, str, str]
"""Source, case and target."""


@dataclass(slots=True, kw_only=True)
class Run:
    """The known results of the cases so far. Filled step by step, so that an interrupted run keeps the results it
    has."""

    order: tuple[RunKey, ...] = ()
    cases: dict[tuple[Source, str], CaseSpec] = field(default_factory=dict[tuple[Source, str], CaseSpec])
    judged: dict[RunKey, Judged] = field(default_factory=dict["RunKey", Judged])
    replays: dict[RunKey, Replay] = field(default_factory=dict["RunKey", Replay])
    devices: dict[RunKey, DeviceRun] = field(default_factory=dict["RunKey", DeviceRun])
    tasks: list[ReplayTask] = field(default_factory=list[ReplayTask])

    def mark_undone(self, ending: Ending, toolchain: str, *, replay: bool, device: bool) -> None:
        """Says of every case what was not done before the run was ended. replay, device: whether they were
        requested."""
        why = f"the run was ended by {ending.value} before its turn"
        for key in self.order:
            if key not in self.judged:
                source, case_id, target = key
                self.judged[key] = leave_undone(_describe(self.cases[source, case_id], target, toolchain), why)
            elif isinstance(self.judged[key].result, Inspection):
                if replay:
                    self.replays.setdefault(key, Replay(state=ReplayState.NOT_DONE, reason=why))
                if device:
                    self.devices.setdefault(key, DeviceRun(device="", count=0, runs=0, error=why))


DRAWS = 3
"""Different draws of the arguments that a device runs; one, where replaying them takes long."""
FULL_TIMEOUT = 1800.0
"""Seconds that a case may take on the device and its comparison, when bounds are lifted."""


def make_replay_options(options: CheckOptions) -> ReplayOptions:
    """Returns the options of a replay that these options ask for."""
    return ReplayOptions(
        bounds=options.bounds,
        timeout=options.timeout,
        jobs=options.jobs,
        rows=options.rows,
        orders=options.orders,
        refresh=options.refresh,
    )


def run_on_devices(
    run: Run, options: CheckOptions, cache: Cache, tell: OnProgress
) -> Iterator[tuple[RunKey, DeviceRun]]:
    """Runs each case once, for however many targets it was compiled."""
    cases = {(task.case.source, task.case.id): task.case for task in run.tasks}
    large = {key[:2] for key, one in run.replays.items() if one.cut or one.estimated_seconds > ALONE_SECONDS}
    runs = run_judged_cases(
        list(cases.values()),
        cache=cache,
        effects=options.effects,
        replay=make_replay_options(options) if options.replay else None,
        timeout=max(options.timeout, FULL_TIMEOUT if options.bounds.full else 0.0),
        draws=lambda case: 1 if (case.source, case.id) in large else DRAWS,
        tell=tell,
    )
    for case, device in runs:
        for key in run.order:
            if key[:2] == (case.source, case.id) and key in run.judged:
                yield key, device
