"""`inspect`: judge what somebody else compiled."""

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
from ligerdiag.sandbox.inspector import SandboxedInspector
from ligerdiag.suppressions.scope import Scope
from ligerdiag.suppressions.suppressions import Suppressions


def inspect(options: InspectOptions, on_progress: OnProgress | None = None) -> CheckReport:
    """Judge the modules that somebody else compiled: those under the paths that hold custom calls.

    What goes wrong with one module is in that module's report. Raises InputError when a path holds no module or none
    matches. After Ctrl-C, SIGTERM or the time limit the others are in the report as not checked.
    """
    started = perf_counter()
    tell = on_progress or ignore_progress
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
    suppressions = Suppressions(options.suppress)
    cases = tuple(conclude(report, suppressions) for report in inspected.reports)
    return CheckReport(
        cases=cases,
        targets=tuple(dict.fromkeys(report.target for report in inspected.reports)),
        toolchain="",
        seconds=perf_counter() - started,
        interrupted=work.ending is not None,
        ended_by=work.ending or Ending.INTERRUPT,
        sandbox=inspector.refused,
        notes=(*inspected.list_notes(), *list_declared(options.effects)),
        noun=Noun.MODULE,
        unused_suppressions=suppressions.list_unused(cases, Scope()),
    )
