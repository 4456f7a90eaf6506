"""Runs a campaign: compiles, judges and replays the programs of some seeds, and shrinks contradictions to case files.

In the campaign's directory:

    programs.jsonl          one line for each judged program; a campaign continues after the lines there
    contradictions/         `SEED-KIND.py`, a case file that needs no other file, for each contradiction
    batches/, cache/        files in use; artifacts of programs without contradictions are removed

Kinds of contradictions:

    order        an output that is called fresh has other numbers in another legal order of its schedule
    verdict      the verdict on an output and its numbers cannot both be true. Numbers are right if they are so in all of
                 several draws (`more_draws`): in one draw, errors may cancel out or hide in a branch
    opaque       with opaque functions in place of the kernels an output is wrong that is called right or whose numbers are
                 right in all draws; or it is right although it is called wrong or its numbers are wrong, and the functions
                 would show a wrong one
    reference    program order, on numbers, differs from the formulas in plain jnp
    fault        a rule or a replay fails

A program that makes XLA abort, or that replay does not cover, contradicts nothing: its line has the reason.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.api.judging import ignore_progress
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.selectors import parse_selectors
from ligerdiag.ending import RunEnded, work_until_ended
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import CaseReport, CheckReport, Progress, Status
from ligerdiag.replay.replay_service import compute_environment
from ligerdiag.run_options import CheckOptions
from ligerdiag.workers.pool import COMPILE_WORKER, Pool, count_cores
from tools.fuzz.dask_campaign import judge_on_cluster
from tools.fuzz.drawing import draw_program
from tools.fuzz.judged_programs import (
    FuzzOptions,
    FuzzReport,
    JudgedProgram,
    add_looks,
    judge_case,
    list_doubted,
    list_trusted,
    load_rows,
)
from tools.fuzz.more_draws import DRAWS_WORKER, DrawsAnswer, DrawsRequest, make_draws_job
from tools.fuzz.processes import Workload, append_row, read_processor_seconds, run_workloads, serve_workload
from tools.fuzz.programs import RandomProgram
from tools.fuzz.shrink import measure, shrink
from tools.fuzz.source import render_case_file

BATCH = 24
"""Programs per file: a process that is ended loses at most these."""
LEAST = 4
"""The fewest programs that justify another process."""
type Judge = Callable[[Sequence[RandomProgram], str], Mapping[int, JudgedProgram]]
"""Judges variants of one program for a kind of contradiction; returns the row of each variant that could be judged."""


def run_campaign(options: FuzzOptions, report_progress: Callable[[Progress], None]) -> FuzzReport:
    """Judges the programs that have no row yet. Raises InputError for a directory of other programs."""
    report = FuzzReport(rows=load_rows(options.directory, options.target))
    before = len(report.rows)
    seeds = [seed for seed in range(options.first, options.first + options.count) if seed not in report.rows]
    workloads = plan_workloads(seeds, options if options.scheduler is None else replace(options, jobs=1))
    started, path = read_processor_seconds(), options.directory / "programs.jsonl"

    elsewhere = 0.0
    with work_until_ended() as work:
        if options.scheduler is not None:
            for workload in workloads:
                report.faults, elsewhere = judge_on_cluster(workload, options.scheduler, path, report_progress)
        elif len(workloads) > 1:
            report.faults = run_workloads("tools.fuzz.campaign", workloads, path, report_progress)
        else:
            for workload in workloads:
                judge_workload(workload, report_progress)
    report.ended_by = work.ending
    report.rows = load_rows(options.directory, options.target)
    report.judged, report.seconds = len(report.rows) - before, elsewhere + read_processor_seconds() - started
    if report.ended_by is None:
        with work_until_ended() as work:

            def judge(some: Sequence[RandomProgram], kind: str) -> Mapping[int, JudgedProgram]:
                renamed = _rename_phase(report_progress, f"shrink {some[0].seed}")
                rows = {case.id: row for case, row in _judge(some, options, renamed, reference=kind == "reference")}
                ids = {one.variant: f"fuzz[{one.seed}-{one.variant}]" for one in some}
                return {variant: rows[case_id] for variant, case_id in ids.items() if case_id in rows}

            write_contradictions(report, options, judge)
        report.ended_by = work.ending
    return report


def plan_workloads(seeds: Sequence[int], options: FuzzOptions) -> tuple[Workload, ...]:
    """Divides the programs among processes."""
    count = min(options.jobs or count_cores(), -(-len(seeds) // LEAST))
    plain = Workload(
        directory=str(options.directory),
        seeds=(),
        target=options.target,
        timeout=options.timeout,
        until=options.find_until(),
        orders=options.orders,
    )
    return tuple(replace(plain, seeds=tuple(seeds[number::count])) for number in range(count))


def judge_workload(workload: Workload, report_progress: Callable[[Progress], None] = ignore_progress) -> None:
    """Judges the workload's programs batch by batch, on one core, and appends a row for each."""
    options = FuzzOptions(
        directory=Path(workload.directory),
        target=workload.target,
        timeout=workload.timeout,
        jobs=1,
        orders=workload.orders,
    )
    for start in range(0, len(workload.seeds), BATCH):
        if workload.is_over:
            break
        _judge_batch(
            workload.seeds[start : start + BATCH],
            options,
            _report_in_campaign(report_progress, start, len(workload.seeds)),
        )


def _judge_batch(seeds: Sequence[int], options: FuzzOptions, report_progress: Callable[[Progress], None]) -> None:
    """Judges the programs and appends their rows. Raises RunEnded if the run was ended."""
    rows = _judge([draw_program(seed) for seed in seeds], options, report_progress)
    for case, row in rows:
        append_row(options.directory / "programs.jsonl", row)
        if not row.contradictions and case.artifact:
            shutil.rmtree(case.artifact, ignore_errors=True)


def _judge(
    programs: Sequence[RandomProgram],
    options: FuzzOptions,
    report_progress: Callable[[Progress], None],
    *,
    reference: bool = True,
) -> list[tuple[CaseReport, JudgedProgram]]:
    """Checks the programs, and replays each on more arguments. Raises RunEnded if the run was ended."""
    path, checked = _check(programs, options, report_progress, reference=reference)
    _require_whole(checked)
    cache, (source,) = Cache(options.directory / "cache"), parse_selectors((str(path),), path.parent)[0].sources
    rows: list[tuple[CaseReport, JudgedProgram]] = []
    with Pool(
        cache=cache,
        jobs=options.jobs,
        timeout=options.timeout,
        module=DRAWS_WORKER,
        template=COMPILE_WORKER,
        environment=compute_environment(1),
    ) as pool:
        asked: list[tuple[CaseReport, JudgedProgram, Future[DrawsAnswer] | None]] = []
        for case in checked.cases:
            if _is_undone(case):
                continue
            row, future = judge_case(case), None
            if case.replay is not None and case.replay.state is ReplayState.DONE:
                request = DrawsRequest(
                    source=source,
                    case_id=case.id,
                    artifact=case.artifact,
                    doubted=list_doubted(row),
                    trusted=list_trusted(row),
                )
                future = pool.submit(make_draws_job(request, options.timeout))
            asked.append((case, row, future))
        for case, row, future in asked:
            try:
                more = DrawsAnswer() if future is None else future.result()
            except LigerdiagError as error:
                more = DrawsAnswer(not_covered=describe_error(error))
            rows.append((case, add_looks(row, more)))
    return rows


def write_contradictions(report: FuzzReport, options: FuzzOptions, judge: Judge) -> None:
    """Writes the case file of each contradiction that has none yet, including those that an ended run omitted.

    judge: tries smaller programs.
    """
    folder = options.directory / "contradictions"
    for seed, row in report.rows.items():
        for kind in row.contradictions:
            path = folder / f"{seed}-{kind}.py"
            if not path.exists():
                folder.mkdir(exist_ok=True)
                path.write_text(_render_contradiction(draw_program(seed), kind, row, options, judge), encoding="utf-8")
                report.files += (path,)


def _require_whole(checked: CheckReport) -> None:
    """Raises RunEnded if the check was ended: its programs are left to the next run."""
    if checked.interrupted:
        raise RunEnded(checked.ended_by)


def _is_undone(case: CaseReport) -> bool:
    replay_undone = case.replay is not None and case.replay.state is ReplayState.NOT_DONE
    return case.status is Status.NOT_CHECKED or replay_undone


def _render_contradiction(
    program: RandomProgram,
    kind: str,
    row: JudgedProgram,
    options: FuzzOptions,
    judge: Judge,
) -> str:
    """Shrinks the program as long as it shows this contradiction; returns the source of a case file."""
    words = row.contradictions[kind]

    def find_shown(some: Sequence[RandomProgram]) -> Sequence[RandomProgram]:
        nonlocal words
        rows = judge(some, kind)
        shown = {
            one: rows[one.variant] for one in some if one.variant in rows and kind in rows[one.variant].contradictions
        }
        if shown:
            words = shown[min(shown, key=measure)].contradictions[kind]
        return tuple(shown)

    small = shrink(program, find_shown) if options.shrink and kind != "fault" else program
    return render_case_file([small], f"Program {program.seed} of `python -m tools.fuzz`, {row.target}: {words}.")


def _check(
    programs: Sequence[RandomProgram],
    options: FuzzOptions,
    report_progress: Callable[[Progress], None],
    *,
    reference: bool = True,
) -> tuple[Path, CheckReport]:
    """Writes the programs to a file and checks it; returns its path and the report."""
    folder = options.directory / "batches"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"programs_{programs[0].seed}{'_smaller' if programs[0].variant else ''}.py"
    path.write_text(
        render_case_file(programs, "Programs of `python -m tools.fuzz`.", reference=reference), encoding="utf-8"
    )
    return path, check(
        CheckOptions(
            selectors=(str(path),),
            targets=(options.target,),
            usual_targets=(options.target,),
            jobs=options.jobs,
            timeout=options.timeout,
            orders=options.orders,
            opaque=True,
            cache_directory=options.directory / "cache",
        ),
        report_progress,
    )


def _report_in_campaign(
    report_progress: Callable[[Progress], None], done: int, total: int
) -> Callable[[Progress], None]:
    """Returns a function that reports progress in a batch as progress of the campaign."""

    def report(p: Progress) -> None:
        here = p.done if p.phase.startswith("replay") else 0
        report_progress(Progress(phase=p.phase, event=p.event, done=done + here, total=total, case_id=p.case_id))

    return report


def _rename_phase(report_progress: Callable[[Progress], None], phase: str) -> Callable[[Progress], None]:
    return lambda p: report_progress(Progress(phase=phase, event=p.event, done=p.done, total=p.total))


if __name__ == "__main__":
    serve_workload(judge_workload)
