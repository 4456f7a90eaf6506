"""A campaign: seeds to programs, each compiled, judged and replayed; what contradicts itself is shrunk to a case file.

In the campaign's directory:

    programs.jsonl          one line a program, written as soon as it is known; a campaign goes on behind what is there
    contradictions/         `SEED-KIND.py`, a case file that stands alone, for each contradiction
    batches/, cache/        what is being worked on; artifacts of programs without contradictions are removed

Kinds of contradictions:

    verdict      the schedule's verdict on an output and its replay cannot both be true; wrong by schedule and right in
                 numbers only if it is so with other arguments, too: errors may cancel out
    reference    program order, on numbers, differs from the formulas in plain jnp
    fault        a rule or a replay fails

Where XLA aborts, and where a program holds what replay does not compute, nothing is contradicted: the line says so.
"""

import resource
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.api.judging import CheckOptions, ignore_progress
from ligerdiag.codec import FieldError, parse_record
from ligerdiag.ending import Ending, RunEnded, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.fuzz.crew import Share, append_row, run_shares, serve_share
from ligerdiag.fuzz.programs import RandomProgram, draw_program
from ligerdiag.fuzz.shrink import measure, shrink
from ligerdiag.fuzz.source import render_case_file
from ligerdiag.model.findings import OutputNumbers, ReplayState
from ligerdiag.model.report import CaseReport, CheckReport, Progress, Status
from ligerdiag.workers.pool import count_cores

BATCH = 24
"""Programs of one file: a process that is ended loses no more than these."""
LEAST = 4
"""Programs that a process is started for."""
_REFERENCE = "LD016"
_UNROLLED = "unrolled"
_ABORTED = "was aborted"
"""In the error of a case whose worker XLA ended."""
_BY_LUCK = ("verdict-stale-fresh", "verdict-clobbered-fresh")
"""Kinds that cancelling errors may show: a sum of several values that are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzOptions:
    """Which programs, and how they are judged."""

    directory: Path
    first: int = 0
    count: int = 100
    minutes: float | None = None
    """No batch is begun after that."""
    target: str = "h100"
    jobs: int | None = None
    timeout: float = 120.0
    """Seconds that one program may take to compile, and again to replay."""
    shrink: bool = True

    def find_until(self) -> float | None:
        """When nothing is begun any more, from now on; seconds since the epoch."""
        return None if self.minutes is None else time.time() + self.minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedProgram:
    """One line of `programs.jsonl`."""

    seed: int
    target: str
    outputs: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Output name to the verdict and what the replay says, `none` where it says nothing."""
    contradictions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kind to words."""
    coincidences: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contradictions that other arguments do not show."""
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those in which an output is called wrong and is right, where a note says that iterations are not told apart."""
    notes: tuple[str, ...] = ()
    """What the analysis does not cover."""
    unjudged: str = ""
    """Why there are no numbers to hold the verdict against: XLA aborts, or replay does not compute the program."""


@dataclass(slots=True, kw_only=True)
class FuzzReport:
    """What is known of all programs of the directory."""

    rows: dict[int, JudgedProgram] = field(default_factory=dict[int, JudgedProgram])
    """By seed."""
    judged: int = 0
    """Programs of this run."""
    seconds: float = 0.0
    """Processor seconds of this run, without shrinking."""
    files: tuple[Path, ...] = ()
    """Case files that this run wrote."""
    left_out: int = 0
    """Programs that need more GPUs than there are."""
    faults: tuple[str, ...] = ()
    """What ended a process of the campaign before its time; the next run does what it left."""
    ended_by: Ending | None = None

    def count_outputs(self) -> Counter[tuple[str, str]]:
        """Outputs by verdict and by what replay says."""
        return Counter((static, numbers) for row in self.rows.values() for static, numbers in row.outputs.values())

    def list_unjudged(self) -> list[tuple[int, str]]:
        """Seed and why its verdict has no numbers beside it."""
        return [(seed, row.unjudged) for seed, row in sorted(self.rows.items()) if row.unjudged]

    def count_excused(self) -> tuple[int, int]:
        """Programs that contradict themselves by coincidence, and by a limit that the analysis names."""
        rows = self.rows.values()
        return sum(bool(row.coincidences) for row in rows), sum(bool(row.limits) for row in rows)

    def list_contradictions(self) -> list[tuple[int, str]]:
        """Seed and what contradicts, in words."""
        return [(seed, words) for seed, row in sorted(self.rows.items()) for words in row.contradictions.values()]


def run_campaign(options: FuzzOptions, tell: Callable[[Progress], None]) -> FuzzReport:
    """Judges the programs of these seeds that are not known yet. Raises InputError for a directory of other programs."""
    report = FuzzReport(rows=load_rows(options.directory, options.target))
    before = len(report.rows)
    seeds = [seed for seed in range(options.first, options.first + options.count) if seed not in report.rows]
    shares = plan_shares(seeds, options)
    started, path = read_processor_seconds(), options.directory / "programs.jsonl"

    with work_until_ended() as work:
        if len(shares) > 1:
            report.faults = run_shares("ligerdiag.fuzz.campaign", shares, path, tell)
        else:
            for share in shares:
                judge_share(share, tell)
    report.ended_by = work.ending
    report.rows = load_rows(options.directory, options.target)
    report.judged, report.seconds = len(report.rows) - before, read_processor_seconds() - started
    if report.ended_by is None:
        with work_until_ended() as work:
            _write_contradictions(report, options, tell)
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
    )
    return tuple(replace(plain, seeds=tuple(seeds[number::count])) for number in range(count))


def load_rows(directory: Path, target: str) -> dict[int, JudgedProgram]:
    """The known programs by seed. Raises InputError."""
    rows = load_known(JudgedProgram, directory / "programs.jsonl")
    others = {row.target for row in rows} - {target}
    if others:
        raise InputError(f"expected programs for {target} but `{directory}` has some for {', '.join(sorted(others))}")
    return {row.seed: row for row in rows}


def load_known[R](kind: type[R], path: Path) -> list[R]:
    """The rows of the file; a last line that was not written to its end is dropped. Raises InputError."""
    if not path.exists():
        return []
    *lines, rest = path.read_text(encoding="utf-8").split("\n")
    if rest:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows: list[R] = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(parse_record(kind, line))
        except FieldError as error:
            raise InputError(f"expected a program in line {number} of `{path}` but: {error}") from error
    return rows


def judge_case(case: CaseReport) -> JudgedProgram:
    """Verdicts, numbers and contradictions of one program."""
    numbers: Mapping[str, OutputNumbers] = case.replay.outputs if case.replay is not None else {}
    unjudged = case.error
    if case.replay is not None and case.replay.state is not ReplayState.DONE:
        unjudged = f"{case.replay.state.value}: {case.replay.reason}"
    return JudgedProgram(
        seed=int(case.id.partition("[")[2].rstrip("]").partition("-")[0]),
        target=case.target,
        outputs={
            name: (verdict.value, numbers[name].attribution.value if name in numbers else "none")
            for name, verdict in case.outputs.items()
        },
        contradictions=dict(_find_contradictions(case)),
        notes=case.coverage.not_covered,
        unjudged=unjudged,
    )


def _find_contradictions(case: CaseReport) -> Iterator[tuple[str, str]]:
    """Yields (kind, words)."""
    if case.error and _ABORTED not in case.error:
        yield "fault", case.error
    if case.failures:
        yield "fault", case.failures[0].message
    if case.replay is not None and case.replay.state is ReplayState.FAILED:
        yield "fault", f"replay failed: {case.replay.reason}"
    for one in case.disagreements:
        yield f"verdict-{one.static.value}-{one.numbers.value}".replace(" ", "-"), one.message
    for finding in case.findings:
        if finding.rule == _REFERENCE:
            yield "reference", finding.message


def judge_share(share: Share, tell: Callable[[Progress], None] = ignore_progress) -> None:
    """Judges the share's programs batch by batch, on one core, and appends a row for each."""
    options = FuzzOptions(directory=Path(share.directory), target=share.target, timeout=share.timeout, jobs=1)
    for start in range(0, len(share.seeds), BATCH):
        if share.is_over:
            break
        _judge_batch(share.seeds[start : start + BATCH], options, _count_behind(tell, start, len(share.seeds)))


def _judge_batch(seeds: Sequence[int], options: FuzzOptions, tell: Callable[[Progress], None]) -> None:
    """Raises RunEnded when it was ended; what was done then is kept."""
    programs = {seed: draw_program(seed) for seed in seeds}
    checked = _check(list(programs.values()), options, tell)
    done = {row.seed: (case, row) for case in checked.cases if not _is_undone(case) for row in (judge_case(case),)}
    luck = _find_coincidences(programs, [row for _, row in done.values()], options, tell)
    for seed, (case, row) in done.items():
        known = sort_out(row, {kind for number, kind in luck if number == seed})
        append_row(options.directory / "programs.jsonl", known)
        if not known.contradictions and case.artifact:
            shutil.rmtree(case.artifact, ignore_errors=True)
    _require_whole(checked)


def _write_contradictions(report: FuzzReport, options: FuzzOptions, tell: Callable[[Progress], None]) -> None:
    """Writes each case file that is not there yet, also those that an ended run left out."""
    folder = options.directory / "contradictions"
    for seed, row in report.rows.items():
        for kind in row.contradictions:
            path = folder / f"{seed}-{kind}.py"
            if not path.exists():
                folder.mkdir(exist_ok=True)
                path.write_text(_render_contradiction(draw_program(seed), kind, options, tell), encoding="utf-8")
                report.files += (path,)


def sort_out(row: JudgedProgram, luck: set[str]) -> JudgedProgram:
    """Takes from the contradictions those that are coincidences, or a limit that the analysis names."""
    is_unrolled = any(_UNROLLED in note for note in row.notes)
    known = {kind for kind in row.contradictions if is_unrolled and kind in _BY_LUCK} - luck

    def choose(kinds: set[str]) -> dict[str, str]:
        return {kind: words for kind, words in row.contradictions.items() if kind in kinds}

    rest = set(row.contradictions) - luck - known
    return replace(row, contradictions=choose(rest), coincidences=choose(luck), limits=choose(known))


def _require_whole(checked: CheckReport) -> None:
    """Ends the campaign where a check beside was ended: what it was for is left to the next run."""
    if checked.interrupted:
        raise RunEnded(checked.ended_by)


def _is_undone(case: CaseReport) -> bool:
    replay_undone = case.replay is not None and case.replay.state is ReplayState.NOT_DONE
    return case.status is Status.NOT_CHECKED or replay_undone


def _find_coincidences(
    programs: Mapping[int, RandomProgram],
    rows: Sequence[JudgedProgram],
    options: FuzzOptions,
    tell: Callable[[Progress], None],
) -> set[tuple[int, str]]:
    """Finds the contradictions "wrong by its schedule, right in its numbers" that other arguments do not show."""
    doubted = {(row.seed, kind) for row in rows for kind in row.contradictions if kind in _BY_LUCK}
    if not doubted:
        return set()
    others = [replace(programs[seed], draw=1, variant=1) for seed in sorted({seed for seed, _ in doubted})]
    checked = _check(others, options, tell, reference=False)
    _require_whole(checked)
    again = {
        row.seed: row.contradictions for case in checked.cases if not _is_undone(case) for row in (judge_case(case),)
    }
    return {(seed, kind) for seed, kind in doubted if seed in again and kind not in again[seed]}


def _render_contradiction(
    program: RandomProgram, kind: str, options: FuzzOptions, tell: Callable[[Progress], None]
) -> str:
    """Shrinks the program while it shows this kind; returns what is left as the source of a case file."""
    words = ""

    def find_shown(some: Sequence[RandomProgram]) -> Sequence[RandomProgram]:
        nonlocal words
        checked = _check(some, options, _rename_phase(tell, f"shrink {program.seed}"), reference=kind == "reference")
        _require_whole(checked)
        shown = {case.id: found[kind] for case in checked.cases if kind in (found := dict(_find_contradictions(case)))}
        kept = [one for one in some if f"fuzz[{one.seed}-{one.variant}]" in shown]
        if kept:
            best = min(kept, key=measure)
            words = shown[f"fuzz[{best.seed}-{best.variant}]"]
        return kept

    small = shrink(program, find_shown) if options.shrink and kind != "fault" else program
    about = f"Program {program.seed} of `ligerdiag fuzz`, {options.target}: {words or kind}."
    return render_case_file([small], about)


def _check(
    programs: Sequence[RandomProgram], options: FuzzOptions, tell: Callable[[Progress], None], *, reference: bool = True
) -> CheckReport:
    folder = options.directory / "batches"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"programs_{programs[0].seed}{'_smaller' if programs[0].variant else ''}.py"
    path.write_text(render_case_file(programs, "Programs of `ligerdiag fuzz`.", reference=reference), encoding="utf-8")
    return check(
        CheckOptions(
            selectors=(str(path),),
            targets=(options.target,),
            usual_targets=(options.target,),
            jobs=options.jobs,
            timeout=options.timeout,
            cache_directory=options.directory / "cache",
        ),
        tell,
    )


def _count_behind(tell: Callable[[Progress], None], done: int, total: int) -> Callable[[Progress], None]:
    """Reports the steps of a batch as those of the campaign."""

    def told(p: Progress) -> None:
        here = p.done if p.phase == "replay" else 0
        tell(Progress(phase=p.phase, event=p.event, done=done + here, total=total, case_id=p.case_id))

    return told


def _rename_phase(tell: Callable[[Progress], None], phase: str) -> Callable[[Progress], None]:
    return lambda p: tell(Progress(phase=phase, event=p.event, done=p.done, total=p.total))


def read_processor_seconds() -> float:
    """Of this process and of all that it started and that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    serve_share(judge_share)
