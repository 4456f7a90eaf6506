"""From what `dumps` found to reports: each module is read, judged and described, one after the other.

A program whose order of operations is not known stands for several. What they agree in is said; an output in which they
differ is unknown.
"""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from ligerdiag.analysis.joined_views import join_views
from ligerdiag.compile.artifacts import load_artifact
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.launches import load_launches
from ligerdiag.dumps.limits import compute_allowance, compute_seconds, limit_memory, limit_time
from ligerdiag.dumps.load import LoadedModule, NoScheduleError, Translate, load_module, may_hold_kernels
from ligerdiag.dumps.select import Selection
from ligerdiag.dumps.translate import Translator
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.ending import Ending
from ligerdiag.errors import LigerdiagError, describe_bug
from ligerdiag.findings import Finding, Verdict
from ligerdiag.hlo.module import HloModule
from ligerdiag.inspection import Compilation, Inspection, inspect_artifact, inspect_compilation
from ligerdiag.report.model import CaseReport, Status
from ligerdiag.schedule_view import ScheduleView

MOST_FRAMES = 8
"""Of a traceback, in a report."""
UNKNOWN_TARGET = "unknown target"
"""Where neither names nor provenance say what a module was compiled for."""
UNKNOWN_ORDER = (
    "HLO text of the module before optimizations does not say in which order the author wrote what no operand orders:"
    " dump it with --xla_dump_hlo_as_proto"
)


@dataclass(slots=True)
class InspectedModules:
    """What is known so far of what was selected; filled step by step, so that Ctrl-C leaves what was done."""

    selection: Selection
    timeout: float | None = None
    """Seconds that one module may take; None means by its size."""
    declared: Sequence[DeclaredEffects] = ()
    """What is believed of operands whose effects are unknown."""
    neighbourhoods: bool = False
    """Look at who reads what kernels overwrite, too."""
    view: bool = False
    """Compute what an HTML report draws, too."""
    reports: list[CaseReport] = field(default_factory=list[CaseReport])
    """Without status: see `api.conclude`."""
    notes: list[str] = field(default_factory=list[str])
    idle: int = 0
    """Modules without custom calls."""
    done: int = 0
    """Artifacts and modules that were looked at to their end."""

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.selection.artifacts) + len(self.selection.modules)

    def run(self, translator: Translator, *, effects_cache: Path) -> Iterator[tuple[int, str]]:
        """Yields the number and name of each artifact and module before it is inspected."""
        for number, directory in enumerate(self.selection.artifacts):
            yield number, directory.name
            self.reports.append(self._inspect_artifact(directory, effects_cache))
            self.done += 1
        for number, files in enumerate(self.selection.modules, start=len(self.selection.artifacts)):
            yield number, files.id
            self._inspect(files, translator.translate, effects_cache)
            self.done += 1

    def mark_undone(self, ending: Ending) -> None:
        """Adds a report for each artifact and module that was not looked at to its end, after the run was ended."""
        names = [str(directory) for directory in self.selection.artifacts]
        targets = dict.fromkeys(names, UNKNOWN_TARGET)
        for files in self.selection.modules:
            names.append(files.id)
            targets[files.id] = files.target or UNKNOWN_TARGET
        why = f"the run was ended by {ending.value} before its turn"
        self.reports += [
            CaseReport(id=name, target=targets[name], toolchain="", status=Status.NOT_CHECKED, error=why)
            for name in names[self.done :]
        ]

    def list_notes(self) -> tuple[str, ...]:
        """What was found and is in no report, and how many modules hold nothing to check."""
        if any(report.error or report.coverage.hidden_writes for report in self.reports):
            nothing = f"{_count(self.idle)} without custom calls: nothing to check there" if self.idle else ""
        else:
            known = self.idle + len(self.reports)
            which = "it has no in-place kernel" if known == 1 else "none has an in-place kernel"
            nothing = f"nothing to check: {_count(known)}, {which} ({self.idle} without custom calls)" if known else ""
        return (*self.selection.notes, *self.notes, *((nothing,) if nothing else ()))

    def _inspect(self, files: ModuleFiles, translate: Translate, effects_cache: Path) -> None:
        if not may_hold_kernels(files):
            self.idle += 1
            return
        report = CaseReport(id=files.id, target=files.target or UNKNOWN_TARGET, toolchain="", status=Status.ERROR)
        report = replace(report, artifact=str(files.optimized[0]))
        started = perf_counter()
        try:
            sources = (*files.optimized[:1], *files.program[:1])
            seconds = self.timeout or compute_seconds(sources)
            with limit_memory(compute_allowance(sources), files.id), limit_time(seconds, files.id):
                loaded = load_module(files, translate)
                self.notes += loaded.notes
                inspection = self._inspect_loaded(loaded, effects_cache)
        except NoScheduleError as error:
            if files.is_guess:
                self.notes.append(f"{error}: not inspected")
                return
            self.reports.append(_describe_error(report, error))
        except LigerdiagError as error:
            self.reports.append(_describe_error(report, error))
        except Exception as fault:
            self.reports.append(describe_failed(report, fault))
        else:
            self.reports.append(_describe(report, inspection, perf_counter() - started))

    def _inspect_artifact(self, directory: Path, effects_cache: Path) -> CaseReport:
        report = CaseReport(id=str(directory), target=UNKNOWN_TARGET, toolchain="", status=Status.ERROR)
        report = replace(report, artifact=str(directory))
        started = perf_counter()
        try:
            artifact = load_artifact(directory)
            made = artifact.provenance
            report = replace(report, id=made.case_id, target=made.target, toolchain=made.toolchain)
            inspection = inspect_artifact(
                artifact,
                effects_cache=effects_cache,
                declared=self.declared,
                neighbourhoods=self.neighbourhoods,
                view=self.view,
            )
        except LigerdiagError as error:
            return _describe_error(report, error)
        except Exception as fault:
            return describe_failed(report, fault)
        return _describe(report, inspection, perf_counter() - started)

    def _inspect_loaded(self, loaded: LoadedModule, effects_cache: Path) -> Inspection:
        launches = load_launches(loaded.files.optimized[0])

        def inspect(program: HloModule | None) -> Inspection:
            compilation = Compilation(
                name=loaded.files.id,
                program=program,
                as_written=False,
                optimized=loaded.optimized,
                buffers=loaded.buffers,
                output_names=(),
                notes=(*loaded.notes, *launches.notes),
                thunks=launches.thunks,
                command_order=launches.command_order,
            )
            return inspect_compilation(
                compilation,
                effects_cache=effects_cache,
                declared=self.declared,
                neighbourhoods=self.neighbourhoods,
                view=self.view,
            )

        return join_inspections([inspect(program) for program in loaded.programs or (None,)])


def join_inspections(inspections: list[Inspection]) -> Inspection:
    """What all say of one compilation: an output in which they differ is unknown, a finding that one lacks is left out."""
    first, *others = inspections
    outputs = {
        name: verdict if all(other.outputs.get(name) is verdict for other in others) else Verdict.UNKNOWN
        for name, verdict in first.outputs.items()
    }
    if not others or (outputs == first.outputs and all(_keys(o) == _keys(first) for o in others)):
        return first if first.view is None else replace(first, view=_join_views(inspections, outputs))
    missed = dict.fromkeys((*(line for i in inspections for line in i.coverage.not_covered), UNKNOWN_ORDER))
    return replace(
        first,
        outputs=outputs,
        failures=tuple(dict.fromkeys(failure for i in inspections for failure in i.failures)),
        findings=tuple(f for f in first.findings if all(_key(f) in _keys(other) for other in others)),
        coverage=replace(first.coverage, not_covered=tuple(missed)),
        view=_join_views(inspections, outputs),
    )


def _join_views(inspections: list[Inspection], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    return join_views([one.view for one in inspections if one.view is not None], outputs)


def _keys(inspection: Inspection) -> frozenset[tuple[object, ...]]:
    return frozenset(_key(finding) for finding in inspection.findings)


def _key(finding: Finding) -> tuple[object, ...]:
    return (finding.rule, finding.message, finding.outputs, finding.instructions)


def _describe(report: CaseReport, inspection: Inspection, seconds: float) -> CaseReport:
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


def describe_failed(report: CaseReport, fault: Exception) -> CaseReport:
    """The report of a module that a bug of ours keeps from being analysed; the other modules stand."""
    tail = "".join(traceback.format_exception(fault)[-MOST_FRAMES:])
    error = f"ligerdiag failed on it, which is a bug: {describe_bug(fault)}"
    return replace(report, error=error, error_exit_code=LigerdiagError.exit_code, log_tail=tail)


def _describe_error(report: CaseReport, error: LigerdiagError) -> CaseReport:
    return replace(report, error=str(error), error_exit_code=error.exit_code)


def _count(number: int) -> str:
    return f"{number} module" if number == 1 else f"{number} modules"
