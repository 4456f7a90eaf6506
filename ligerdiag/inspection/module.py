"""From the files of one module, or one artifact, to its judgement, within its budget of memory and time.

A program whose order of operations is not known stands for several programs; see `joining`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.artifacts.artifact import list_artifact_files, load_artifact
from ligerdiag.dumps.content import BudgetError, compute_allowance, compute_seconds, limit_memory, limit_time
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.load import LoadedModule, NoScheduleError, Translate, load_launches, load_module, may_hold_kernels
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.errors import LigerdiagError
from ligerdiag.hlo.module import HloModule
from ligerdiag.inspection.artifact import inspect_artifact
from ligerdiag.inspection.compilation import InspectionWords, inspect_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.inspection.joining import join_inspections
from ligerdiag.model.report import Identity, Inspection, Judged, refuse, refuse_for_bug

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
