"""Replays programs on numbers and with opaque functions, and prints how both agree with the verdicts and with each other.

`python -m tools.opaque_agreement cases/rope.py` takes cases, as `check` does; `--seeds 0 200` takes the random programs
of these seeds. `--corpus tests/fuzz/corpus.txt --every 10 --out rows.jsonl` takes one in ten of the programs whose
answers are recorded, and appends a row for each to the file as it finishes; the same command continues a run that was
ended, and `--minutes` bounds it. `--summary rows.jsonl` prints the summary of such a file.

The summary is Markdown: a table of outputs by verdict and both numbers, one by recorded answers, the processor seconds
of both replays, and each output for which opaque functions contradict the verdict, the numbers or the answer.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ligerdiag import api
from ligerdiag.ending import watch_for_end, work_until_ended
from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import Progress
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.workers.pool import count_cores
from tools.corpus import CORPUS, read_corpus
from tools.fuzz.drawing import draw_program
from tools.fuzz.source import render_case_file
from tools.opaque_corpus import OutputRow, ProgramRow, judge_programs, load_programs, make_row

_RIGHT = (Attribution.FRESH.value, Attribution.LOSSY.value)
_WRONG = tuple(one.value for one in Attribution if one.is_wrong)
_CALLED_RIGHT = tuple(one.value for one in Verdict if one.is_right)
_ANSWERS: Mapping[str, str] = {"r": "right", "x": "right", "w": "wrong", "-": "unknown"}
_UNFINISHED = 3
"""Exit code of a run that left programs without a row."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("selectors", nargs="*")
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "END"))
    parser.add_argument("--cache-dir", type=Path)
    parser.add_argument("--jobs", type=int, help="processes; as many as there are cores by default")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--corpus", type=Path, help="file of programs and answers, see tools.corpus")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="with --corpus: only one program in N")
    parser.add_argument("--skip", type=int, default=0, metavar="K", help="with --corpus: skip the first K programs")
    parser.add_argument("--count", type=int, metavar="N", help="with --corpus: at most N programs")
    parser.add_argument("--minutes", type=float, metavar="N", help="with --corpus: begin no program after N minutes")
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="SECONDS", help="with --corpus: for one program"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --corpus: the file of rows")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="print the summary of a file of rows")
    options = parser.parse_args(arguments)
    if options.corpus is not None and options.out is None:
        parser.error("--corpus needs --out")
    if options.corpus is not None:
        return _run_corpus(options)
    rows = _check(options) if options.summary is None else list(load_programs(options.summary).values())
    letters = read_corpus(CORPUS) if options.summary is not None else {}
    sys.stdout.write("\n".join(render(rows, letters)) + "\n")
    return 0


def _run_corpus(options: argparse.Namespace) -> int:
    """Judges the programs that have no row yet; returns 3 if some are left, to be judged by the same command."""
    seeds = sorted(read_corpus(options.corpus))[options.skip :: options.every][: options.count]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with watch_for_end(), work_until_ended():
        faults = judge_programs(
            seeds,
            options.out,
            _print_progress,
            jobs=options.jobs or count_cores(),
            until=None if options.minutes is None else time.time() + 60 * options.minutes,
            timeout=options.timeout,
        )
    done = len(load_programs(options.out).keys() & set(seeds))
    sys.stderr.write("".join(f"{line}\n" for line in faults))
    sys.stdout.write(f"{done} of {len(seeds)} programs have a row in {options.out}\n")
    return 0 if done == len(seeds) else _UNFINISHED


def _print_progress(progress: Progress) -> None:
    sys.stderr.write(f"{progress.done}/{progress.total}\n")


def _check(options: argparse.Namespace) -> list[ProgramRow]:
    with tempfile.TemporaryDirectory() as folder:
        selectors = list(options.selectors)
        if options.seeds:
            path = Path(folder) / "random_programs.py"
            programs = [draw_program(seed) for seed in range(*options.seeds)]
            path.write_text(render_case_file(programs, "Random programs."), encoding="utf-8")
            selectors.append(str(path))
        wanted = api.CheckOptions(
            selectors=tuple(selectors), cache_directory=options.cache_dir, jobs=options.jobs, opaque=True
        )
        if options.full:
            wanted = replace(wanted, bounds=Bounds(full=True), timeout=3600.0)
        report = api.check(replace(wanted, refresh=options.refresh))
    return list(map(make_row, report.cases))


def render(rows: Sequence[ProgramRow], letters: Mapping[int, str]) -> Iterator[str]:
    """Yields the lines of the Markdown text on these programs. letters: the recorded answers by seed, if there are any,
    as in `tools.corpus`.
    """
    outputs: Counter[tuple[str, str, str]] = Counter()
    answers: Counter[tuple[str, str, str]] = Counter()
    states: Counter[tuple[str, str]] = Counter()
    notes: list[str] = []
    seconds = [0.0, 0.0]
    for row in rows:
        states[row.real_state, row.opaque_state] += 1
        notes += [f"- `{row.name}`: {one}" for one in row.disagreements]
        if row.is_whole:
            seconds[0] += row.real_seconds
            seconds[1] += row.opaque_seconds
        known = _find_answers(row, letters)
        for name, one in row.outputs.items():
            if one.opaque == "none":
                continue
            outputs[one.verdict, one.real, one.opaque] += 1
            if known:
                answers[known[name], one.verdict, one.opaque] += 1
            if against := list(_list_contradicted(one, known.get(name, ""))):
                numbers = f"error {one.error:.1e}, distance {one.distance:.1e}, tolerance {one.tolerance:.0e}"
                notes.append(
                    f"- `{row.name}`, `{name}`: {one.verdict}, replay {one.real}, opaque {one.opaque} ({numbers}):"
                    f" opaque functions contradict {' and '.join(against)}"
                )
    yield "| replay | with opaque functions | programs |"
    yield "|---|---|---|"
    yield from (f"| {real} | {other} | {count} |" for (real, other), count in sorted(states.items()))
    yield ""
    yield "| verdict | replay | with opaque functions | outputs |"
    yield "|---|---|---|---|"
    yield from (f"| {v} | {real} | {other} | {count} |" for (v, real, other), count in sorted(outputs.items()))
    if answers:
        yield ""
        yield "| recorded answer | verdict | with opaque functions | outputs |"
        yield "|---|---|---|---|"
        yield from (f"| {a} | {v} | {other} | {count} |" for (a, v, other), count in sorted(answers.items()))
    yield ""
    yield f"Seconds of the replays that both did whole: {seconds[0]:.1f} and {seconds[1]:.1f}."
    yield from ("", *notes)
    reasons = Counter(reason for row in rows for reason in row.reasons)
    yield from ("", *(f"- {count} x {reason}" for reason, count in reasons.most_common()))


def _find_answers(row: ProgramRow, letters: Mapping[int, str]) -> Mapping[str, str]:
    """Returns the recorded answer by output name; empty if there are none."""
    spelled = letters.get(row.seed, "") if row.seed is not None else ""
    names = sorted(row.outputs)
    return {name: _ANSWERS[one] for name, one in zip(names, spelled, strict=True)} if spelled and names else {}


def _list_contradicted(one: OutputRow, answer: str) -> Iterator[str]:
    """Yields what the opaque numbers of an output contradict. Right ones contradict neither a wrong verdict nor a wrong
    answer here: findings may explain them, and then `check` reports no disagreement.
    """
    if one.opaque in _WRONG:
        if one.verdict in _CALLED_RIGHT:
            yield "the verdict"
        if one.real in _RIGHT:
            yield "the numbers"
        if answer == "right":
            yield "the answer"
    elif one.opaque in _RIGHT:
        if one.real in _WRONG:
            yield "the numbers"
        if answer == "wrong":
            yield "the answer"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
