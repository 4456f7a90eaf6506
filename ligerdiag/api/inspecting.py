"""`inspect`: judge modules that were compiled elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ligerdiag.api.conclusion import conclude
from ligerdiag.api.declared import list_declared
from ligerdiag.api.options import InspectOptions, ignore_progress
from ligerdiag.compile.cache import Cache
from ligerdiag.dumps.select import select_modules
from ligerdiag.ending import Ending, work_until_ended
from ligerdiag.inspected_modules import InspectedModules
from ligerdiag.module_inspector import InspectionRequest
from ligerdiag.report.model import CheckReport, Noun, OnProgress, Progress
from ligerdiag.report.source_roots import is_below, list_foreign_folders, resolve_roots
from ligerdiag.sandbox.inspector import SandboxedInspector
from ligerdiag.suppressions.scope import Scope
from ligerdiag.suppressions.suppressions import Suppressions


def inspect(options: InspectOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Judges modules that were compiled elsewhere: those under the paths that hold custom calls.

    A failure in one module is in that module's report. Raises InputError when a path holds no module or none matches.
    After Ctrl-C, SIGTERM or the time limit the others are in the report as not checked.
    """
    started = perf_counter()
    tell = on_progress or ignore_progress
    roots = resolve_roots(options.source_roots)
    selection = select_modules(options.paths, options.module)
    inspected = InspectedModules(selection)
    request = InspectionRequest(
        timeout=options.timeout, declared=options.effects, neighbourhoods=options.neighbourhoods, view=options.view
    )
    inspector = SandboxedInspector(request, cache=Cache(options.cache_directory))
    with work_until_ended() as work, inspector:
        inspector.start()
        for done, name in inspected.run(inspector):
            tell(Progress(phase="inspect", event="started", done=done, total=inspected.total, case_id=name))
    if work.ending is not None:
        inspected.mark_undone(work.ending)
    suppressions = Suppressions(options.suppress, _list_foreign(options.paths, roots))
    cases = tuple(conclude(replace(report, source_roots=roots), suppressions) for report in inspected.reports)
    return CheckReport(
        cases=cases,
        targets=tuple(dict.fromkeys(report.target for report in inspected.reports)),
        toolchain="",
        seconds=perf_counter() - started,
        interrupted=work.ending is not None,
        ended_by=work.ending or Ending.INTERRUPT,
        sandbox=inspector.refused,
        notes=(*options.notes, *inspected.list_notes(), *list_declared(options.effects)),
        noun=Noun.MODULE,
        unused_suppressions=suppressions.list_unused(cases, Scope()),
    )


def _list_foreign(paths: Sequence[Path], roots: Sequence[str]) -> tuple[str, ...]:
    """Folders whose comments allow nothing. That of a single file is the user's own where a root lies in it."""
    folders = list_foreign_folders(path for path in paths if path.is_dir())
    beside = list_foreign_folders(path for path in paths if not path.is_dir())
    return (*folders, *(folder for folder in beside if not any(is_below(root, (folder,)) for root in roots)))
