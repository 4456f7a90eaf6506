"""`ligerdiag sweep`: checks many cases with many targets, toolchains and flags, on all cores or on a cluster."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode, find_ending_code, render_table
from ligerdiag.cli.options import TimeLimit, fill_options, make_command
from ligerdiag.cli.output import write_atomically
from ligerdiag.ending import watch_for_end
from ligerdiag.errors import InputError
from ligerdiag.run_options import Option
from ligerdiag.text import count_of

MAXIMUM_REASONS = 10
"""Largest number of reasons in the summary of a sweep."""

TABLE = "sweep.parquet"
"""Name of the table in the folder of a sweep."""

if TYPE_CHECKING:
    from ligerdiag.sweep.campaign import SweepReport
    from ligerdiag.sweep.result_store import StoredResult
    from ligerdiag.sweep.sweep_table import SweepDifference

HELP = """Checks many cases for many GPUs, toolchains, flags of XLA and sizes. GRID is a TOML file;
each of its cases is checked for each target, by each toolchain, with each set of flags and
each set of sizes, in a process of its own.

\b
  selectors = ["cases", "mine.py"]   as for `check`, from the folder of the grid
  targets = ["a100", "h100"]         default: h100
  toolchains = ["default", "seed"]   default: default
  replay = true                      replay each schedule on numbers
  timeout = 300.0                    seconds, as for `check`
  pages = true                       a page for each cell, as of `check --html`
  [flags]                            named sets; default: one without flags
  none = []
  no-fusion = ["--xla_disable_hlo_passes=fusion"]
  [sizes]                            named sets; default: one without sizes
  small = {}
  large = { tokens = 8192 }          of `ligerdiag.size("tokens", 512)` in a file of cases

The workers are Dask's: one for each core here, or those of --scheduler, which must have the same
ligerdiag, toolchains and files. The store has a file for each task with a result, so the
same command continues a sweep that was ended. A result holds until a file that its case
imports, ligerdiag, its configuration or a version changes.

\b
DIR gets, at the end and on Ctrl-C:
  index.html      cases by columns, with marks where a verdict changes; each cell links
                  to the page of its case in pages/
  sweep.parquet   a row a cell; sweep.csv has the same
  reports/        of each column the report of `check --format json`

`ligerdiag diff A B` shows the changes between the sweeps in two folders.
Needs: pip install 'ligerdiag[sweep]'
"""

_PAGE = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.html")

MEANINGS = {
    ExitCode.AS_EXPECTED: "every case is as expected",
    ExitCode.FINDINGS: "findings, or a case that is not as expected, as `check` says",
    ExitCode.INPUT: "usage or input error, in the grid or a case; the extra is not installed",
    ExitCode.NOT_ANALYSED: (
        "could not analyse a case; a task has no result, as its worker was lost or unfit; or the --time-limit was reached"
    ),
    ExitCode.INCONCLUSIVE: "inconclusive, as `check` says",
    ExitCode.NOTHING_CHECKED: "nothing to check in any case",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the results so far are kept and written",
    ExitCode.TERMINATED: "ended by SIGTERM; the results so far are kept and written",
}

EPILOG = f"""\b
Examples:
  ligerdiag sweep grid.toml                       on every core of this machine
  ligerdiag sweep grid.toml --jobs 4 --out july   four workers
  ligerdiag sweep grid.toml --retry               repeats what could not be analysed
  ligerdiag sweep grid.toml --scheduler tcp://head:8786 --store s3://bucket/sweep

\b
Exit codes:
{render_table(MEANINGS)}
"""


@dataclass(frozen=True, kw_only=True)
class SweepLine:
    """The options of `sweep`."""

    grid: Annotated[
        Path,
        Option(
            metavar="GRID",
            help="TOML file with the cases, targets, toolchains, flags and sizes to combine.",
            show_default=False,
        ),
    ]
    out: Annotated[Path, Option("--out", metavar="DIR", help="Folder for the tables and pages.")] = Path("sweep")
    store: Annotated[
        str | None,
        Option("--store", metavar="URL", help="Folder or fsspec URL of the results. [default: DIR/results]"),
    ] = None
    scheduler: Annotated[
        str | None,
        Option(
            "--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers run the tasks. [default: this machine]"
        ),
    ] = None
    jobs: Annotated[
        int | None,
        Option(
            "--jobs", "-j", min=1, metavar="N", help="Worker processes on this machine. [default: one for each core]"
        ),
    ] = None
    time_limit: TimeLimit = None
    refresh: Annotated[
        bool,
        Option(
            "--refresh",
            help="Run every task again, even if the store has its result: for programs that depend on the time, random"
            " numbers, or files that a C library reads, which the store does not see.",
        ),
    ] = False
    retry: Annotated[bool, Option("--retry", help="Run again the tasks that could not be analysed.")] = False


def run_sweep_command(line: SweepLine) -> None:
    """Runs the sweep, writes its files, and ends the process with the exit code."""
    from ligerdiag.sweep.cluster import require_extra

    require_extra()
    from ligerdiag.report.terminal.full_report import ProgressDisplay
    from ligerdiag.sweep.campaign import SweepOptions, run_sweep

    for folder in (line.out, line.out / "reports", line.out / "pages"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"expected a folder for --out but `{folder}`: {error.strerror}") from error
    options = fill_options(SweepOptions, line, store=line.store or str(line.out / "results"))
    with watch_for_end(line.time_limit):
        with ProgressDisplay(sys.stderr) as show:
            report = run_sweep(options, show, partial(keep_page, line.out))
        write_files(report, line.out)
        sys.stdout.write(render_sweep(report, line.out))
    raise typer.Exit(compute_exit_code(report))


sweep = make_command(SweepLine, run_sweep_command, "grid out store scheduler jobs time_limit refresh retry")


def keep_page(out: Path, name: str, result: "StoredResult", case_id: str) -> bool:
    """Writes the page with the name `name` for a result, unless the page exists already. Returns whether the page exists
    now.
    """
    from ligerdiag.sweep.sweep_table import PAGES, render_case_page

    path = out / PAGES / name
    page = "" if path.exists() else render_case_page(result.data, case_id)
    if page:
        write_atomically(path, page)
    return path.exists()


def write_files(report: "SweepReport", out: Path) -> None:
    """Writes the tables, reports and index of a sweep to `out`; removes reports and pages of earlier results there.
    Raises InputError if a file cannot be written.
    """
    from ligerdiag.sweep.sweep_table import PAGES, render_csv, render_page, render_parquet, render_reports

    names = {"index.html"}
    for name, text in render_reports(report):
        write_atomically(out / "reports" / name, text)
        names.add(name)
    for path in (out / "reports").glob("*.json"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    pages = set(report.pages.values())
    for path in (out / PAGES).glob("*.html"):
        if _PAGE.fullmatch(path.name) and path.name not in pages:
            path.unlink(missing_ok=True)
    write_atomically(out / TABLE, render_parquet(report.rows))
    write_atomically(out / "sweep.csv", render_csv(report.rows))
    write_atomically(out / "index.html", render_page(report))


def compute_exit_code(report: "SweepReport") -> ExitCode:
    """Returns the exit code of a sweep: 130, 143 or 3 if the sweep was ended early. Otherwise it is the code that `check`
    would choose from those of the sweep's cells and unreadable sources; a cell without a code counts as 3.
    """
    from ligerdiag.sweep.sweep_table import choose_exit_code

    if report.ended_by is not None:
        return find_ending_code(report.ended_by)
    codes = [ExitCode.NOT_ANALYSED.value if row.exit_code is None else row.exit_code for row in report.rows]
    return ExitCode(choose_exit_code([*codes, *(error.exit_code for _, error in report.broken)]))


def render_sweep(report: "SweepReport", out: Path) -> str:
    """Returns the summary of a sweep: tasks and cells by status, the failures, and the places of its files."""
    from ligerdiag.text import compute_printable

    done = len(report.failed) + report.ran
    lines = [
        f"{count_of(len(report.rows), 'cell')} in {count_of(len(report.columns), 'column')}:"
        f" {report.ran} done, {report.found} known before"
    ]
    counts = Counter(row.status.value for row in report.rows)
    lines += [f"  {number:>6}  {status}" for status, number in counts.most_common()]
    lines += [f"cannot read `{source}`: {error}" for source, error in report.broken]
    reasons = Counter(str(error) for error in report.failed.values())
    lines += [
        f"no result, {count_of(number, 'task')}: {reason}" for reason, number in reasons.most_common(MAXIMUM_REASONS)
    ]
    lines += _list_reasons(report)
    if report.ended_by is not None:
        lines.append(f"ended by {report.ended_by.value}: the same command continues the sweep")
    if done and report.seconds:
        lines.append(f"{done} in {report.seconds:.0f} s, {done / report.seconds:.2g} a second")
    lines.append(f"page: {out / 'index.html'}  table: {out / TABLE}, {out / 'sweep.csv'}")
    return "".join(f"{compute_printable(line)}\n" for line in lines)


def _list_reasons(report: "SweepReport") -> list[str]:
    """Returns a line for each reason why the cells with a result could not be analysed, the most frequent ones first."""
    cells: dict[str, list[str]] = {}
    for row in report.rows:
        if row.error and row.exit_code is not None:  # without one the task has no result
            cells.setdefault(row.error.replace(f"`{row.case}`", "…"), []).append(f"`{row.case}` in {row.column.name}")
    ordered = sorted(cells.items(), key=lambda entry: -len(entry[1]))[:MAXIMUM_REASONS]
    return [
        f"could not analyse {name}{f' and {count_of(len(more), "cell")} more' if more else ''}: {reason}"
        for reason, (name, *more) in ordered
    ]


def find_tables(subjects: Sequence[str]) -> tuple[Path, ...]:
    """Returns the tables of two sweeps if the arguments of `diff` are such tables, or folders of sweeps; otherwise ()."""
    inside = [Path(subject) / TABLE for subject in subjects]
    paths = [path if path.is_file() else Path(subject) for path, subject in zip(inside, subjects, strict=True)]
    return tuple(paths) if len(paths) == 2 and all(path.suffix == ".parquet" for path in paths) else ()


def diff_sweeps(first: Path, second: Path) -> ExitCode:
    """Prints the cells that differ between the tables of two sweeps; returns the exit code of `diff`."""
    from ligerdiag.sweep.cluster import require_extra

    require_extra()
    from ligerdiag.sweep.sweep_table import compare_sweeps, read_parquet

    difference = compare_sweeps(read_parquet(first), read_parquet(second))
    sys.stdout.write(render_sweep_difference(difference))
    if difference.changes:
        return ExitCode.NOT_ANALYSED if difference.unknown else ExitCode.FINDINGS
    if difference.unknown:
        return ExitCode.NOT_ANALYSED
    return ExitCode.AS_EXPECTED if difference.compared else ExitCode.NOTHING_CHECKED


def render_sweep_difference(difference: "SweepDifference") -> str:
    """Returns a line for each cell that differs between two sweeps, with its outputs, status and rules as far as they
    changed, and the number of cells that were compared.
    """
    from ligerdiag.text import compute_printable

    lines: list[str] = []
    for change in difference.changes:
        column = change.column
        differing = [(name, one or "absent", two or "absent") for name, one, two in change.outputs]
        differing += [(name, one or "none", two or "none") for name, one, two in change.others]
        said = "; ".join(f"{name} {one} -> {two}" for name, one, two in differing)
        lines.append(f"{change.case}  {column.name}  {said}")
    lines.append(f"{count_of(len(difference.changes), 'change')} in {count_of(difference.compared, 'cell')}")
    if difference.unknown:
        lines.append(f"{count_of(difference.unknown, 'cell')} unknown in one of the two sweeps")
    if difference.first_only or difference.second_only:
        lines.append(
            f"cells only in the first sweep: {difference.first_only}, only in the second: {difference.second_only}"
        )
    return "".join(f"{compute_printable(line)}\n" for line in lines)
