"""Judges random programs and replays each on numbers and with opaque functions, in several processes.

A row for each program is appended to a file as the program finishes, so a run that was ended is continued by the same
command. `tools.opaque_agreement` is the command line, and prints the summary of such a file.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.ending import RunEnded
from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import CaseReport, OnProgress, Status
from ligerdiag.run_options import CheckOptions
from tools.fuzz.drawing import draw_program
from tools.fuzz.judged_programs import load_known, read_seed
from tools.fuzz.processes import Workload, append_row, run_workloads, serve_workload
from tools.fuzz.source import render_case_file

_BATCH = 6
"""Programs per file: how many an ended process loses at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRow:
    """One output: its verdict, and its numbers of both replays."""

    verdict: str
    real: str = "none"
    """Attribution by the replay on numbers; `none` without one."""
    opaque: str = "none"
    """Attribution by the replay with opaque functions; `none` without one."""
    error: float = 0.0
    """As in `OutputNumbers`, of the replay with opaque functions; so are the next two."""
    distance: float = 0.0
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRow:
    """One program, or one case."""

    name: str
    """The id of the case."""
    seed: int | None = None
    """Of a random program; None for a case."""
    outputs: Mapping[str, OutputRow] = field(default_factory=dict[str, OutputRow])
    real_state: str = "no replay"
    opaque_state: str = "none"
    reasons: tuple[str, ...] = ()
    """Why a replay was not done, or why the program could not be judged."""
    real_seconds: float = 0.0
    opaque_seconds: float = 0.0
    is_whole: bool = False
    """Whether both replays were done, without cutting loops short."""
    disagreements: tuple[str, ...] = ()
    """The sentence of each disagreement that `check` reports."""


def make_row(case: CaseReport, seed: int | None = None) -> ProgramRow:
    """Returns the row of one case that was checked with `--opaque`."""
    replay = case.replay
    opaque = None if replay is None else replay.opaque
    outputs: dict[str, OutputRow] = {}
    for name, verdict in case.outputs.items():
        real = None if replay is None else replay.outputs.get(name)
        other = None if opaque is None else opaque.outputs.get(name)
        row = OutputRow(verdict=verdict.value, real="none" if real is None else real.attribution.value)
        if other is not None:
            row = OutputRow(
                verdict=row.verdict,
                real=row.real,
                opaque=other.attribution.value,
                error=other.error,
                distance=other.distance,
                tolerance=other.tolerance,
            )
        outputs[name] = row
    reasons = (case.error, "" if replay is None else replay.reason, "" if opaque is None else opaque.reason)
    done = [one for one in (replay, opaque) if one is not None and one.state is ReplayState.DONE]
    return ProgramRow(
        name=case.id,
        seed=seed,
        outputs=outputs,
        real_state="no replay" if replay is None else replay.state.value,
        opaque_state="none" if opaque is None else opaque.state.value,
        reasons=tuple([reason for reason in reasons if reason]),
        real_seconds=0.0 if replay is None else replay.seconds,
        opaque_seconds=0.0 if opaque is None else opaque.seconds,
        is_whole=len(done) == 2 and not any(one.cut for one in done),
        disagreements=tuple([one.message for one in case.disagreements]),
    )


def load_programs(path: Path) -> dict[int, ProgramRow]:
    """Returns the rows of random programs by seed; none if there is no such file. Raises InputError for a broken line."""
    return {row.seed: row for row in load_known(ProgramRow, path) if row.seed is not None}


def judge_programs(
    seeds: Sequence[int], path: Path, report_progress: OnProgress, *, jobs: int, until: float | None, timeout: float
) -> tuple[str, ...]:
    """Judges the programs that have no row in the file yet, and appends their rows; returns a line for each process that
    failed. until: no batch of programs begins after that, in seconds since the epoch. timeout: seconds for one program.
    """
    rows = load_programs(path)
    left = [seed for seed in dict.fromkeys(seeds) if seed not in rows]
    jobs = min(jobs, len(left))
    with tempfile.TemporaryDirectory() as folder:
        workloads = [
            Workload(
                directory=folder,
                seeds=tuple(left[number::jobs]),
                target="h100",
                timeout=timeout,
                until=until,
                rows=str(path.resolve()),
            )
            for number in range(jobs)
        ]
        return run_workloads("tools.opaque_corpus", workloads, path, report_progress) if workloads else ()


def _judge_workload(workload: Workload) -> None:
    for start in range(0, len(workload.seeds), _BATCH):
        if workload.is_over:
            return
        _judge_batch(workload.seeds[start : start + _BATCH], workload)


def _judge_batch(seeds: Sequence[int], workload: Workload) -> None:
    """Judges the programs and appends their rows. Raises RunEnded if the run was ended."""
    folder = Path(workload.directory)
    path = folder / f"programs_{seeds[0]}.py"
    path.write_text(render_case_file(list(map(draw_program, seeds)), "Programs.", reference=False), encoding="utf-8")
    report = check(
        CheckOptions(
            selectors=(str(path),),
            targets=(workload.target,),
            usual_targets=(workload.target,),
            jobs=1,
            timeout=workload.timeout,
            cache_directory=folder / "cache",
            opaque=True,
        )
    )
    if report.interrupted:
        raise RunEnded(report.ended_by)
    for case in report.cases:
        if case.status is not Status.NOT_CHECKED:
            append_row(Path(workload.rows), make_row(case, read_seed(case)))
        if case.artifact:
            shutil.rmtree(case.artifact, ignore_errors=True)


if __name__ == "__main__":
    serve_workload(_judge_workload)
