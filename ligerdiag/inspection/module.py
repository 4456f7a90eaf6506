"""From the files of one module, or one artifact, to its judgement, within its budget of memory and time.

A program whose order of operations is not known stands for several programs. What they agree on stands. An output or a
read on which they differ is unknown, and a finding that one lacks is left out.

What a kernel overwrites is replayed afterwards, by itself, within a budget by its estimate: a judgement never waits for
numbers, and stands when they fail.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from ligerdiag.analysis.verdict.comparison import join_outputs, join_read
from ligerdiag.artifacts.artifact import Artifact, list_artifact_files, load_artifact
from ligerdiag.dumps.content import BudgetError, compute_allowance, compute_seconds, limit_memory, limit_time
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.load import LoadedModule, NoScheduleError, Translate, load_launches, load_module, may_hold_kernels
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.effects.isolated import read_modules_isolated
from ligerdiag.errors import LigerdiagError, describe_error, describe_fault
from ligerdiag.hlo.module import HloModule
from ligerdiag.inspection.compilation import Analysed, InspectionWords, analyse_artifact, analyse_compilation
from ligerdiag.inspection.coverage import Compilation, are_tags_used
from ligerdiag.model.findings import Finding, Replay, ReplayState, Verdict
from ligerdiag.model.report import Identity, Inspection, Judged, refuse, refuse_for_bug
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, OutputView, ScheduleView
from ligerdiag.replay.service.worker import Bounds

if TYPE_CHECKING:
    from ligerdiag.replay.service.dump import DumpPlan

UNKNOWN_ORDER = (
    "HLO text of the module before optimizations does not say in which order the author wrote what no operand orders:"
    " dump it with --xla_dump_hlo_as_proto"
)
_UNKNOWN = "in which order the author wrote what no operand orders is not known: where that matters, reads are unknown"


def join_views(views: Sequence[ScheduleView], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    """The first view, with what `outputs` and the other views say otherwise as unknown; None where there is none.

    outputs: output name to the verdict that all agree in. All views are of one schedule; what they show of it may differ.
    """
    if not views:
        return None
    first, *others = views
    if not others:
        return first
    differing = {one.name for one in first.outputs if outputs.get(one.name) is not one.verdict}
    known = [{_key(access): access for access in view.accesses} for view in others]
    is_same = all(view.buffers == first.buffers for view in others)

    def settle(access: BufferAccess) -> BufferAccess:
        if access.kind is not AccessKind.READ:
            return access
        found = [one.get(_key(access)) if is_same else None for one in known]
        others = [other.read if other is not None else None for other in found]
        reaches_unknown = not differing.isdisjoint(access.outputs)
        return replace(access, read=join_read(access.read, others, reaches_unknown=reaches_unknown))

    accesses = tuple([settle(access) for access in first.accesses])
    if accesses == first.accesses and not differing:
        return first
    return replace(
        first,
        accesses=accesses,
        outputs=tuple([_settle_output(one, one.name in differing) for one in first.outputs]),
        notes=(*first.notes, _UNKNOWN),
    )


def _key(access: BufferAccess) -> tuple[int, int, AccessKind]:
    return access.buffer, access.step, access.kind


def _settle_output(output: OutputView, is_differing: bool) -> OutputView:
    if not is_differing:
        return output
    sentence = (
        f"`{output.name}` could not be decided: it is right or wrong by the order in which the author wrote the program,"
        " which is not known"
    )
    return replace(output, verdict=Verdict.UNKNOWN, missing=(), sentence=sentence)


def join_inspections(inspections: list[Inspection]) -> Inspection:
    """What all say of one compilation: verdicts as `comparison` joins them; a finding that one lacks is left out."""
    first, *others = inspections
    outputs = join_outputs([one.outputs for one in inspections])
    if not others or (outputs == first.outputs and all(_keys(o) == _keys(first) for o in others)):
        return first if first.view is None else replace(first, view=_join_views(inspections, outputs))
    missed = dict.fromkeys((*(line for i in inspections for line in i.coverage.not_covered), UNKNOWN_ORDER))
    return replace(
        first,
        outputs=outputs,
        failures=tuple(dict.fromkeys(failure for i in inspections for failure in i.failures)),
        findings=tuple(f for f in first.findings if all(_compute_key(f) in _keys(other) for other in others)),
        coverage=replace(first.coverage, not_covered=tuple(missed)),
        view=_join_views(inspections, outputs),
    )


def _join_views(inspections: list[Inspection], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    return join_views([one.view for one in inspections if one.view is not None], outputs)


def _keys(inspection: Inspection) -> frozenset[tuple[object, ...]]:
    return frozenset(_compute_key(finding) for finding in inspection.findings)


def _compute_key(finding: Finding) -> tuple[object, ...]:
    return (finding.rule, finding.message, finding.outputs, finding.instructions)


UNKNOWN_TARGET = "unknown target"
"""The target's name if neither names nor provenance say what a module was compiled for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionRequest:
    """How to inspect modules."""

    timeout: float | None = None
    """Seconds of processor time for one module; None means by its size."""
    declared: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""
    neighbourhoods: bool = False
    """Also compute which instructions read the values that kernels overwrite."""
    view: bool = False
    """Compute what an HTML report draws, too."""
    replay: bool = False
    """Replay what a kernel overwrites, where it fits the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    seed: int = 0
    """Of the arguments that are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOutcome:
    """The outcome of one module or artifact."""

    judged: Judged | None = None
    """None where there is nothing to report."""
    notes: tuple[str, ...] = ()
    """Notes on what was found and is not judged."""
    is_idle: bool = False
    """It holds no custom calls."""
    is_over_budget: bool = False
    """It was ended because of its memory or time: the process that looked at it is not the one it was before."""
    replay: Replay | None = None
    """Its numbers, or why there are none; None where none were requested, or no kernel overwrites anything."""
    replay_seconds: float = 0.0
    """Of a processor that a replay may take which is still to be done; 0 where there is none to do."""


@dataclass(slots=True, kw_only=True)
class ModuleInspector:
    """Looks at one thing after another, in this process."""

    request: InspectionRequest
    translate: Translate
    effects_cache: Path
    _plan: "DumpPlan | None" = None
    """Of the last module, where it is to be replayed."""

    @property
    def _words(self) -> InspectionWords:
        return InspectionWords(
            effects_cache=self.effects_cache,
            declared=self.request.declared,
            neighbourhoods=self.request.neighbourhoods,
            view=self.request.view,
        )

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Judges a module of a dump. What goes wrong with it is in its report."""
        notes: list[str] = []

        def look() -> _Seen | None:
            if not may_hold_kernels(files):
                return None
            loaded = load_module(files, self.translate)
            notes.extend(loaded.notes)
            return self._inspect_loaded(loaded)

        identity = describe_module(files)
        try:
            outcome = self._look_within(_list_sources(files), [identity], look)
        except NoScheduleError as error:
            if files.is_guess:
                return ModuleOutcome(notes=(f"{error}: not inspected",))
            outcome = ModuleOutcome(judged=refuse(identity, error))
        return replace(outcome, notes=tuple(notes))

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Judges an artifact. What goes wrong with it is in its report."""
        identities = [describe_artifact(directory)]

        def look() -> _Seen:
            artifact = load_artifact(directory)
            made = artifact.provenance
            identities.append(replace(identities[0], id=made.case_id, target=made.target, toolchain=made.toolchain))
            analysed = analyse_artifact(artifact, is_foreign=True, **self._words)
            return _Seen(inspection=analysed.inspection, analysed=analysed, artifact=artifact)

        return self._look_within(_list_sources(directory), identities, look)

    def replay(self, subject: ModuleFiles | Path, seconds: float) -> ModuleOutcome:
        """Does the replay that the last outcome, of this module, leaves to be done, in so many seconds of a processor.

        What goes wrong with it is in its record.
        """
        from ligerdiag.replay.service.dump import draw_parameters, replay_dump
        from ligerdiag.replay.service.snapshot import load_snapshot

        plan, self._plan = self._plan, None
        if plan is None:
            return ModuleOutcome(replay=Replay(state=ReplayState.FAILED, reason="there is nothing to replay"))
        name = subject.id if isinstance(subject, ModuleFiles) else subject.name
        snapshots = subject.arguments if isinstance(subject, ModuleFiles) else ()
        program, notes = plan.programs.program, list[str]()
        try:
            kernels = read_modules_isolated(plan.sources, self.effects_cache)
            with limit_memory(plan.memory, name), limit_time(seconds, name):
                if snapshots:
                    arguments = load_snapshot(snapshots[0], program)
                    notes.append(f"`{name}` is replayed on the arguments in `{snapshots[0].name}`")
                else:
                    arguments = draw_parameters(program, self.request.seed)
                replay = replay_dump(plan, arguments, kernels)
        except LigerdiagError as error:
            failed = Replay(state=ReplayState.FAILED, reason=describe_error(error))
            return ModuleOutcome(replay=failed, is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            traceback.print_exception(fault)
            replay = Replay(state=ReplayState.FAILED, reason=describe_fault(fault))
        return ModuleOutcome(replay=replay, notes=tuple(notes))

    def _look_within(
        self, sources: Sequence[Path], identities: Sequence[Identity], look: "Callable[[], _Seen | None]"
    ) -> ModuleOutcome:
        """Returns what `look` finds within the budget of those files; None if it is a module without custom calls.

        identities: the best description comes last; `look` may add one.
        """
        started, name = perf_counter(), identities[0].id
        seconds = self.request.timeout or compute_seconds(sources)
        self._plan = None
        try:
            with limit_memory(compute_allowance(sources), name), limit_time(seconds, name):
                seen = look()
        except NoScheduleError:
            raise
        except LigerdiagError as error:
            return ModuleOutcome(judged=refuse(identities[-1], error), is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            return ModuleOutcome(judged=refuse_for_bug(identities[-1], fault))
        if seen is None:
            return ModuleOutcome(is_idle=True)
        inspection = replace(seen.inspection, written=(), meant={})  # no report shows these
        outcome = ModuleOutcome(
            judged=Judged(identity=identities[-1], result=inspection, seconds=perf_counter() - started)
        )
        if not self.request.replay or not inspection.coverage.hidden_writes:
            return outcome
        return self._plan_within(sources, name, seen, outcome)

    def _plan_within(self, sources: Sequence[Path], name: str, seen: "_Seen", outcome: ModuleOutcome) -> ModuleOutcome:
        """Returns the outcome with what is to be replayed, or why nothing is."""
        import_module("ligerdiag.replay.service.dump")  # what that imports is not the module's to pay

        seconds = self.request.timeout or compute_seconds(sources)
        try:
            with limit_memory(compute_allowance(sources), name), limit_time(seconds, name):
                plan = _plan_replay(seen, self.request.bounds)
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
            return replace(outcome, replay=plan)
        self._plan = plan
        return replace(outcome, replay_seconds=self.request.timeout or plan.seconds)

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
    """One module, judged."""

    inspection: Inspection
    analysed: Analysed | None
    """None where the module stands for several programs."""
    artifact: Artifact | None = None


def _plan_replay(seen: _Seen, bounds: Bounds) -> "DumpPlan | Replay":
    """Returns what is to be replayed, or why nothing is."""
    from ligerdiag.replay.interpreter.scope import NotCoveredError
    from ligerdiag.replay.runs.case_run import load_programs
    from ligerdiag.replay.service.dump import join_programs, plan_dump

    missing = _describe_missing(seen)
    if missing:
        return Replay(state=ReplayState.NOT_DONE, reason=missing)
    assert seen.analysed is not None
    compilation, context = seen.analysed.compilation, seen.analysed.context
    unknown = {name for name, verdict in seen.inspection.outputs.items() if verdict is Verdict.UNKNOWN}
    try:
        if seen.artifact is None:
            assert compilation.buffers is not None
            names = tuple(seen.inspection.outputs)
            return plan_dump(
                join_programs(context.program, context.optimized, compilation.buffers, names), bounds, unknown
            )
        assert compilation.program is not None
        if compilation.as_written and not are_tags_used(compilation, compilation.program):
            raise NotCoveredError("a program whose tags are not believed: their order is not known")
        return plan_dump(load_programs(seen.artifact), bounds)
    except NotCoveredError as error:
        return Replay(state=ReplayState.NOT_COVERED, reason=str(error))


def _describe_missing(seen: _Seen) -> str:
    """Returns what a dump lacks that a replay needs; empty where it has all."""
    if seen.analysed is None:
        return UNKNOWN_ORDER
    compilation = seen.analysed.compilation
    if not compilation.optimized.is_scheduled:
        return "the module has no schedule"
    if compilation.program is None:
        return "there is no module from before the optimizations: what the program computes is not known"
    if compilation.buffers is None:
        return "there is no buffer assignment that holds: in which bytes the schedule computes is not known"
    return ""


def compute_budget_seconds(request: InspectionRequest, subject: ModuleFiles | Path) -> float:
    """Seconds of a processor that a module, or the artifact in a directory, may take, without its replay."""
    seconds = request.timeout or compute_seconds(_list_sources(subject))
    return 2 * seconds if request.replay else seconds  # a replay is planned within as much once more


def _list_sources(subject: ModuleFiles | Path) -> tuple[Path, ...]:
    """Returns the files by whose bytes a module's budget is computed."""
    if isinstance(subject, ModuleFiles):
        return (*subject.optimized[:1], *subject.program[:1])
    return list_artifact_files(subject)


def describe_module(files: ModuleFiles) -> Identity:
    """Returns what the names of its files say of a module."""
    return Identity(id=files.id, target=files.target or UNKNOWN_TARGET, artifact=str(files.optimized[0]))


def describe_artifact(directory: Path) -> Identity:
    """Returns the same of an artifact: its folder."""
    return Identity(id=str(directory), target=UNKNOWN_TARGET, artifact=str(directory))
