"""`inspect`: finds modules that somebody else compiled, and judges one after the other."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter
from typing import Protocol

from ligerdiag.api.judging import ignore_progress, list_declared
from ligerdiag.api.stablehlo_files import check_stablehlo, is_stablehlo, leave_stablehlo, require_stablehlo
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import Dump, ModuleCounter, ModuleFiles, count_here, find_modules
from ligerdiag.ending import Ending, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.inspection.module_inspection import UNKNOWN_TARGET, InspectionRequest, ModuleOutcome
from ligerdiag.model.findings import OpaqueReplay, Replay, ReplayState, Verdict
from ligerdiag.model.report import (
    CheckReport,
    Identity,
    Inspection,
    Judged,
    Noun,
    OnProgress,
    Progress,
    Refusal,
    leave_undone,
)
from ligerdiag.report.allowed.suppressions import SeenScope, Suppressions
from ligerdiag.report.status import conclude
from ligerdiag.run_options import InspectOptions
from ligerdiag.sandbox.inspector import SandboxedInspector
from ligerdiag.source_text import is_below, list_foreign_folders, resolve_roots
from ligerdiag.text import count_of, list_first
from ligerdiag.toolchains.gpu_targets import list_unconfirmed
from ligerdiag.untrusted_files import MAXIMUM_FOLDER_DEPTH

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSelection:
    """The modules and artifacts below the given paths that a run is to inspect."""

    modules: tuple[ModuleFiles, ...]
    artifacts: tuple[Path, ...]
    notes: tuple[str, ...]
    """One line for each reason why some modules are left out."""


def select_modules(
    paths: Sequence[Path], pattern: str = "", count: Callable[[Path], int | None] = count_here
) -> DumpSelection:
    """Returns the modules and artifacts below the paths. If `pattern` is given, returns only modules whose id, or a part of
    it, matches this glob.

    count: function that returns the number of modules in a text file, which may hold several. Raises InputError for a
    path that does not exist or holds no module, and for a pattern that matches nothing.
    """
    counter = ModuleCounter(count)
    dumps = [find_modules(path, counter) for path in dict.fromkeys(paths)]
    for path, dump in zip(dict.fromkeys(paths), dumps, strict=True):
        if not dump.modules and not dump.artifacts:
            raise InputError(_describe_empty(path, dump))
    found = _name_apart([(path, dump) for path, dump in zip(dict.fromkeys(paths), dumps, strict=True)])
    modules = tuple(module for module in found if _matches(module.id, pattern))
    artifacts = tuple(path for dump in dumps for path in dump.artifacts) if not pattern else ()
    if not modules and not artifacts:
        names = list_first([f"`{module.id}`" for module in found], SHOWN)
        raise InputError(f"no module matches `{pattern}`: there are {names}")
    notes: list[str] = []
    if pattern and len(modules) < len(found):
        notes.append(f"{count_of(len(found) - len(modules), 'module')} left out, because `{pattern}` does not match")
    notes += _describe_rest(dumps)
    if counter.unsplit:
        notes.append(
            f"{count_of(counter.unsplit, 'file')} not searched for further modules: the files together are too large"
        )
    return DumpSelection(modules=modules, artifacts=artifacts, notes=tuple(notes))


def _matches(module: str, pattern: str) -> bool:
    """Returns whether the glob matches a module's id, the last part of the id, or the name that XLA gave; an empty glob
    always does. module: the id.
    """
    last = module.rpartition("/")[2]
    return not pattern or any(fnmatchcase(text, pattern) for text in (module, last, last.partition(".")[2]))


def _name_apart(dumps: Sequence[tuple[Path, Dump]]) -> tuple[ModuleFiles, ...]:
    """Returns the modules of all dumps. If modules of several dumps have the same id, each of them gets the path of its
    dump as a prefix of its id. Modules of one dump that have the same id differ in their targets.
    """
    ids = Counter(id for _, dump in dumps for id in {module.id for module in dump.modules})
    return tuple(
        replace(module, id=f"{path}/{module.id}" if path.is_dir() else str(path)) if ids[module.id] > 1 else module
        for path, dump in dumps
        for module in dump.modules
    )


def _describe_empty(path: Path, dump: Dump) -> str:
    if dump.unscheduled:
        number = count_of(dump.unscheduled, "module")
        return f"`{path}` holds {number} before optimizations and none after: `…after_optimizations…` is missing"
    if path.is_dir() and any(path.glob("module_*")):  # XLA writes it into each folder, whatever the flags
        return f"no HLO module in `{path}`, though XLA wrote there: dump again with `--xla_dump_hlo_as_proto` as well"
    return f"no HLO module in `{path}`: expected what `--xla_dump_to` writes, as protobuf or text, or a file with StableHLO"


def _describe_rest(dumps: Sequence[Dump]) -> list[str]:
    notes: list[str] = []
    unscheduled, snapshots, links, deep, same = (
        sum(dump.unscheduled for dump in dumps),
        sum(dump.snapshots for dump in dumps),
        sum(dump.links for dump in dumps),
        sum(dump.deep for dump in dumps),
        sum(dump.same for dump in dumps),
    )
    if unscheduled:
        notes.append(f"{count_of(unscheduled, 'module')} dumped only before optimizations, not inspected")
    if snapshots:
        notes.append(f"{count_of(snapshots, 'snapshot')} between passes, not read")
    if links:
        notes.append(f"{count_of(links, 'symbolic link')} not followed")
    if same:
        notes.append(f"{count_of(same, 'file')} left out, because they are other names of files that are inspected")
    if deep:
        notes.append(
            f"{count_of(deep, 'folder')} more than {MAXIMUM_FOLDER_DEPTH} levels down, not searched: inspect one by its path"
        )
    return notes


class Inspector(Protocol):
    """Judges one module or artifact: `ModuleInspector` does so in this process, `sandbox` in a sandboxed one."""

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Judges one module of a dump."""
        ...

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Judges one artifact. directory: the folder of the artifact."""
        ...

    def replay(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Replays the module or artifact that was inspected last. Call it only if the outcome of that inspection has
        `replay_seconds` above 0. subject: this module or artifact. seconds: the time limit, which is `replay_seconds`.
        """
        ...

    def replay_opaquely(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Replays the module or artifact again, with opaque functions (stand-ins that read and write the same buffers)
        instead of its custom calls. Call it only if the last outcome has `opaque_seconds` above 0.
        """
        ...


@dataclass(slots=True)
class InspectedModules:
    """The outcomes of the selected modules so far. They are added one by one, so that Ctrl-C leaves a partial result."""

    selection: DumpSelection
    judged: list[Judged] = field(default_factory=list[Judged])
    replays: list[Replay | None] = field(default_factory=list[Replay | None])
    """The replay of each entry of `judged`; None if there is none."""
    notes: list[str] = field(default_factory=list[str])
    idle: int = 0
    """Number of modules without custom calls, which have nothing to check."""
    unassigned: int = 0
    """Number of modules without custom calls whose buffer assignment is missing or cannot be read."""
    done: int = 0
    """Number of artifacts and modules that have been inspected completely."""

    @property
    def total(self) -> int:
        """Returns the number of artifacts and modules to inspect."""
        return len(self.selection.artifacts) + len(self.selection.modules)

    def run(self, inspector: Inspector) -> Iterator[tuple[int, str]]:
        """Inspects the artifacts, then the modules; yields (number, name) of each before it is inspected. The numbers
        start at 0 and count artifacts and modules together.
        """
        for number, directory in enumerate(self.selection.artifacts):
            yield number, directory.name
            self._add(inspector.inspect_artifact(directory), directory, inspector)
        for number, files in enumerate(self.selection.modules, start=len(self.selection.artifacts)):
            yield number, files.id
            self._add(inspector.inspect_module(files), files, inspector)

    def mark_undone(self, ending: Ending) -> None:
        """Adds a record for each artifact and module that was not inspected completely because an event ended the run."""
        left = [Identity(id=str(directory), target=UNKNOWN_TARGET) for directory in self.selection.artifacts]
        left += [Identity(id=one.id, target=one.target or UNKNOWN_TARGET) for one in self.selection.modules]
        why = f"the run was ended by {ending.value} before its turn"
        pending = Replay(state=ReplayState.NOT_DONE, reason=why)
        self.replays = [pending if one is _PENDING else one for one in self.replays]
        undone = OpaqueReplay(state=ReplayState.NOT_DONE, reason=why)
        self.replays = [
            replace(one, opaque=undone) if one is not None and one.opaque is _PENDING_OPAQUE else one
            for one in self.replays
        ]
        self.judged += [leave_undone(identity, why) for identity in left[self.done :]]
        self.replays += [None] * (len(self.judged) - len(self.replays))

    def list_notes(self) -> tuple[str, ...]:
        """Returns notes about the modules that are in no report, and about the number of modules with nothing to check."""
        if any(isinstance(one.result, Refusal) or _has_something(one.result) for one in self.judged):
            there = "no kernel to check there" if self.unassigned else "nothing to check there"
            nothing = f"{_count(self.idle)} without custom calls: {there}" if self.idle else ""
        else:
            known = self.idle + len(self.judged)
            which = "it has no in-place kernel" if known == 1 else "none has an in-place kernel"
            nothing = f"nothing to check: {_count(known)}, {which} ({self.idle} without custom calls)" if known else ""
        return (*self.selection.notes, *self.notes, *((nothing,) if nothing else ()), *self._describe_unassigned())

    def _describe_unassigned(self) -> tuple[str, ...]:
        """Returns a note on the modules without a hidden write whose buffer assignment is missing; () if there are none. A
        module with a hidden write has a line of its own under "not covered".
        """
        judged = [one.result.coverage for one in self.judged if isinstance(one.result, Inspection)]
        bare = self.unassigned + sum(not (one.buffer_assignment or one.hidden_writes) for one in judged)
        if not bare:
            return ()
        return (
            f"{_count(bare)} without a buffer assignment that could be read: whether values share bytes there, and what XLA"
            " copies instead of working in place, is not known; dump with `--xla_dump_hlo_as_proto`",
        )

    def _add(self, outcome: ModuleOutcome, subject: ModuleFiles | Path, inspector: Inspector) -> None:
        self.done += 1
        self.idle += outcome.is_idle
        self.unassigned += outcome.lacks_buffers
        self.notes += outcome.notes
        if outcome.judged is None:
            return
        self.judged.append(outcome.judged)
        self.replays.append(_PENDING if outcome.replay_seconds else outcome.replay)
        if outcome.replay_seconds:
            outcome = inspector.replay(subject, outcome.replay_seconds)
            self.replays[-1] = outcome.replay
            self.notes += outcome.notes
        last = self.replays[-1]
        if outcome.opaque_seconds and last is not None:
            self.replays[-1] = replace(last, opaque=_PENDING_OPAQUE)
            outcome = inspector.replay_opaquely(subject, outcome.opaque_seconds)
            self.notes += outcome.notes
        if outcome.opaque is not None and last is not None:
            self.replays[-1] = replace(last, opaque=outcome.opaque)


def _has_something(inspection: Inspection) -> bool:
    """Returns whether the module has a write in place, hidden or declared, a finding or an output whose verdict is
    unknown.
    """
    is_decided = Verdict.UNKNOWN not in inspection.outputs.values()
    coverage = inspection.coverage
    return bool(coverage.hidden_writes or coverage.declared_writes or inspection.findings) or not is_decided


_PENDING = Replay(state=ReplayState.NOT_DONE)
"""Placeholder for a replay that has begun and is not done."""
_PENDING_OPAQUE = OpaqueReplay(state=ReplayState.NOT_DONE)
"""Placeholder for a replay with opaque functions that has begun and is not done."""


def _count(number: int) -> str:
    return f"{number} module" if number == 1 else f"{number} modules"


def inspect(options: InspectOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Judges the modules with custom calls below the paths, which somebody else compiled, and returns the report. A file
    with StableHLO is compiled first, for each target of the options.

    Does not raise the failure of one module: the module's report has it. Raises InputError if a path holds no module, or if
    no module matches the pattern. After Ctrl-C, SIGTERM or the time limit the remaining modules are in the report as not
    checked.
    """
    files = tuple(path for path in options.paths if is_stablehlo(path))
    others = tuple(path for path in options.paths if path not in files)
    chosen = tuple(path for path in files if _matches(path.name, options.module))
    if not files:
        require_stablehlo(options)
        return _inspect_dumps(options, on_progress)
    if not chosen and not others:
        raise InputError(
            f"no module matches `{options.module}`: there are {', '.join(f'`{one.name}`' for one in files)}"
        )
    dumped = _inspect_dumps(replace(options, paths=others), on_progress) if others else None
    if not chosen:
        assert dumped is not None
        return dumped
    if dumped is None:
        compiled = check_stablehlo(chosen, options, on_progress)
        return replace(compiled, notes=(*options.notes, *compiled.notes))
    if dumped.interrupted:
        return _join(dumped, leave_stablehlo(chosen, options, dumped.ended_by))
    return _join(dumped, check_stablehlo(chosen, options, on_progress))


def _join(dumped: CheckReport, compiled: CheckReport) -> CheckReport:
    """Returns one report on the modules of dumps and on StableHLO."""
    return replace(
        compiled,
        cases=(*dumped.cases, *compiled.cases),
        targets=tuple(dict.fromkeys((*dumped.targets, *compiled.targets))),
        seconds=dumped.seconds + compiled.seconds,
        sandbox=dumped.sandbox,
        notes=tuple(dict.fromkeys((*dumped.notes, *compiled.notes))),
        unused_suppressions=tuple(one for one in dumped.unused_suppressions if one in compiled.unused_suppressions),
    )


def _inspect_dumps(options: InspectOptions, on_progress: OnProgress | None) -> CheckReport:
    """Returns the report on the modules below the paths, all of which are compiled already."""
    started = perf_counter()
    report_progress = on_progress or ignore_progress
    roots = resolve_roots(options.source_roots)
    request = InspectionRequest(
        timeout=options.timeout,
        declared=options.effects,
        neighbourhoods=options.neighbourhoods,
        view=options.view,
        replay=options.replay,
        opaque=options.opaque,
        bounds=options.bounds,
        seed=options.seed,
    )
    inspector = SandboxedInspector(request, cache=Cache(options.cache_directory))
    with inspector:
        if all(path.exists() for path in options.paths):
            inspector.start()  # its process starts while this one looks for modules
        inspected = InspectedModules(select_modules(options.paths, options.module, inspector.count_modules))
        with work_until_ended() as work:
            for done, name in inspected.run(inspector):
                report_progress(
                    Progress(phase="inspect", event="started", done=done, total=inspected.total, case_id=name)
                )
    if work.ending is not None:
        inspected.mark_undone(work.ending)
    suppressions = Suppressions(options.suppress, _list_foreign(options.paths, roots))
    cases = tuple(
        conclude(judged, suppressions, replay=replay, budgets=options.budgets, source_roots=roots)
        for judged, replay in zip(inspected.judged, inspected.replays, strict=True)
    )
    return CheckReport(
        cases=cases,
        targets=tuple(dict.fromkeys(case.target for case in cases)),
        toolchain="",
        seconds=perf_counter() - started,
        interrupted=work.ending is not None,
        ended_by=work.ending or Ending.INTERRUPT,
        sandbox=inspector.describe(),
        notes=(
            *options.notes,
            *list_unconfirmed(case.target for case in cases if case.target.startswith("gfx") and case.outputs),
            *inspected.list_notes(),
            *list_declared(options.effects),
        ),
        noun=Noun.MODULE,
        unused_suppressions=suppressions.list_unused(cases, SeenScope()),
    )


def _list_foreign(paths: Sequence[Path], roots: Sequence[str]) -> tuple[str, ...]:
    """Returns the folders that came with the inspected dump: suppression comments in their files do not count.

    The folder of a single file is left out if one of the user's source `roots` lies in it.
    """
    folders = list_foreign_folders(path for path in paths if path.is_dir())
    beside = list_foreign_folders(path for path in paths if not path.is_dir())
    return (*folders, *(folder for folder in beside if not any(is_below(root, (folder,)) for root in roots)))
