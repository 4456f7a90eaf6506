"""Inspects each module that `dumps` found, one after the other, and keeps its outcome."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.select import Selection
from ligerdiag.ending import Ending
from ligerdiag.module_inspector import UNKNOWN_TARGET, ModuleOutcome
from ligerdiag.report.model import CaseReport, Status


class Inspector(Protocol):
    """Looks at one thing: in this process (`ModuleInspector`), or in one of its own (`sandbox`)."""

    def inspect_module(self, files: ModuleFiles) -> ModuleOutcome:
        """Judges a module of a dump."""
        ...

    def inspect_artifact(self, directory: Path) -> ModuleOutcome:
        """Judges an artifact."""
        ...


@dataclass(slots=True)
class InspectedModules:
    """The outcomes so far of the selected modules. Filled step by step, so that a partial result survives Ctrl-C."""

    selection: Selection
    reports: list[CaseReport] = field(default_factory=list[CaseReport])
    """Without status: see `api.conclude`."""
    notes: list[str] = field(default_factory=list[str])
    idle: int = 0
    """Modules without custom calls."""
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
            self._add(inspector.inspect_artifact(directory))
        for number, files in enumerate(self.selection.modules, start=len(self.selection.artifacts)):
            yield number, files.id
            self._add(inspector.inspect_module(files))

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
        """Returns notes on what was found and is in no report, and on how many modules hold nothing to check."""
        if any(report.error or report.coverage.hidden_writes for report in self.reports):
            nothing = f"{_count(self.idle)} without custom calls: nothing to check there" if self.idle else ""
        else:
            known = self.idle + len(self.reports)
            which = "it has no in-place kernel" if known == 1 else "none has an in-place kernel"
            nothing = f"nothing to check: {_count(known)}, {which} ({self.idle} without custom calls)" if known else ""
        return (*self.selection.notes, *self.notes, *((nothing,) if nothing else ()))

    def _add(self, outcome: ModuleOutcome) -> None:
        self.done += 1
        self.idle += outcome.is_idle
        self.notes += outcome.notes
        if outcome.report is not None:
            self.reports.append(outcome.report)


def _count(number: int) -> str:
    return f"{number} module" if number == 1 else f"{number} modules"
