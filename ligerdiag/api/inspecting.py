"""`inspect`: selects and judges what somebody else compiled, one module after the other."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter
from typing import Protocol

from ligerdiag.api.judging import InspectOptions, ignore_progress, list_declared
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import Dump, ModuleCounter, ModuleFiles, count_here, find_modules
from ligerdiag.ending import Ending, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.inspection.module import UNKNOWN_TARGET, InspectionRequest, ModuleOutcome
from ligerdiag.model.findings import Replay, ReplayState, Verdict
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
from ligerdiag.report.status import conclude
from ligerdiag.report.suppressions import SeenScope, Suppressions
from ligerdiag.sandbox.inspector import SandboxedInspector
from ligerdiag.source_text import is_below, list_foreign_folders, resolve_roots
from ligerdiag.text import count_of
from ligerdiag.untrusted_files import MAXIMUM_FOLDER_DEPTH

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSelection:
    """The modules to inspect."""

    modules: tuple[ModuleFiles, ...]
    artifacts: tuple[Path, ...]
    notes: tuple[str, ...]
    """Notes on modules that were found and are not inspected, one line each."""


def select_modules(
    paths: Sequence[Path], pattern: str = "", count: Callable[[Path], int | None] = count_here
) -> DumpSelection:
    """Returns the modules under the paths whose id, or a part of it, matches the glob; all of them without one.

    count: returns the number of modules in a text that may hold several; without one, this process reads it. Raises
    InputError for a path that is not there, one that holds no module, or a pattern that matches none.
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
        names = ", ".join(f"`{module.id}`" for module in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise InputError(f"no module matches `{pattern}`: there are {names}{more}")
    notes: list[str] = []
    if pattern and len(modules) < len(found):
        notes.append(f"{count_of(len(found) - len(modules), 'module')} not asked for: no match of `{pattern}`")
    notes += _describe_rest(dumps)
    if counter.unsplit:
        notes.append(
            f"{count_of(counter.unsplit, 'file')} not looked into for several modules: all of them are more than the bounds"
        )
    return DumpSelection(modules=modules, artifacts=artifacts, notes=tuple(notes))


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
    if path.is_dir() and any(path.glob("module_*")):  # what XLA writes into each folder, whatever is asked for
        return f"no HLO module in `{path}`, though XLA wrote there: give it `--xla_dump_hlo_as_proto` as well"
    return f"no HLO module in `{path}`: expected what `--xla_dump_to` writes, as protobuf or text"


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
        notes.append(f"{count_of(unscheduled, 'module')} without an optimized form, not inspected")
    if snapshots:
        notes.append(f"{count_of(snapshots, 'snapshot')} between passes, not read")
    if links:
        notes.append(f"{count_of(links, 'symbolic link')} not followed")
    if same:
        notes.append(f"{count_of(same, 'file')} not inspected a second time: other names of files that are")
    if deep:
        notes.append(
            f"{count_of(deep, 'folder')} more than {MAXIMUM_FOLDER_DEPTH} levels down, not looked into: name one itself"
        )
    return notes


class Inspector(Protocol):
    """Looks at one thing: in this process (`ModuleInspector`), or in one of its own (`sandbox`)."""

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Judges a module of a dump."""
        ...

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Judges an artifact."""
        ...

    def replay(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Does the replay that the last outcome, of this module, leaves to be done."""
        ...


@dataclass(slots=True)
class InspectedModules:
    """The outcomes so far of the selected modules. Filled step by step, so that a partial result survives Ctrl-C."""

    selection: DumpSelection
    judged: list[Judged] = field(default_factory=list[Judged])
    replays: list[Replay | None] = field(default_factory=list[Replay | None])
    """Of each in `judged`."""
    notes: list[str] = field(default_factory=list[str])
    idle: int = 0
    """Modules without custom calls."""
    unassigned: int = 0
    """Of these, those of which it is not known whether values share bytes."""
    done: int = 0
    """Artifacts and modules that were looked at to their end."""

    @property
    def total(self) -> int:
        """Returns the number of modules."""
        return len(self.selection.artifacts) + len(self.selection.modules)

    def run(self, inspector: Inspector) -> Iterator[tuple[int, str]]:
        """Yields the number and name of each artifact and module before it is inspected."""
        for number, directory in enumerate(self.selection.artifacts):
            yield number, directory.name
            self._add(inspector.inspect_artifact(directory), directory, inspector)
        for number, files in enumerate(self.selection.modules, start=len(self.selection.artifacts)):
            yield number, files.id
            self._add(inspector.inspect_module(files), files, inspector)

    def mark_undone(self, ending: Ending) -> None:
        """Adds a record for each artifact and module that was not looked at to its end, after the run was ended."""
        names = [str(directory) for directory in self.selection.artifacts]
        targets = dict.fromkeys(names, UNKNOWN_TARGET)
        for files in self.selection.modules:
            names.append(files.id)
            targets[files.id] = files.target or UNKNOWN_TARGET
        why = f"the run was ended by {ending.value} before its turn"
        pending = Replay(state=ReplayState.NOT_DONE, reason=why)
        self.replays = [pending if one is _PENDING else one for one in self.replays]
        self.judged += [leave_undone(Identity(id=name, target=targets[name]), why) for name in names[self.done :]]
        self.replays += [None] * (len(self.judged) - len(self.replays))

    def list_notes(self) -> tuple[str, ...]:
        """Returns notes on what was found and is in no report, and on how many modules hold nothing to check."""
        if any(isinstance(one.result, Refusal) or _has_something(one.result) for one in self.judged):
            nothing = f"{_count(self.idle)} without custom calls: nothing to check there" if self.idle else ""
        else:
            known = self.idle + len(self.judged)
            which = "it has no in-place kernel" if known == 1 else "none has an in-place kernel"
            nothing = f"nothing to check: {_count(known)}, {which} ({self.idle} without custom calls)" if known else ""
        if self.unassigned:
            there = f"{_count(self.unassigned)} without custom calls and without a buffer assignment that could be read"
            nothing = f"{nothing}; {there}: whether values share bytes there is not known"
        return (*self.selection.notes, *self.notes, *((nothing,) if nothing else ()))

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
            done = inspector.replay(subject, outcome.replay_seconds)
            self.replays[-1] = done.replay
            self.notes += done.notes


def _has_something(inspection: Inspection) -> bool:
    """Returns whether there was something to check, or to say."""
    is_decided = Verdict.UNKNOWN not in inspection.outputs.values()
    return bool(inspection.coverage.hidden_writes or inspection.findings) or not is_decided


_PENDING = Replay(state=ReplayState.NOT_DONE)
"""Of a module that was judged and is being replayed."""


def _count(number: int) -> str:
    return f"{number} module" if number == 1 else f"{number} modules"


def inspect(options: InspectOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Judges modules that were compiled elsewhere: those under the paths that hold custom calls.

    A failure in one module is in that module's report. Raises InputError when a path holds no module or none matches.
    After Ctrl-C, SIGTERM or the time limit the others are in the report as not checked.
    """
    started = perf_counter()
    tell = on_progress or ignore_progress
    roots = resolve_roots(options.source_roots)
    request = InspectionRequest(
        timeout=options.timeout,
        declared=options.effects,
        neighbourhoods=options.neighbourhoods,
        view=options.view,
        replay=options.replay,
        bounds=options.bounds,
        seed=options.seed,
    )
    inspector = SandboxedInspector(request, cache=Cache(options.cache_directory))
    with inspector:
        if all(path.exists() for path in options.paths):
            inspector.start()  # it gets ready meanwhile
        inspected = InspectedModules(select_modules(options.paths, options.module, inspector.count_modules))
        with work_until_ended() as work:
            for done, name in inspected.run(inspector):
                tell(Progress(phase="inspect", event="started", done=done, total=inspected.total, case_id=name))
    if work.ending is not None:
        inspected.mark_undone(work.ending)
    suppressions = Suppressions(options.suppress, _list_foreign(options.paths, roots))
    cases = tuple(
        conclude(judged, suppressions, replay=replay, source_roots=roots)
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
        notes=(*options.notes, *inspected.list_notes(), *list_declared(options.effects)),
        noun=Noun.MODULE,
        unused_suppressions=suppressions.list_unused(cases, SeenScope()),
    )


def _list_foreign(paths: Sequence[Path], roots: Sequence[str]) -> tuple[str, ...]:
    """Folders whose comments allow nothing. That of a single file is the user's own where a root lies in it."""
    folders = list_foreign_folders(path for path in paths if path.is_dir())
    beside = list_foreign_folders(path for path in paths if not path.is_dir())
    return (*folders, *(folder for folder in beside if not any(is_below(root, (folder,)) for root in roots)))
