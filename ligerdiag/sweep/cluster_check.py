"""`check --scheduler`: checks cases on the workers of a Dask scheduler, each in a process of its own.

The cases are found on this machine. A task is one case for one target, and its report comes back through the scheduler,
so only the folder with the cases has to be shared. A worker keeps artifacts in its own cache and needs the same
versions and files as a worker of a sweep (`task`). If the worker or the process of a case is lost, or the run ends
before the case is done, the case's report says so.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ligerdiag.api.checking import list_baseline_notes
from ligerdiag.api.judging import name_source, refuse_source
from ligerdiag.artifacts.cache import Cache
from ligerdiag.codec import FieldError, decode_record, encode_record
from ligerdiag.ending import Ending, work_until_ended
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, Identity, OnProgress, Progress, leave_undone, refuse
from ligerdiag.report.baseline import load_baseline
from ligerdiag.report.status import conclude
from ligerdiag.run_options import CheckOptions
from ligerdiag.source_text import resolve_roots
from ligerdiag.sweep.campaign import UNDONE, describe_rate
from ligerdiag.sweep.cluster import open_cluster, require_extra, run_tasks
from ligerdiag.sweep.grid import SweepGrid, SweepPlan, SweepTask, plan_sweep
from ligerdiag.sweep.task import answer_task
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.template_server import keep_templates

_UNUSED = "unused suppressions are not reported for a check on a cluster, because each worker sees only one case"


def check_on_cluster(options: CheckOptions, address: str, report_progress: OnProgress) -> CheckReport:
    """Checks cases on the workers of a Dask scheduler. Returns the report that `api.check` would return.

    address: address of the scheduler. Raises InputError as `api.check` does. Also raises it if the scheduler cannot be
    reached, or if the options ask for `--device` or `--autotune-results`.
    """
    require_extra()
    if options.device:
        raise InputError(
            "`--device` cannot be combined with `--scheduler`: the workers of a cluster do not have the GPU of this machine"
        )
    if options.autotune_results is not None:
        raise InputError(
            "`--autotune-results` cannot be combined with `--scheduler`: the workers of a cluster do not have the file"
        )
    baseline, started = None if options.baseline is None else load_baseline(options.baseline), time.perf_counter()
    grid = SweepGrid(
        folder=Path.cwd(),
        selectors=tuple(map(str, options.selectors)),
        targets=tuple(dict.fromkeys(options.targets)),
        toolchains=(options.toolchain,),
        replay=options.replay,
        timeout=options.timeout,
    )
    reports: dict[str, CheckReport | LigerdiagError] = {}
    with keep_templates():
        plan = plan_sweep(grid, Cache(options.cache_directory), report_progress)
        with work_until_ended() as work:
            for key, report in _run(plan, options, address, report_progress):
                reports[key] = report
    name = current_toolchain().name if options.toolchain == DEFAULT else options.toolchain
    roots = () if options.source_roots is None else resolve_roots(options.source_roots)
    concluded = (*_list_broken(plan, name), *_list_cases(plan, reports, name))
    cases = tuple(case if case.source_roots else replace(case, source_roots=roots) for case in concluded)
    known = [report for report in reports.values() if isinstance(report, CheckReport)]
    versions = dict(known[0].versions) if known else {}
    notes = () if baseline is not None else tuple(dict.fromkeys(note for report in known for note in report.notes))
    if baseline is not None and options.baseline is not None and work.ending is None:
        notes = tuple(list_baseline_notes(baseline, options.baseline, cases, options, versions))
    return CheckReport(
        cases=cases,
        targets=tuple(load_target(name).name for name in grid.targets),
        toolchain=name,
        versions=versions,
        is_other_toolchain=any(report.is_other_toolchain for report in known),
        seconds=time.perf_counter() - started,
        interrupted=work.ending is not None,
        ended_by=work.ending or Ending.INTERRUPT,
        notes=(*notes, _UNUSED) if options.suppress else notes,
    )


def _run(
    plan: SweepPlan, options: CheckOptions, address: str, report_progress: OnProgress
) -> Iterator[tuple[str, CheckReport | LigerdiagError]]:
    """Yields the key of each task with its report, or with the error that occurred instead."""
    asked = [(task, encode_record(make_options(task, options))) for task in plan.cells.values()]
    if not asked:
        return
    with open_cluster(address, None) as client:
        started = time.monotonic()
        for done, (task, result) in enumerate(run_tasks(client, answer_task, asked), 1):
            said = describe_rate(done, len(asked), time.monotonic() - started)
            report_progress(Progress(phase="check", event="finished", done=done, total=len(asked), case_id=said))
            if isinstance(result, LigerdiagError):
                yield task.key, result
                continue
            try:
                yield task.key, decode_record(CheckReport, result)
            except FieldError as error:
                yield task.key, LigerdiagError(f"a worker gave no report: {error}")


def make_options(task: SweepTask, options: CheckOptions) -> CheckOptions:
    """Returns the options with which a worker checks a task. They have the task's case and target, the worker's cache,
    and one process.
    """
    return replace(
        options, selectors=(task.selector,), targets=(task.target,), jobs=1, cache_directory=None, usual_targets=()
    )


def _list_broken(plan: SweepPlan, toolchain: str) -> Iterator[CaseReport]:
    for source, error in plan.broken:
        for column in plan.columns:
            yield conclude(refuse_source(name_source(source), column.target, toolchain, error, source))


def _list_cases(
    plan: SweepPlan, reports: Mapping[str, CheckReport | LigerdiagError], toolchain: str
) -> Iterator[CaseReport]:
    specs = {(case.source, case.id): case for case in plan.cases}
    for (source, case_id, column), task in plan.cells.items():
        identity = _identify(specs[source, case_id], column.target, toolchain)
        match reports.get(task.key):
            case None:
                yield conclude(leave_undone(identity, UNDONE))
            case CheckReport() as report:
                own = [one for one in report.cases if one.id == case_id]
                yield (own or report.cases)[0]
            case LigerdiagError() as error:
                yield conclude(refuse(identity, error))


def _identify(case: CaseSpec, target: str, toolchain: str) -> Identity:
    return Identity(id=case.id, target=target, toolchain=toolchain, about=case.about, source=case.source.file)
