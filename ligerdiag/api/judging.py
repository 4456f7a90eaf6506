"""Judges compiled cases for `check`, and holds the results of one run: verdicts, replays, and runs on this machine's
GPUs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import CompileResult
from ligerdiag.device.device_service import run_judged_cases
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import (
    DeviceRun,
    OpaqueReplay,
    OutputNumbers,
    Replay,
    ReplayState,
    Verdict,
    mark_undecided,
)
from ligerdiag.model.jobs import CaseSpec, Flag, Source
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
from ligerdiag.replay.partial_service import PartialTask
from ligerdiag.replay.replay_service import ReplayOptions, ReplayTask
from ligerdiag.replay.replay_worker import ALONE_SECONDS
from ligerdiag.report.agreement import find_partly_missed
from ligerdiag.rules.undefined_outputs import compute_replayed_verdicts
from ligerdiag.run_options import CheckOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.workers.pool import Pool


def list_declared(effects: Sequence[DeclaredEffects]) -> tuple[str, ...]:
    """Returns one note for each kernel whose effects the user declares, because verdicts may depend on the declaration."""
    trusted = {one.name: _BY_NUMBER if one.writes is not None else _BY_ALIAS for one in effects}
    return tuple(f"the effects of `{name}` are declared, and {believed}" for name, believed in trusted.items())


def list_own_flags(cases: Iterable[CaseSpec]) -> tuple[str, ...]:
    """Returns one note for each set of XLA flags that cases declare. The note says that the verdicts hold only for a
    program that runs with these flags.
    """
    found: dict[str, list[str]] = {}
    for one in cases:
        if one.xla_flags:
            words = " ".join(f"--{name}={_spell_flag(value)}" for name, value in sorted(one.xla_flags.items()))
            found.setdefault(words, []).append(f"`{one.id}`")
    return tuple(
        f"{join_words(list(dict.fromkeys(names)))}: compiled with `XLA_FLAGS={words}`, which the program needs where it runs"
        for words, names in found.items()
    )


def _spell_flag(value: Flag) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_BY_NUMBER = "trusted where the kernel could not be analysed"
_BY_ALIAS = "trusted for calls of a library without side effects: they overwrite only operands that their outputs alias"


def ignore_progress(progress: Progress) -> None:
    """Does nothing. A run calls it with each event if the caller passes no `on_progress`."""
    del progress


def split_targets(target: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the targets, each once, from a sequence or from text with commas. Raises InputError if there
    are none.
    """
    names = [target] if isinstance(target, str) else target
    parts = tuple(dict.fromkeys(part.strip() for name in names for part in name.split(",") if part.strip()))
    if not parts:
        raise InputError(f"expected a target such as `h100` but got {target!r}")
    return parts


def expect_of(case: CaseSpec, toolchain: Toolchain) -> CaseSpec:
    """Returns the case with the expected verdicts that apply if the given toolchain compiles the case."""
    if toolchain.name not in case.expected_elsewhere:
        return case
    return replace(case, expected=case.expected_elsewhere[toolchain.name], expected_rules=None)


def find_file(source: Source) -> str:
    """Returns the file that defines the cases of a source; "" for a module outside of the project's folder, and for
    StableHLO.
    """
    if source.stablehlo:
        return ""
    if source.file or not source.module:
        return source.file
    path = Path(source.root, *source.module.partition(":")[0].split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((str(candidate) for candidate in candidates if candidate.is_file()), "")


def name_source(source: Source) -> str:
    """Returns the name of a source for the report; a file below the working directory is named relative to it."""
    path = Path(source.file)
    return str(path.relative_to(Path.cwd())) if source.file and path.is_relative_to(Path.cwd()) else str(source)


def refuse_source(
    name: str, target: str, toolchain: str, error: LigerdiagError, source: Source | None = None
) -> Judged:
    """Returns the record of a file whose cases cannot be read. It has the error and no verdicts.

    source: the source that should define the cases; by default, the record names the error's own file.
    """
    file = error.file if source is None else find_file(source)
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
    """Returns the verdicts on a compiled case, or the reason why there are none. declared, readers, neighbourhoods, view:
    parameters of `inspect_artifact`.
    """
    started = perf_counter()
    identity = _describe(result.case, result.target, toolchain)
    if result.artifact is None:
        judged = refuse(identity, result.error or LigerdiagError("no artifact"))
    else:
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
            judged = Judged(identity=identity, result=_add_notes(inspection, result.state_notes))
        except LigerdiagError as error:
            judged = refuse(identity, error)
        except Exception as fault:
            judged = refuse_for_bug(identity, fault)
    return replace(
        judged,
        seconds=result.seconds + perf_counter() - started,
        compile_seconds=result.seconds,
        cached=result.cached,
        printed=result.printed,
    )


def _add_notes(inspection: Inspection, notes: tuple[str, ...]) -> Inspection:
    missed = (*notes, *inspection.coverage.not_covered)
    return replace(inspection, coverage=replace(inspection.coverage, not_covered=missed)) if notes else inspection


def _describe(case: CaseSpec, target: str, toolchain: str) -> Identity:
    return Identity(
        id=case.id,
        target=target,
        toolchain=toolchain,
        about=case.about,
        expected=case.expected,
        expected_rules=case.expected_rules,
        has_reference=case.has_reference,
        source=find_file(case.source),
    )


type RunKey = tuple[Source, str, str]
"""Source, case id and target: identifies one compile of a run."""


@dataclass(slots=True, kw_only=True)
class Run:
    """The results of a run so far. They are added one by one, so that a run that is interrupted keeps them."""

    order: tuple[RunKey, ...] = ()
    cases: dict[tuple[Source, str], CaseSpec] = field(default_factory=dict[tuple[Source, str], CaseSpec])
    judged: dict[RunKey, Judged] = field(default_factory=dict["RunKey", Judged])
    replays: dict[RunKey, Replay] = field(default_factory=dict["RunKey", Replay])
    devices: dict[RunKey, DeviceRun] = field(default_factory=dict["RunKey", DeviceRun])
    tasks: list[ReplayTask] = field(default_factory=list[ReplayTask])
    printed: dict[str, str] = field(default_factory=dict[str, str])
    """Maps the name of a source to the text that it printed when it was imported."""
    found: frozenset[tuple[Source, str]] = frozenset()
    """The cases that the user's selectors select, whether the run takes them or not."""
    selected: str = ""
    """One line on what `--last-failed` selected, and why; empty without that option."""
    is_partial: bool = False
    """Whether the run leaves out some of `found`."""
    undone: set[RunKey] = field(default_factory=set["RunKey"])
    """The cases that lack a step that the user asked for, because the run was ended."""
    stopped_by: RunKey | None = None
    """The first case that was not as expected, if the user asked to stop there."""

    def list_tasks(self) -> list[ReplayTask]:
        """Returns a task for each judged case, by which the case is replayed and run on a device. If the run was stopped at
        a case, returns only that case's task.
        """
        if self.stopped_by is None:
            return self.tasks
        return [task for task in self.tasks if (task.case.source, task.case.id, task.target) == self.stopped_by]

    def add_replay(self, task: ReplayTask, replay: Replay) -> RunKey:
        """Adds the replay of a task to the results, and returns the key of the task's result. If the intended value of an
        output is unknown, the replay neither confirms nor contradicts the verdict on it: it is recorded as undecided.
        """
        key = (task.case.source, task.case.id, task.target)
        self.replays[key] = replace(replay, outputs=mark_undecided(replay.outputs, self._list_ambiguous(task)))
        return key

    def add_opaque(self, task: ReplayTask, opaque: OpaqueReplay) -> RunKey:
        """Adds the replay of a task with opaque functions (stand-ins for custom calls) to the task's usual replay, which
        must be among the results already. Otherwise does the same as `add_replay`.
        """
        key = (task.case.source, task.case.id, task.target)
        opaque = replace(opaque, outputs=mark_undecided(opaque.outputs, self._list_ambiguous(task)))
        self.replays[key] = replace(self.replays[key], opaque=opaque)
        return key

    def list_partial_tasks(self) -> list[PartialTask]:
        """Returns a task for each replayed case with outputs that `find_partly_missed` returns."""
        found: list[PartialTask] = []
        for task in self.list_tasks():
            key = (task.case.source, task.case.id, task.target)
            result, replay = self.judged[key].result, self.replays.get(key)
            if replay is None or not isinstance(result, Inspection):
                continue
            missed = find_partly_missed(self.find_verdicts(key), result.findings, replay)
            places = result.write_places
            lost = {name: tuple([places[one] for one in each if one in places]) for name, each in missed.items()}
            lost = {name: each for name, each in lost.items() if len(each) == len(missed[name])}
            if lost:
                found.append(PartialTask(task=task, replay=replay, lost=lost))
        return found

    def add_partial(self, task: ReplayTask, partial: Mapping[str, OutputNumbers]) -> RunKey:
        """Adds the numbers of a `PartialTask` to the task's replay, and returns the key of the task's result."""
        key = (task.case.source, task.case.id, task.target)
        self.replays[key] = replace(self.replays[key], partial=partial)
        return key

    def _list_ambiguous(self, task: ReplayTask) -> frozenset[str]:
        """Returns the names of the outputs of which nobody knows whether program order gives the intended value: those
        that are unknown in a program that came as StableHLO.
        """
        result = self.judged[task.case.source, task.case.id, task.target].result
        if task.artifact.provenance.has_snapshots or not isinstance(result, Inspection):
            return frozenset()
        return frozenset(name for name, verdict in result.outputs.items() if verdict is Verdict.UNKNOWN)

    def find_verdicts(self, key: RunKey) -> Mapping[str, Verdict]:
        """Returns the verdicts on a judged case as they are after its replay; empty if the case could not be judged."""
        result = self.judged[key].result
        if not isinstance(result, Inspection):
            return {}
        return compute_replayed_verdicts(result.outputs, result.findings, self.replays[key])

    def lacks_numbers(self, key: RunKey, *, replay: bool, device: bool) -> bool:
        """Returns whether a judged case still lacks numbers that the user asked for. replay, device: whether the user asked
        for a replay, and for a run on a device.
        """
        if key not in self.judged or not isinstance(self.judged[key].result, Inspection):
            return False
        return (replay and key not in self.replays) or (device and key not in self.devices)

    def mark_undone(self, ending: Ending, toolchain: str, *, replay: bool, device: bool, opaque: bool = False) -> None:
        """Adds to every case a result for each step that was not done when the run was ended. replay, device, opaque:
        whether the user asked for a replay, a device run, a replay with opaque functions.
        """
        why = f"the run was ended by {ending.value} before its turn"
        for key in self.order:
            if key not in self.judged:
                self.undone.add(key)
                source, case_id, target = key
                self.judged[key] = leave_undone(_describe(self.cases[source, case_id], target, toolchain), why)
            elif isinstance(self.judged[key].result, Inspection):
                if self.lacks_numbers(key, replay=replay, device=device):
                    self.undone.add(key)
                if replay:
                    done = self.replays.setdefault(key, Replay(state=ReplayState.NOT_DONE, reason=why))
                    if done.opaque is None and (opaque or done.is_open(self.find_verdicts(key))):
                        left = OpaqueReplay(state=ReplayState.NOT_DONE, reason=why)
                        self.replays[key] = replace(done, opaque=left)
                        self.undone.add(key)
                if device:
                    self.devices.setdefault(key, DeviceRun(device="", count=0, runs=0, error=why))

    def withdraw(self, key: RunKey, ending: Ending) -> None:
        """Replaces the result of a run that ended after only some of its steps by a result that says "not checked".

        ending: the event that ended the run, such as Ctrl-C; the new result gives this event as its reason.
        """
        self.undone.add(key)
        why = f"the run was ended by {ending.value} before its replay or its run on a device"
        self.judged[key] = leave_undone(self.judged[key].identity, why)


DRAWS = 3
"""Number of sets of random arguments that a case runs with on a device; one if its replay takes long."""
FULL_TIMEOUT = 1800.0
"""Seconds that a case, and the comparison of its results, may take on the device if `--full` lifts the bounds."""


def make_replay_options(options: CheckOptions) -> ReplayOptions:
    """Returns those options of `check` that the replay needs."""
    return ReplayOptions(
        bounds=options.bounds,
        timeout=options.timeout,
        jobs=options.jobs,
        rows=options.rows,
        orders=options.orders,
        refresh=options.refresh,
    )


def run_on_devices(
    run: Run, options: CheckOptions, cache: Cache, report_progress: OnProgress
) -> Iterator[tuple[RunKey, DeviceRun]]:
    """Runs each judged case once on the GPUs of this machine; yields the result for each target that the case was
    compiled for.
    """
    cases = {(task.case.source, task.case.id): task.case for task in run.list_tasks()}
    large = {key[:2] for key, one in run.replays.items() if one.cut or one.estimated_seconds > ALONE_SECONDS}
    runs = run_judged_cases(
        list(cases.values()),
        cache=cache,
        effects=options.effects,
        replay=make_replay_options(options) if options.replay else None,
        timeout=max(options.timeout, FULL_TIMEOUT if options.bounds.full else 0.0),
        draws=lambda case: 1 if (case.source, case.id) in large else DRAWS,
        report_progress=report_progress,
    )
    for case, device in runs:
        for key in run.order:
            if key[:2] == (case.source, case.id) and key in run.judged:
                yield key, device
