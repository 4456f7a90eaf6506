"""Runs a sweep: plans its tasks, runs those whose results are not in the store, and returns the result of every cell.

A cell of the sweep's matrix is one case, compiled for one column: a target, a toolchain, a set of flags and a set of
sizes. An interrupted sweep loses nothing: a task whose result is in the store is not run again. A task whose worker was
lost, or has other files or versions than the client, leaves no result, so the next sweep tries it again.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.dependencies import drop_unseen
from ligerdiag.codec import (
    FieldError,
    Json,
    as_object,
    read_float,
    read_int,
    read_list,
    read_object,
    read_str,
    read_word,
)
from ligerdiag.ending import Ending, work_until_ended
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.case import SIZES
from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.report import OnProgress, Progress, Status
from ligerdiag.sweep.cluster import open_cluster, run_tasks
from ligerdiag.sweep.grid import SweepColumn, SweepPlan, SweepTask, load_grid, locate_files, plan_sweep
from ligerdiag.sweep.result_store import ResultStore, StoredResult, resolve_place
from ligerdiag.sweep.task import find_case, is_of, run_task
from ligerdiag.workers.template_server import keep_templates

UNDONE = "the sweep was ended before this task began"
PAGE_LETTERS = 16
"""The file name of a case's page has two hashes; this is the number of letters of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """The options of a sweep: its grid, the place for its results, and its workers."""

    grid: Path
    store: str
    """Place of the results: a folder, relative to the current one, or a URL."""
    scheduler: str | None = None
    """Address of a Dask scheduler; None starts workers on this machine."""
    jobs: int | None = None
    """Number of workers on this machine; None means one per core."""
    refresh: bool = False
    """Whether to run every task again."""
    retry: bool = False
    """Whether to run those tasks again whose stored result says that the case could not be analysed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One cell of the matrix: the result of a case in a column."""

    case: str
    source: str
    target: str
    toolchain: str
    flags: str
    """Name of the set of XLA's flags (a list under `[flags]` in the grid file)."""
    xla_flags: str
    sizes: str
    """Name of the set of sizes (a table under `[sizes]` in the grid file)."""
    given_sizes: str
    """The sizes that the case's file asks for by `ligerdiag.size`, as JSON; empty if it asks for none."""
    status: Status
    verdict: str
    """The worst verdict of the case's outputs; empty without a result."""
    outputs: Mapping[str, str]
    """Maps each output name to its verdict."""
    rules: tuple[str, ...]
    """Ids of the rules with a finding, allowed or not."""
    replay: str
    """State of the replay; empty if there was none."""
    disagreements: int
    error: str
    """One line that says what failed; empty if nothing did."""
    seconds: float
    """Seconds that compiling and analysing took; 0 for a cached result."""
    exit_code: int | None
    """Exit code that `check` gives for the case; None for a case that was not checked."""
    key: str

    @property
    def column(self) -> SweepColumn:
        """Returns the column of the matrix that contains the cell."""
        return SweepColumn(toolchain=self.toolchain, target=self.target, flags=self.flags, sizes=self.sizes)


@dataclass(slots=True, kw_only=True)
class SweepReport:
    """The results of all cells of a sweep, and counts of its tasks."""

    columns: tuple[SweepColumn, ...] = ()
    rows: tuple[SweepRow, ...] = ()
    """The cells of the matrix, ordered by case, then by column."""
    reports: dict[SweepColumn, list[Json]] = field(default_factory=dict[SweepColumn, list[Json]])
    """The reports of `check` for each column, in the order of its rows."""
    broken: tuple[tuple[str, LigerdiagError], ...] = ()
    """Names of files whose cases cannot be found, each with the reason."""
    pages: dict[str, str] = field(default_factory=dict[str, str])
    """Maps the key of each task that has a page to the name of the page."""
    ran: int = 0
    """Number of tasks that this sweep ran."""
    found: int = 0
    """Number of tasks whose results were in the store."""
    failed: dict[str, LigerdiagError] = field(default_factory=dict[str, LigerdiagError])
    """Maps the key of each task without a result to the reason why it has none."""
    seconds: float = 0.0
    ended_by: Ending | None = None
    """The event that ended the sweep early; None if every task was done."""


type KeepPage = Callable[[str, StoredResult, str], bool]
"""Makes a page of the given name from the result of a case, unless the page exists; returns whether it exists
afterwards.
"""


def run_sweep(options: SweepOptions, report_progress: OnProgress, keep_page: KeepPage | None = None) -> SweepReport:
    """Runs the tasks of a sweep whose results are not in the store, and returns the result of every cell.

    keep_page: makes the page of a result. It takes the page's name, the result and the case's id, and returns whether the
    page exists afterwards. If it is None, no pages are made. Raises InputError if the grid, the store or the scheduler
    cannot be used, and the errors of `api.check` for the cases.
    """
    grid, place = load_grid(options.grid), resolve_place(options.store, Path.cwd())
    store, cache, started, report = ResultStore(place), Cache(), time.perf_counter(), SweepReport()
    with keep_templates():
        plan = plan_sweep(grid, cache, report_progress)
        report.columns = plan.columns
        report.broken = tuple((str(source), error) for source, error in plan.broken)
        tasks = {task.key: task for task in plan.cells.values()}
        missing = _find_missing(tasks, store, cache, options)
        report.found = len(tasks) - len(missing)
        with work_until_ended() as work:
            if missing:
                for task in _run(missing, place, options, report, report_progress):
                    result = store.find(task.key) if keep_page is not None and task.pages else None
                    if result is not None:
                        _keep_page(result, task, report, keep_page)
    report.ended_by = work.ending
    report.rows = tuple(_list_rows(plan, store, cache, report, keep_page))
    report.seconds = time.perf_counter() - started
    return report


def _find_missing(
    tasks: Mapping[str, SweepTask], store: ResultStore, cache: Cache, options: SweepOptions
) -> list[tuple[SweepTask, bool]]:
    """Returns the tasks to run, each as a pair (task, whether the store has a result of it that has to be replaced)."""
    there = store.list_keys()
    missing: list[tuple[SweepTask, bool]] = []
    for key, task in tasks.items():
        result = store.find(key) if key in there and not options.refresh else None
        is_kept = result is not None and result.dependencies == drop_unseen(result.dependencies)
        status = _find_status(result, task) if result is not None and is_kept and _holds(result, task, cache) else None
        if status is None or (options.retry and status is Status.ERROR):
            missing.append((task, key in there))
    return missing


def _holds(result: StoredResult, task: SweepTask, cache: Cache) -> bool:
    return is_of(result, task) and cache.are_unchanged(drop_unseen(locate_files(task.source, result.dependencies)))


def _find_status(result: StoredResult, task: SweepTask) -> Status | None:
    """Returns the status of the task's case in the result; None if the result is not a report of this case."""
    try:
        return make_row(result.report, task, SweepColumn(toolchain="", target="", flags="")).status
    except (FieldError, IndexError):
        return None


def _run(
    missing: list[tuple[SweepTask, bool]],
    place: str,
    options: SweepOptions,
    report: SweepReport,
    report_progress: OnProgress,
) -> Iterator[SweepTask]:
    """Runs the missing tasks, and yields each one that has a result."""
    report_progress(Progress(phase="sweep", event="started", done=0, total=len(missing), case_id="starts the workers"))
    with open_cluster(options.scheduler, options.jobs) as client:
        started = time.monotonic()
        asked = [(task, (place, is_again)) for task, is_again in missing]
        for done, (task, result) in enumerate(run_tasks(client, run_task, asked), 1):
            if isinstance(result, LigerdiagError):
                report.failed[task.key] = result
            else:
                report.ran += 1
            said = describe_rate(done, len(missing), time.monotonic() - started, len(report.failed))
            report_progress(Progress(phase="sweep", event="finished", done=done, total=len(missing), case_id=said))
            if task.key not in report.failed:
                yield task


def _keep_page(result: StoredResult, task: SweepTask, report: SweepReport, keep_page: KeepPage | None) -> None:
    """Makes the page of a result. The page's name contains the task's key and a digest of the data, so a page that
    exists is up to date.
    """
    name = f"{task.key[:PAGE_LETTERS]}-{sha256(result.data).hexdigest()[:PAGE_LETTERS]}.html"
    if result.data and keep_page is not None and keep_page(name, result, task.case_id):
        report.pages[task.key] = name


def describe_rate(done: int, total: int, seconds: float, failed: int = 0) -> str:
    """Returns the rate of tasks and the time left at that rate, such as `1.5 a second, 12 min left`."""
    rate = done / max(seconds, 1e-9)
    left = (total - done) / rate
    size, unit = next(((n, u) for n, u in ((3600, "h"), (60, "min")) if left >= 2 * n), (1, "s"))
    words = f"{rate:.2g} a second, {left / size:.0f} {unit} left"
    return words + (f", {failed} without result" if failed else "")


def _list_rows(
    plan: SweepPlan, store: ResultStore, cache: Cache, report: SweepReport, keep_page: KeepPage | None
) -> Iterator[SweepRow]:
    there = store.list_keys()
    for (_, _, column), task in plan.cells.items():
        result = store.find(task.key) if task.key in there and task.key not in report.failed else None
        if result is not None and _holds(result, task, cache):
            try:
                row = make_row(result.report, task, column)
            except (FieldError, IndexError) as error:
                row = _make_empty(
                    task, column, Status.ERROR, f"the stored result has no readable report of this case: {error}"
                )
            else:
                report.reports.setdefault(column, []).append(result.report)
                if task.key not in report.pages:
                    _keep_page(result, task, report, keep_page)
            yield row
        elif task.key in report.failed:
            yield _make_empty(task, column, Status.ERROR, str(report.failed[task.key]))
        else:
            yield _make_empty(task, column, Status.NOT_CHECKED, UNDONE)


def make_row(report: Json, task: SweepTask, column: SweepColumn) -> SweepRow:
    """Returns a cell of the matrix, made from the report of its case. Raises FieldError if the report is not one of
    `check`.
    """
    case = find_case(report, task.case_id)
    outputs = {name: read_word(Verdict, read_object(case, "outputs"), name) for name in read_object(case, "outputs")}
    replay, worst = case.get("replay"), max(outputs.values(), key=VERDICT_ORDER.index, default=None)
    findings = [as_object(one, "findings") for one in read_list(case, "findings")]
    return SweepRow(
        case=task.case_id,
        source=str(task.source),
        target=column.target,
        toolchain=column.toolchain,
        flags=column.flags,
        xla_flags=task.environment.get("XLA_FLAGS", ""),
        sizes=column.sizes,
        given_sizes=task.environment.get(SIZES, ""),
        status=read_word(Status, case, "status"),
        verdict="" if worst is None else worst.value,
        outputs={name: verdict.value for name, verdict in outputs.items()},
        rules=tuple(sorted({read_str(finding, "rule") for finding in findings})),
        replay="" if replay is None else read_str(as_object(replay, "replay"), "state"),
        disagreements=len(read_list(case, "disagreements")),
        error=_add_fatal_line(read_str(case, "error"), read_str(case, "log_tail")),
        seconds=read_float(case, "seconds"),
        exit_code=read_int(report, "exit_code"),
        key=task.key,
    )


def _add_fatal_line(error: str, log: str) -> str:
    """Returns the error with the line by which XLA ended its process, if the log has one, without its time and process."""
    found = _FATAL.search(log) if error else None
    return f"{error}: {found[1].strip()}" if found else error


_FATAL = re.compile(r"^F\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] (.+)$", re.MULTILINE)
"""Matches the line that XLA writes when it ends its process, as `F1128 00:55:12.366813   17243 file.cc:234] why`."""


def _make_empty(task: SweepTask, column: SweepColumn, status: Status, error: str) -> SweepRow:
    return SweepRow(
        case=task.case_id,
        source=str(task.source),
        target=column.target,
        toolchain=column.toolchain,
        flags=column.flags,
        xla_flags=task.environment.get("XLA_FLAGS", ""),
        sizes=column.sizes,
        given_sizes=task.environment.get(SIZES, ""),
        status=status,
        verdict="",
        outputs={},
        rules=(),
        replay="",
        disagreements=0,
        error=error,
        seconds=0.0,
        exit_code=None,
        key=task.key,
    )
