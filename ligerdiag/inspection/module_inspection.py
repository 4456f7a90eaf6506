"""Judges the files of one module, or one artifact, within its budget of memory and time.

A module with hidden writes is replayed afterwards, separately, within a budget derived from an estimate. So a judgement
never waits for a replay, and remains valid even if the replay cannot be completed.
"""

import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from ligerdiag.artifacts.artifact import Artifact, list_artifact_files, load_artifact
from ligerdiag.dumps.content import BudgetError, compute_allowance, compute_seconds, limit_memory, limit_time
from ligerdiag.dumps.find import ModuleFiles, count_modules
from ligerdiag.dumps.load import (
    LoadedModule,
    NoScheduleError,
    Translate,
    load_launches,
    load_module,
    may_hold_buffers,
    may_hold_kernels,
)
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.effects.isolated import CallEffectsReader, read_modules_isolated
from ligerdiag.errors import ArtifactError, LigerdiagError, describe_error, describe_fault
from ligerdiag.hlo.module import HloModule
from ligerdiag.inspection.compilation import (
    Analysed,
    InspectionWords,
    analyse_artifact,
    analyse_compilation,
    needs_inspection,
)
from ligerdiag.inspection.coverage import UNKNOWN_ORDER, Compilation, are_tags_used, join_inspections
from ligerdiag.model.findings import OpaqueReplay, Replay, ReplayState, Verdict
from ligerdiag.model.report import Identity, Inspection, Judged, refuse, refuse_for_bug
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.rules.undefined_outputs import compute_replayed_verdicts

if TYPE_CHECKING:
    from ligerdiag.replay.dump_replay import DumpPlan
    from ligerdiag.replay.opaque_plan import OpaquePlan
    from ligerdiag.replay.ops.scope import Array
    from ligerdiag.replay.runs.case_run import Programs

UNKNOWN_TARGET = "unknown target"
"""Name of the target of a module if neither the file names nor the provenance name a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionRequest:
    """Says what to compute for each module, within which limits on memory and time."""

    timeout: float | None = None
    """Seconds of processor time for one module; None derives the limit from the files' size."""
    declared: tuple[DeclaredEffects, ...] = ()
    """Effects that the user declares for operands whose effects are unknown."""
    neighbourhoods: bool = False
    """Whether to compute, too, which instructions read the values that kernels overwrite."""
    view: bool = False
    """Whether to compute the drawing of an HTML report, too."""
    replay: bool = False
    """Whether to replay hidden writes, within the bounds."""
    opaque: bool = False
    """Whether to also replay hidden writes with opaque functions in place of the custom calls, even if the ordinary
    replay leaves no question open.
    """
    bounds: Bounds = field(default_factory=Bounds)
    seed: int = 0
    """Seed of the random arguments of a replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOutcome:
    """The result of inspecting or replaying one module or artifact."""

    judged: Judged | None = None
    """The judged module; None if there is nothing to report."""
    notes: tuple[str, ...] = ()
    """Notes on files that were found and are not judged, one line each."""
    is_idle: bool = False
    """Whether the module has nothing to report on: it has no custom calls, no values that are known to share bytes, and
    asks for nothing in place.
    """
    modules: int = 0
    """Number of modules in the file, if the request was only to count them; otherwise 0."""
    lacks_buffers: bool = False
    """Whether the module is idle and has no readable buffer assignment, so that it is unknown whether values share
    bytes.
    """
    is_over_budget: bool = False
    """Whether the module exceeded its memory or time, and ended the process that was reading it."""
    replay: Replay | None = None
    """The result of the module's replay, or why there is none; None if none was requested, or there is no hidden write.
    """
    replay_seconds: float = 0.0
    """Seconds of processor time for a replay that is still to be run; 0 if there is none."""
    opaque: OpaqueReplay | None = None
    """The result of the module's replay with opaque functions in place of its custom calls; None if it has not run."""
    opaque_seconds: float = 0.0
    """Seconds of processor time for a replay with opaque functions that is still to be run; 0 if there is none."""


@dataclass(slots=True, kw_only=True)
class ModuleInspector:
    """Inspects one module or artifact after another, all in this process."""

    request: InspectionRequest
    translate: Translate
    effects_cache: Path
    _plan: "DumpPlan | None" = None
    """Plan of the last module's replay; None if it has none."""
    _inspection: Inspection | None = None
    """The judgement of the last module; None if it failed."""
    _opaque: "OpaquePlan | OpaqueReplay | None" = None
    """Plan of the last module's replay with opaque functions, or why there is none; None if it has no hidden write."""

    @property
    def _words(self) -> InspectionWords:
        return InspectionWords(
            effects_cache=self.effects_cache,
            declared=self.request.declared,
            neighbourhoods=self.request.neighbourhoods,
            view=self.request.view,
        )

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Judges a module of a dump. If that fails, nothing is raised: the report on the module says why."""
        notes: list[str] = []
        identity = describe_module(files)
        try:
            with self._limit(_list_sources(files), identity.id):
                may_hold = may_hold_kernels(files)
        except BudgetError as error:
            return ModuleOutcome(judged=refuse(identity, error), is_over_budget=True)
        except Exception as fault:
            return ModuleOutcome(judged=refuse_for_bug(identity, fault))
        if not may_hold:
            outcome = self._look_at_storage(files)
            if outcome.is_idle:
                return outcome

        def look() -> _Seen:
            loaded = load_module(files, self.translate)
            notes.extend(loaded.notes)
            return self._inspect_loaded(loaded)

        try:
            outcome = self._look_within(_list_sources(files), [identity], look)
        except NoScheduleError as error:
            if files.is_guess:
                return ModuleOutcome(notes=(f"{error}, so it was not inspected",))
            outcome = ModuleOutcome(judged=refuse(identity, error))
        return replace(outcome, notes=tuple(notes))

    @contextmanager
    def _limit(self, sources: Sequence[Path], name: str) -> Generator[None]:
        """Limits the memory and time of its block by the size of these files. Raises BudgetError, with `name` in its
        message, above a limit.
        """
        seconds = self.request.timeout or compute_seconds(sources)
        with limit_memory(compute_allowance(sources), name), limit_time(seconds, name):
            yield

    def count_modules(self, path: Path) -> ModuleOutcome:
        """Counts the modules of a file that may hold several. An unreadable file counts as one module; the judgement of
        this module then says that the file cannot be read.
        """
        counted = 1
        try:
            with limit_memory(compute_allowance((path,)), path.name), limit_time(compute_seconds((path,)), path.name):
                counted = count_modules(path)
        except BudgetError:
            return ModuleOutcome(is_over_budget=True)
        except (ArtifactError, OSError):
            pass
        return ModuleOutcome(modules=counted)

    def _look_at_storage(self, files: ModuleFiles) -> ModuleOutcome:
        """Inspects a module without custom calls: it is idle, unless values share bytes or it asks for something in
        place.

        An unreadable module is no error here, because it contains no kernel.
        """
        identity, missing = describe_module(files), ModuleOutcome(is_idle=True, lacks_buffers=True)
        sources = _list_sources(files)
        try:
            with self._limit(sources, identity.id):
                if not may_hold_buffers(files):
                    return missing
                loaded = load_module(files, self.translate, alone=True)
                if loaded.buffers is None:
                    return missing
                return ModuleOutcome(is_idle=not needs_inspection(loaded.optimized, loaded.buffers))
        except LigerdiagError as error:
            note = f"it is unknown whether values share bytes in `{identity.id}`: {describe_error(error)}"
            return replace(missing, notes=(note,), is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            return ModuleOutcome(judged=refuse_for_bug(identity, fault))

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Judges an artifact. If that fails, nothing is raised: the report on the artifact says why."""
        identities = [describe_artifact(directory)]

        def look() -> _Seen:
            artifact = load_artifact(directory)
            made = artifact.provenance
            identities.append(replace(identities[0], id=made.case_id, target=made.target, toolchain=made.toolchain))
            analysed = analyse_artifact(artifact, is_foreign=True, **self._words)
            return _Seen(inspection=analysed.inspection, analysed=analysed, artifact=artifact)

        return self._look_within(_list_sources(directory), identities, look)

    def replay(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Runs the replay that the inspection of a module or artifact planned. If that fails, nothing is raised: the
        record of the replay says why.

        seconds: the most processor time.
        """
        from ligerdiag.replay.dump_replay import replay_dump

        plan, self._plan = self._plan, None
        if plan is None:
            return ModuleOutcome(replay=Replay(state=ReplayState.FAILED, reason="the inspection planned no replay"))
        name = subject.id if isinstance(subject, ModuleFiles) else subject.name
        notes = list[str]()
        try:
            kernels = read_modules_isolated(plan.sources, self.effects_cache)
            with limit_memory(plan.memory, name), limit_time(seconds, name):
                replay = replay_dump(plan, self._find_arguments(subject, plan.programs.program, notes), kernels)
        except LigerdiagError as error:
            failed = Replay(state=ReplayState.FAILED, reason=describe_error(error))
            return ModuleOutcome(replay=failed, is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            traceback.print_exception(fault)
            replay = Replay(state=ReplayState.FAILED, reason=describe_fault(fault))
        return self._add_opaque(ModuleOutcome(replay=replay, notes=tuple(notes)), replay)

    def replay_opaquely(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Runs the planned replay in which opaque functions replace the custom calls of the module or artifact. An
        opaque function is a stand-in that reads and writes the same buffers. See `replay`.
        """
        from ligerdiag.replay.opaque_plan import OpaquePlan, replay_dump_opaquely

        plan, self._opaque = self._opaque, None
        if not isinstance(plan, OpaquePlan):
            return ModuleOutcome(
                opaque=OpaqueReplay(state=ReplayState.FAILED, reason="the inspection planned no replay")
            )
        name = subject.id if isinstance(subject, ModuleFiles) else subject.name
        try:
            notes = list[str]()
            with limit_memory(plan.memory, name), limit_time(seconds, name):
                arguments = self._find_arguments(subject, plan.programs.program, notes)
                found = replay_dump_opaquely(plan, arguments)
        except LigerdiagError as error:
            failed = OpaqueReplay(state=ReplayState.FAILED, reason=describe_error(error), kernels=plan.calls.kernels)
            return ModuleOutcome(opaque=failed, is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            traceback.print_exception(fault)
            found = OpaqueReplay(state=ReplayState.FAILED, reason=describe_fault(fault), kernels=plan.calls.kernels)
        return ModuleOutcome(opaque=found)

    def _find_arguments(self, subject: ModuleFiles | Path, program: HloModule, notes: list[str]) -> tuple["Array", ...]:
        """Returns the arguments of a run that the dump holds, and adds a note on them; otherwise draws arguments."""
        from ligerdiag.replay.dump_replay import draw_parameters, load_snapshot

        snapshots = subject.arguments if isinstance(subject, ModuleFiles) else ()
        if not snapshots:
            return draw_parameters(program, self.request.seed)
        name = subject.id if isinstance(subject, ModuleFiles) else subject.name
        notes.append(f"`{name}` is replayed on the arguments in `{snapshots[0].name}`")
        return load_snapshot(snapshots[0], program)

    def _add_opaque(self, outcome: ModuleOutcome, replay: Replay) -> ModuleOutcome:
        """Completes the outcome by the time for the replay with opaque functions, or by the reason why there is none, if
        the user asked for one or the replay leaves something open that it may decide.
        """
        from ligerdiag.replay.opaque_plan import OpaquePlan

        plan, seen = self._opaque, self._inspection
        if plan is None or seen is None:
            return outcome
        verdicts = compute_replayed_verdicts(seen.outputs, seen.findings, replay)
        if not (self.request.opaque or replay.is_open(verdicts)):
            return outcome
        if isinstance(plan, OpaquePlan):
            if not plan.calls.kernels and not self.request.opaque:
                return outcome
            return replace(outcome, opaque_seconds=self.request.timeout or plan.limit)
        return replace(outcome, opaque=plan)

    def _look_within(
        self, sources: Sequence[Path], identities: Sequence[Identity], look: "Callable[[], _Seen]"
    ) -> ModuleOutcome:
        """Runs `look` within the budget for these files, and returns the outcome.

        identities: the identities known of the module, the best one last. The report names the last one; `look` may add a
        better one, which then names the module even if `look` fails later.
        """
        started, name = perf_counter(), identities[0].id
        self._plan = self._opaque = self._inspection = None
        try:
            with self._limit(sources, name):
                seen = look()
        except NoScheduleError:
            raise
        except LigerdiagError as error:
            return ModuleOutcome(judged=refuse(identities[-1], error), is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            return ModuleOutcome(judged=refuse_for_bug(identities[-1], fault))
        inspection = self._inspection = replace(seen.inspection, written=(), meant={})  # no report shows these
        outcome = ModuleOutcome(
            judged=Judged(identity=identities[-1], result=inspection, seconds=perf_counter() - started)
        )
        is_wrong = seen.analysed is not None and bool(seen.analysed.context.shared)
        if not self.request.replay or not (inspection.coverage.hidden_writes or is_wrong):
            return outcome
        return self._plan_within(sources, name, seen, outcome)

    def _plan_within(self, sources: Sequence[Path], name: str, seen: "_Seen", outcome: ModuleOutcome) -> ModuleOutcome:
        """Returns the outcome, completed by the time for the planned replay, or by the reason why there is none."""
        for module in ("dump_replay", "opaque_plan"):
            import_module(f"ligerdiag.replay.{module}")  # imported before the limits apply to the module

        try:
            with self._limit(sources, name):
                plan, self._opaque = self._plan_replays(seen)
        except LigerdiagError as error:
            return replace(
                outcome,
                replay=Replay(state=ReplayState.FAILED, reason=str(error)),
                is_over_budget=isinstance(error, BudgetError),
            )
        except Exception as fault:
            traceback.print_exception(fault)
            return replace(outcome, replay=Replay(state=ReplayState.FAILED, reason=describe_fault(fault)))
        if isinstance(plan, Replay):
            return self._add_opaque(replace(outcome, replay=plan), plan)
        self._plan = plan
        return replace(outcome, replay_seconds=self.request.timeout or plan.seconds)

    def _plan_replays(self, seen: "_Seen") -> tuple["DumpPlan | Replay", "OpaquePlan | OpaqueReplay | None"]:
        """Returns the plan of the replay, or the reason why there is none, and the same for the replay with opaque
        functions, which is None if nothing can be replayed.
        """
        from ligerdiag.replay.dump_replay import plan_dump
        from ligerdiag.replay.opaque_plan import plan_opaquely
        from ligerdiag.replay.ops.scope import NotCoveredError

        if missing := _describe_missing(seen):
            return Replay(state=ReplayState.NOT_DONE, reason=missing), None
        try:
            programs, unknown = _join_programs(seen)
        except NotCoveredError as error:
            return Replay(state=ReplayState.NOT_COVERED, reason=str(error)), None
        reader = CallEffectsReader(cache=self.effects_cache, declared=self.request.declared)
        reader.read(programs.program, programs.optimized)
        return (
            plan_dump(programs, self.request.bounds, unknown),
            plan_opaquely(programs, reader.find, self.request.bounds, unknown),
        )

    def _inspect_loaded(self, loaded: LoadedModule) -> "_Seen":
        launches = load_launches(loaded.files.optimized[0])

        def inspect(program: HloModule | None) -> Analysed:
            compilation = Compilation(
                name=loaded.files.id,
                program=program,
                as_written=False,
                is_numbered=loaded.is_numbered,
                optimized=loaded.optimized,
                buffers=loaded.buffers,
                output_names=(),
                notes=(*loaded.notes, *launches.notes),
                thunks=launches.thunks,
                command_order=launches.command_order,
            )
            return analyse_compilation(compilation, **self._words)

        all_analysed = [inspect(program) for program in loaded.programs or (None,)]
        joined = join_inspections([one.inspection for one in all_analysed])
        return _Seen(inspection=joined, analysed=all_analysed[0] if len(all_analysed) == 1 else None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """One judged module, with all that a replay of it needs."""

    inspection: Inspection
    analysed: Analysed | None
    """The evidence of the judgement; None if the module was judged as several programs."""
    artifact: Artifact | None = None


def _join_programs(seen: _Seen) -> tuple["Programs", frozenset[str]]:
    """Returns both modules of a judged compilation that lacks nothing for a replay, and the names of the outputs whose
    intended value is unknown. Raises NotCoveredError.
    """
    from ligerdiag.replay.dump_replay import join_programs
    from ligerdiag.replay.ops.scope import NotCoveredError
    from ligerdiag.replay.runs.case_run import load_programs

    assert seen.analysed is not None
    compilation, context = seen.analysed.compilation, seen.analysed.context
    if seen.artifact is None:
        assert compilation.buffers is not None
        unknown = {name for name, verdict in seen.inspection.outputs.items() if verdict is Verdict.UNKNOWN}
        names = tuple(seen.inspection.outputs)
        return join_programs(context.program, context.optimized, compilation.buffers, names), frozenset(unknown)
    assert compilation.program is not None
    if compilation.as_written and not are_tags_used(compilation, compilation.program):
        raise NotCoveredError("a program with unreliable tags, so that the order of its operations is unknown")
    return load_programs(seen.artifact), frozenset()


def _describe_missing(seen: _Seen) -> str:
    """Returns the reason why a dump cannot be replayed, such as a missing schedule; empty if it can."""
    if seen.analysed is None:
        return UNKNOWN_ORDER
    compilation = seen.analysed.compilation
    if not compilation.optimized.is_scheduled:
        return "the module has no schedule"
    if compilation.program is None:
        return "there is no module from before the optimizations, so it is unknown what the program computes"
    if compilation.buffers is None:
        return "there is no consistent buffer assignment, so it is unknown in which bytes the schedule computes"
    return ""


def compute_budget_seconds(request: InspectionRequest, subject: ModuleFiles | Path) -> float:
    """Returns the seconds of processor time for judging a module, or the artifact in a directory. The seconds for a
    replay are not included.
    """
    seconds = request.timeout or compute_seconds(_list_sources(subject))
    return 2 * seconds if request.replay else seconds  # planning a replay may take as long again


def _list_sources(subject: ModuleFiles | Path) -> tuple[Path, ...]:
    """Returns the files whose size determines a module's budget."""
    if isinstance(subject, ModuleFiles):
        return (*subject.optimized, *subject.program[:1])
    return list_artifact_files(subject)


def describe_module(files: ModuleFiles) -> Identity:
    """Returns a module's identity, taken from its files: id, target and artifact path."""
    return Identity(id=files.id, target=files.target or UNKNOWN_TARGET, artifact=str(files.optimized[0]))


def describe_artifact(directory: Path) -> Identity:
    """Returns an artifact's identity, taken from its folder: id, target and artifact path."""
    return Identity(id=str(directory), target=UNKNOWN_TARGET, artifact=str(directory))
