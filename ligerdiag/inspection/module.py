"""From the files of one module, or one artifact, to its judgement, within its budget of memory and time.

A program whose order of operations is not known stands for several programs. What they agree on stands. An output or a
read on which they differ is unknown, and a finding that one lacks is left out.
"""

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
from ligerdiag.errors import LigerdiagError
from ligerdiag.hlo.module import HloModule
from ligerdiag.inspection.compilation import InspectionWords, inspect_artifact, inspect_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.report import Identity, Inspection, Judged, refuse, refuse_for_bug
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, OutputView, ScheduleView

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleInspector:
    """Looks at one thing after another, in this process."""

    request: InspectionRequest
    translate: Translate
    effects_cache: Path

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

        def look() -> Inspection | None:
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

        def look() -> Inspection:
            artifact = load_artifact(directory)
            made = artifact.provenance
            identities.append(replace(identities[0], id=made.case_id, target=made.target, toolchain=made.toolchain))
            return inspect_artifact(artifact, is_foreign=True, **self._words)

        return self._look_within(_list_sources(directory), identities, look)

    def _look_within(
        self, sources: Sequence[Path], identities: Sequence[Identity], look: Callable[[], Inspection | None]
    ) -> ModuleOutcome:
        """Returns what `look` finds within the budget of those files; None if it is a module without custom calls.

        identities: the best description comes last; `look` may add one.
        """
        started, name = perf_counter(), identities[0].id
        seconds = self.request.timeout or compute_seconds(sources)
        try:
            with limit_memory(compute_allowance(sources), name), limit_time(seconds, name):
                inspection = look()
        except NoScheduleError:
            raise
        except LigerdiagError as error:
            return ModuleOutcome(judged=refuse(identities[-1], error), is_over_budget=isinstance(error, BudgetError))
        except Exception as fault:
            return ModuleOutcome(judged=refuse_for_bug(identities[-1], fault))
        if inspection is None:
            return ModuleOutcome(is_idle=True)
        inspection = replace(inspection, written=(), meant={})  # no report shows these
        return ModuleOutcome(
            judged=Judged(identity=identities[-1], result=inspection, seconds=perf_counter() - started)
        )

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
            return inspect_compilation(compilation, **self._words)

        return join_inspections([inspect(program) for program in loaded.programs or (None,)])


def compute_budget_seconds(request: InspectionRequest, subject: ModuleFiles | Path) -> float:
    """Seconds of a processor that a module, or the artifact in a directory, may take."""
    return request.timeout or compute_seconds(_list_sources(subject))


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
