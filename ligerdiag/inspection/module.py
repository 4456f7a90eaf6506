"""From the files of one module, or one artifact, to its report: read, judged and described within its bounds.

From the files of one module, or one artifact, to its report: read, judged and described within its budget.

A program whose order of operations is not known stands for several programs. The report says what they agree on; an
output on which they differ is unknown.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.analysis.verdict.comparison import join_outputs, join_read
from ligerdiag.artifacts.artifact import list_artifact_files, load_artifact
from ligerdiag.dumps.content import BudgetError, compute_allowance, compute_seconds, limit_memory, limit_time
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.load import LoadedModule, NoScheduleError, Translate, load_launches, load_module, may_hold_kernels
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.errors import LigerdiagError, describe_bug
from ligerdiag.hlo.module import HloModule
from ligerdiag.inspection.artifact import Compilation, Inspection, inspect_artifact, inspect_compilation
from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, OutputView, ScheduleView

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


MOST_FRAMES = 8
"""Of a traceback, in a report."""
UNKNOWN_TARGET = "unknown target"
"""The target's name if neither names nor provenance say what a module was compiled for."""
UNKNOWN_ORDER = (
    "HLO text of the module before optimizations does not say in which order the author wrote what no operand orders:"
    " dump it with --xla_dump_hlo_as_proto"
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOutcome:
    """The outcome of one module or artifact."""

    report: CaseReport | None = None
    """Without status: see `api.conclude`. None where there is nothing to report."""
    notes: tuple[str, ...] = ()
    """Notes on what was found and is in no report."""
    is_idle: bool = False
    """It holds no custom calls."""
    is_over_budget: bool = False
    """It was ended because of its memory or time: the process that looked at it is not the one it was before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleInspector:
    """Looks at one thing after another, in this process."""

    request: InspectionRequest
    translate: Translate
    effects_cache: Path

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Judges a module of a dump. What goes wrong with it is in its report."""
        notes: list[str] = []

        def look() -> Inspection | None:
            if not may_hold_kernels(files):
                return None
            loaded = load_module(files, self.translate)
            notes.extend(loaded.notes)
            return self._inspect_loaded(loaded)

        report = create_module_report(files)
        try:
            outcome = self._look_within(_list_sources(files), report, look)
        except NoScheduleError as error:
            if files.is_guess:
                return ModuleOutcome(notes=(f"{error}: not inspected",))
            outcome = ModuleOutcome(report=describe_error(report, error))
        return replace(outcome, notes=tuple(notes))

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Judges an artifact. What goes wrong with it is in its report."""
        report = create_artifact_report(directory)
        known: list[CaseReport] = [report]

        def look() -> Inspection:
            artifact = load_artifact(directory)
            made = artifact.provenance
            known.append(replace(report, id=made.case_id, target=made.target, toolchain=made.toolchain))
            return inspect_artifact(
                artifact,
                effects_cache=self.effects_cache,
                declared=self.request.declared,
                neighbourhoods=self.request.neighbourhoods,
                view=self.request.view,
                is_foreign=True,
            )

        outcome = self._look_within(_list_sources(directory), report, look)
        if outcome.report is None:
            return outcome
        made = known[-1]
        named = replace(outcome.report, id=made.id, target=made.target, toolchain=made.toolchain)
        return replace(outcome, report=named)

    def _look_within(
        self, sources: Sequence[Path], report: CaseReport, look: Callable[[], Inspection | None]
    ) -> ModuleOutcome:
        """Returns what `look` finds within the budget of those files; None if it is a module without custom calls."""
        started = perf_counter()
        seconds = self.request.timeout or compute_seconds(sources)
        try:
            with limit_memory(compute_allowance(sources), report.id), limit_time(seconds, report.id):
                inspection = look()
        except NoScheduleError:
            raise
        except LigerdiagError as error:
            return ModuleOutcome(report=describe_error(report, error), is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            return ModuleOutcome(report=describe_failed(report, fault))
        if inspection is None:
            return ModuleOutcome(is_idle=True)
        return ModuleOutcome(report=describe_inspection(report, inspection, perf_counter() - started))

    def _inspect_loaded(self, loaded: LoadedModule) -> Inspection:
        launches = load_launches(loaded.files.optimized[0])

        def inspect(program: HloModule | None) -> Inspection:
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
            return inspect_compilation(
                compilation,
                effects_cache=self.effects_cache,
                declared=self.request.declared,
                neighbourhoods=self.request.neighbourhoods,
                view=self.request.view,
            )

        return join_inspections([inspect(program) for program in loaded.programs or (None,)])


def compute_budget_seconds(request: InspectionRequest, subject: ModuleFiles | Path) -> float:
    """Seconds of a processor that a module, or the artifact in a directory, may take."""
    return request.timeout or compute_seconds(_list_sources(subject))


def _list_sources(subject: ModuleFiles | Path) -> tuple[Path, ...]:
    """Returns the files by whose bytes a module's budget is computed."""
    if isinstance(subject, ModuleFiles):
        return (*subject.optimized[:1], *subject.program[:1])
    return list_artifact_files(subject)


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


def describe_inspection(report: CaseReport, inspection: Inspection, seconds: float) -> CaseReport:
    """Returns the report, with the findings. seconds: wall time of it all."""
    return replace(
        report,
        outputs=inspection.outputs,
        findings=inspection.findings,
        failures=inspection.failures,
        coverage=inspection.coverage,
        neighbourhoods=inspection.neighbourhoods,
        view=inspection.view,
        seconds=seconds,
    )


def describe_error(report: CaseReport, error: LigerdiagError) -> CaseReport:
    """Returns the report, with the error that prevented the analysis."""
    return replace(report, error=str(error), error_exit_code=error.exit_code)


def describe_failed(report: CaseReport, fault: Exception) -> CaseReport:
    """Returns the report of a module that a bug of ours keeps from being analysed; the other modules stand."""
    tail = "".join(traceback.format_exception(fault)[-MOST_FRAMES:])
    error = f"ligerdiag failed on it, which is a bug: {describe_bug(fault)}"
    return replace(report, error=error, error_exit_code=LigerdiagError.exit_code, log_tail=tail)


def create_module_report(files: ModuleFiles) -> CaseReport:
    """Returns the report of a module that nothing is known of."""
    target = files.target or UNKNOWN_TARGET
    return CaseReport(id=files.id, target=target, toolchain="", status=Status.ERROR, artifact=str(files.optimized[0]))


def create_artifact_report(directory: Path) -> CaseReport:
    """Returns the report of an artifact that nothing is known of."""
    name = str(directory)
    return CaseReport(id=name, target=UNKNOWN_TARGET, toolchain="", status=Status.ERROR, artifact=name)
