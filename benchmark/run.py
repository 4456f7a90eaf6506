"""Compiles and judges the programs of the public reports, and writes a row for each: `python -m benchmark.run`.

The rows go to `benchmark/rows.json` after each group of reports, so that an interrupted run continues where it was: rows of
unchanged reports are kept, unless `--refresh`. `python -m benchmark.table` then writes docs/benchmark.md.

`--rename SEED` does the same in a copy whose identifiers have other, random names, and compares the outcomes with the rows:
a tool that knew a program by its names would answer otherwise. The exit code is 1 if one differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import batched
from pathlib import Path
from time import perf_counter

from benchmark.judging import Judgement, Outcome, Witness, describe, judge_bad, judge_cured
from benchmark.other_tools import ask_other_tools
from benchmark.renaming import write_renamed_copy
from benchmark.report import Entry, Kind, list_names, load_entry
from benchmark.rows import ROWS, Row, compute_digest, load_rows, write_rows
from ligerdiag.api.checking import check, render_record
from ligerdiag.api.inspecting import inspect
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.case import Case
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.run_options import CheckOptions, InspectOptions
from ligerdiag.toolchains.toolchain_table import DEFAULT

_GROUP = 12
"""Reports whose programs are compiled together."""
_ORDERS = 6
"""Other orders in which each schedule is replayed."""


def main() -> int:
    """Runs the benchmark and prints one line for each report."""
    options = _parse_options()
    chosen = [name for name in list_names() if any(fnmatchcase(name, pattern) for pattern in options.only)]
    if options.rename is not None:
        return _compare_renamed(options, chosen)
    started = perf_counter()
    known = load_rows(options.rows)
    rows = {name: row for name, row in known.items() if name in list_names()}
    entries = [load_entry(name) for name in chosen]
    todo = [one for one in entries if options.refresh or _is_old(known.get(one.name), one)]
    for group in batched(todo, _GROUP):
        for fresh in _judge_group(group, options):
            earlier = known.get(fresh.name)
            row = replace(fresh, others=earlier.others) if options.no_others and earlier is not None else fresh
            rows[row.name] = row
            sys.stdout.write(f"{row.name:28} {row.ours:8} cured {row.cured_is or '-':8} {_list_witnesses(row)}\n")
            sys.stdout.flush()
        write_rows(options.rows, rows.values())
    counts = {what: sum(rows[name].ours == what for name in chosen) for what in ("found", "missed", "unknown", "false")}
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    sys.stdout.write(f"{len(chosen)} reports: {said}; {len(todo)} judged in {perf_counter() - started:.0f} s\n")
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmark.run", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="reports by the names of their files")
    parser.add_argument("--rows", type=Path, default=ROWS, help="file with the results")
    parser.add_argument("--refresh", action="store_true", help="judge unchanged reports again, too")
    parser.add_argument("--rename", type=int, metavar="SEED", help="rename all identifiers in a copy, and compare")
    parser.add_argument("--no-others", action="store_true", help="do not ask other tools")
    parser.add_argument(
        "--torch", default="", metavar="PYTHON", help="a Python with torch and triton, for its analysis"
    )
    parser.add_argument("--jobs", type=int, help="worker processes; one for each core by default")
    parser.add_argument("--cache-dir", type=Path, help="folder that keeps compiled programs")
    return parser.parse_args()


def _is_old(row: Row | None, entry: Entry) -> bool:
    return row is None or row.digest != compute_digest(entry)


def _list_witnesses(row: Row) -> str:
    found = [who for who, what in row.bad.witnesses.items() if what == Outcome.FOUND]
    return f"by {', '.join(found)}" if found else f"{row.bad.status} {' '.join(row.bad.rules)}".strip()


def _judge_group(group: Sequence[Entry], options: argparse.Namespace) -> Iterator[Row]:
    reports: dict[str, CaseReport] = {}
    for toolchain in sorted({one.report.toolchain for one in group}):
        files = [str(one.file) for one in group if isinstance(one.bad, Case) and one.report.toolchain == toolchain]
        reports |= {report.id: report for report in _check(files, options, toolchain)} if files else {}
    others = {} if options.no_others else ask_other_tools(group, reports, torch=options.torch)
    for entry in group:
        row = Row(name=entry.name, digest=compute_digest(entry), others=others.get(entry.name, {}))
        match entry.bad, entry.cured:
            case Case() as bad, Case() as cured:
                report = reports.get(bad.id)
                if entry.report.kind is Kind.MEMORY_DRIFT:
                    report = _check_against(entry, cured, bad, options)
                yield _fill(row, entry, report, reports.get(cured.id))
            case Path() as bad, Path() as cured:
                yield _fill(row, entry, _inspect(bad, options), _inspect(cured, options))
            case _:
                yield row


def _fill(row: Row, entry: Entry, bad: CaseReport | None, cured: CaseReport | None) -> Row:
    """Returns the row with what ligerdiag says of both programs. None: the program was not judged at all."""
    lost = Judgement(witnesses={Witness.STATIC.value: Outcome.UNKNOWN.value}, error="no report")
    return replace(
        row,
        bad=judge_bad(entry, bad) if bad is not None else lost,
        cured=describe(cured, {}) if cured is not None else lost,
        cured_is=(judge_cured(cured) if cured is not None else judge_cured(_NO_REPORT)).value,
    )


_NO_REPORT = CaseReport(id="", target="", toolchain="", status=Status.ERROR)


def _make_check_options(selectors: Sequence[str], options: argparse.Namespace, toolchain: str) -> CheckOptions:
    return CheckOptions(
        selectors=tuple(selectors),
        jobs=options.jobs,
        cache_directory=options.cache_dir,
        orders=_ORDERS,
        refresh=True,  # else the seconds of a program that the cache has would be those of reading it
        toolchain=toolchain or DEFAULT,
    )


def _check(files: Sequence[str], options: argparse.Namespace, toolchain: str) -> tuple[CaseReport, ...]:
    return check(_make_check_options(files, options, toolchain)).cases


def _check_against(entry: Entry, old: Case, new: Case, options: argparse.Namespace) -> CaseReport | None:
    """Returns the report on the case `new` against a baseline of the case `old` under the name of `new`."""
    toolchain = entry.report.toolchain
    chosen = replace(_make_check_options([f"{entry.file}::{old.id}"], options, toolchain), record=True)
    with tempfile.TemporaryDirectory() as scratch:
        baseline = Path(scratch) / "baseline.json"
        recorded = render_record(check(chosen), chosen, baseline)
        baseline.write_text(recorded.replace(f'"{old.id}"', f'"{new.id}"'))
        later = replace(_make_check_options([f"{entry.file}::{new.id}"], options, toolchain), baseline=baseline)
        return next(iter(check(later).cases), None)


def _inspect(path: Path, options: argparse.Namespace) -> CaseReport | None:
    try:
        report = inspect(InspectOptions(paths=(path,), cache_directory=options.cache_dir))
    except LigerdiagError as error:
        return replace(_NO_REPORT, id=path.name, error=str(error))
    nothing = replace(_NO_REPORT, id=path.name, status=Status.INCONCLUSIVE, error="; ".join(report.notes))
    return next(iter(report.cases), nothing)


def _compare_renamed(options: argparse.Namespace, chosen: Sequence[str]) -> int:
    """Judges a renamed copy in a process of its own; returns 1 if an outcome differs from the rows."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        write_renamed_copy(copy, options.rename, chosen)
        rows = copy / "rows.json"
        command = [sys.executable, "-m", "benchmark.run", "--rows", str(rows), "--no-others", "--only", *chosen]
        command += ["--jobs", str(options.jobs)] if options.jobs else []
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        subprocess.run(command, cwd=copy, env=environment, check=True)
        renamed, known = load_rows(rows), load_rows(options.rows)
    differing = [name for name in chosen if name in known and renamed[name].verdict != known[name].verdict]
    for name in differing:
        sys.stdout.write(f"{name}: {known[name].verdict} became {renamed[name].verdict}\n")
    missing = [name for name in chosen if name not in known]
    if missing:
        sys.stdout.write(f"not in {options.rows.name}, so not compared: {', '.join(missing)}\n")
    sys.stdout.write(
        f"{len(chosen) - len(missing) - len(differing)} of {len(chosen) - len(missing)} rows are the same\n"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
