"""A campaign: seeds to programs, each compiled, judged and replayed; what contradicts itself is shrunk to a case file.

In the campaign's directory:

    programs.jsonl          one line a program, written as soon as it is known; a campaign goes on behind what is there
    contradictions/         `SEED-KIND.py`, a case file that stands alone, for each contradiction
    batches/, cache/        what is being worked on; artifacts of programs without contradictions are removed

Kinds of contradictions:

    order        an output that is called fresh has other numbers in another legal order of its schedule
    verdict      the schedule's verdict on an output and its numbers cannot both be true. Right are numbers in all of
                 several draws, see `more_draws`: in one, errors may cancel out, or hide in a branch
    reference    program order, on numbers, differs from the formulas in plain jnp
    fault        a rule or a replay fails

Where XLA aborts, and where a program holds what replay does not compute, nothing is contradicted: the line says so.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.api.judging import CheckOptions, ignore_progress
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.selectors import parse_selectors
from ligerdiag.ending import RunEnded, work_until_ended
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.fuzz.crew import Share, append_row, read_processor_seconds, run_shares, serve_share
from ligerdiag.fuzz.drawing import draw_program
from ligerdiag.fuzz.programs import RandomProgram
from ligerdiag.fuzz.remote import judge_on_cluster
from ligerdiag.fuzz.rows import (
    FuzzOptions,
    FuzzReport,
    JudgedProgram,
    judge_case,
    list_doubted,
    list_trusted,
    load_rows,
    look_again,
)
from ligerdiag.fuzz.shrink import measure, shrink
from ligerdiag.fuzz.source import render_case_file
from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import CaseReport, CheckReport, Progress, Status
from ligerdiag.replay.more_draws import DRAWS_WORKER, DrawsAnswer, DrawsRequest, make_draws_job
from ligerdiag.replay.replay_service import compute_environment
from ligerdiag.workers.pool import COMPILE_WORKER, Pool, count_cores

BATCH = 24
"""Programs of one file: a process that is ended loses no more than these."""
LEAST = 4
"""Programs that a process is started for."""
type Judge = Callable[[Sequence[RandomProgram], str], Mapping[int, JudgedProgram]]
"""Some programs of one seed and a kind of contradiction to the rows of those that could be judged, by variant."""


def run_campaign(options: FuzzOptions, tell: Callable[[Progress], None]) -> FuzzReport:
    """Judges the programs of these seeds that are not known yet. Raises InputError for a directory of other programs."""
    report = FuzzReport(rows=load_rows(options.directory, options.target))
    before = len(report.rows)
    seeds = [seed for seed in range(options.first, options.first + options.count) if seed not in report.rows]
    shares = plan_shares(seeds, options if options.scheduler is None else replace(options, jobs=1))
    started, path = read_processor_seconds(), options.directory / "programs.jsonl"

    elsewhere = 0.0
    with work_until_ended() as work:
        if options.scheduler is not None:
            for share in shares:
                report.faults, elsewhere = judge_on_cluster(share, options.scheduler, path, tell)
        elif len(shares) > 1:
            report.faults = run_shares("ligerdiag.fuzz.campaign", shares, path, tell)
        else:
            for share in shares:
                judge_share(share, tell)
    report.ended_by = work.ending
    report.rows = load_rows(options.directory, options.target)
    report.judged, report.seconds = len(report.rows) - before, elsewhere + read_processor_seconds() - started
    if report.ended_by is None:
        with work_until_ended() as work:

            def judge(some: Sequence[RandomProgram], kind: str) -> Mapping[int, JudgedProgram]:
                told = _rename_phase(tell, f"shrink {some[0].seed}")
                rows = {case.id: row for case, row in _judge(some, options, told, reference=kind == "reference")}
                ids = {one.variant: f"fuzz[{one.seed}-{one.variant}]" for one in some}
                return {variant: rows[case_id] for variant, case_id in ids.items() if case_id in rows}

            write_contradictions(report, options, judge)
        report.ended_by = work.ending
    return report


def plan_shares(seeds: Sequence[int], options: FuzzOptions) -> tuple[Share, ...]:
    """The programs over the processes."""
    count = min(options.jobs or count_cores(), -(-len(seeds) // LEAST))
    plain = Share(
        directory=str(options.directory),
        seeds=(),
        target=options.target,
        timeout=options.timeout,
        until=options.find_until(),
        orders=options.orders,
    )
    return tuple(replace(plain, seeds=tuple(seeds[number::count])) for number in range(count))


def judge_share(share: Share, tell: Callable[[Progress], None] = ignore_progress) -> None:
    """Judges the share's programs batch by batch, on one core, and appends a row for each."""
    options = FuzzOptions(
        directory=Path(share.directory), target=share.target, timeout=share.timeout, jobs=1, orders=share.orders
    )
    for start in range(0, len(share.seeds), BATCH):
        if share.is_over:
            break
        _judge_batch(share.seeds[start : start + BATCH], options, _count_behind(tell, start, len(share.seeds)))


def _judge_batch(seeds: Sequence[int], options: FuzzOptions, tell: Callable[[Progress], None]) -> None:
    """Raises RunEnded when it was ended."""
    rows = _judge([draw_program(seed) for seed in seeds], options, tell)
    for case, row in rows:
        append_row(options.directory / "programs.jsonl", row)
        if not row.contradictions and case.artifact:
            shutil.rmtree(case.artifact, ignore_errors=True)


def _judge(
    programs: Sequence[RandomProgram], options: FuzzOptions, tell: Callable[[Progress], None], *, reference: bool = True
) -> list[tuple[CaseReport, JudgedProgram]]:
    """Checks the programs, and draws more arguments for each. Raises RunEnded when that was ended."""
    path, checked = _check(programs, options, tell, reference=reference)
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
            rows.append((case, look_again(row, more)))
    return rows


def write_contradictions(report: FuzzReport, options: FuzzOptions, judge: Judge) -> None:
    """Writes each case file that is not there yet, also those that an ended run left out.

    judge: what tries smaller programs.
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
    """Ends the campaign where a check beside was ended: what it was for is left to the next run."""
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
    """Shrinks the program while it shows this kind; returns what is left as the source of a case file."""
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
    return render_case_file([small], f"Program {program.seed} of `ligerdiag fuzz`, {row.target}: {words}.")


def _check(
    programs: Sequence[RandomProgram], options: FuzzOptions, tell: Callable[[Progress], None], *, reference: bool = True
) -> tuple[Path, CheckReport]:
    """Returns the file of the programs and what `check` says of them."""
    folder = options.directory / "batches"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"programs_{programs[0].seed}{'_smaller' if programs[0].variant else ''}.py"
    path.write_text(render_case_file(programs, "Programs of `ligerdiag fuzz`.", reference=reference), encoding="utf-8")
    return path, check(
        CheckOptions(
            selectors=(str(path),),
            targets=(options.target,),
            usual_targets=(options.target,),
            jobs=options.jobs,
            timeout=options.timeout,
            orders=options.orders,
            cache_directory=options.directory / "cache",
        ),
        tell,
    )


def _count_behind(tell: Callable[[Progress], None], done: int, total: int) -> Callable[[Progress], None]:
    """Reports the steps of a batch as those of the campaign."""

    def told(p: Progress) -> None:
        here = p.done if p.phase.startswith("replay") else 0
        tell(Progress(phase=p.phase, event=p.event, done=done + here, total=total, case_id=p.case_id))

    return told


def _rename_phase(tell: Callable[[Progress], None], phase: str) -> Callable[[Progress], None]:
    return lambda p: tell(Progress(phase=phase, event=p.event, done=p.done, total=p.total))


if __name__ == "__main__":
    serve_share(judge_share)
