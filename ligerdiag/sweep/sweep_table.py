"""Writes the results of a sweep as a Parquet table, a CSV, reports like those of `check`, and a page; compares two
sweeps.

On the page, a cell is marked as changed if its verdicts differ from those of the nearest cell to its left that has
verdicts. A cell without verdicts is never marked.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ligerdiag.codec import (
    FieldError,
    Json,
    decode_record,
    encode_record,
    read_float,
    read_list,
    read_strs,
    unpack_record,
)
from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.report.html import INDEX, render_case_html
from ligerdiag.report.html.matrix import MatrixCell, MatrixRow, render_matrix_html
from ligerdiag.sweep.campaign import SweepReport, SweepRow
from ligerdiag.sweep.grid import SweepColumn
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.untrusted_files import MAXIMUM_UNPACKED_RATIO, SANDBOX_ANSWER_BYTES, SMALL_UNPACKED_BYTES

PAGES = "pages"
"""Name of the folder with the pages of the cases, beside the page of the matrix."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_SILENT = frozenset({Status.ERROR, Status.NOT_CHECKED})
"""Statuses of cells that have no verdicts."""


def render_parquet(rows: Sequence[SweepRow]) -> bytes:
    """Returns a Parquet table with one row for each cell. Its column `outputs` maps the name of an output to the verdict."""
    pa: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    text = pa.string()
    types: dict[str, Any] = {
        "outputs": pa.map_(text, text),
        "rules": pa.list_(text),
        "disagreements": pa.int32(),
        "seconds": pa.float64(),
        "exit_code": pa.int32(),
    }
    schema = pa.schema([(one.name, types.get(one.name, text)) for one in fields(SweepRow)])
    records = [encode_record(row) for row in rows]
    for record in records:
        record["outputs"] = list(record["outputs"].items())
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(records, schema=schema), out)
    return out.getvalue()


def read_parquet(path: Path) -> tuple[SweepRow, ...]:
    """Returns the rows of a Parquet table that a sweep wrote. Raises InputError if the file is not such a table."""
    parquet: Any = import_module("pyarrow.parquet")
    try:
        records = cast("list[dict[str, Any]]", parquet.read_table(path).to_pylist())
        for record in records:
            record["outputs"] = dict(record["outputs"])
            record.setdefault("sizes", DEFAULT)  # older tables lack this column
            record.setdefault("given_sizes", "")
        return tuple(decode_record(SweepRow, record) for record in records)
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError, FieldError) as error:
        raise InputError(f"cannot read `{path}` as the table of a sweep: {error}") from error


def render_csv(rows: Sequence[SweepRow]) -> str:
    """Returns the rows as CSV, with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [one.name for one in fields(SweepRow)]
    writer.writerow(names)
    for row in rows:
        record = encode_record(row)
        record["outputs"] = "; ".join(f"{name} {verdict}" for name, verdict in row.outputs.items())
        record["rules"] = " ".join(row.rules)
        writer.writerow(["" if record[name] is None else record[name] for name in names])
    return out.getvalue()


def render_reports(report: SweepReport) -> Iterator[tuple[str, str]]:
    """Yields a report like that of `check --format json` for each column with results, as (file name, report)."""
    for column, reports in report.reports.items():
        yield f"{name_column(column)}.json", json.dumps(join_reports(reports), indent=1) + "\n"


def name_column(column: SweepColumn) -> str:
    """Returns a file name for a column, without a suffix, such as `default-h100-none`."""
    return "-".join(_UNSAFE.sub("_", part) for part in column.name.split(" "))


def join_reports(reports: Sequence[Json]) -> dict[str, object]:
    """Joins several reports on one toolchain and target into one report. Drops the list of unused suppressions, because a
    case of a different report may use them.
    """
    codes = [code for one in reports if isinstance(code := one.get("exit_code"), int)]
    return {
        **reports[0],
        "seconds": round(sum(read_float(one, "seconds") for one in reports), 6),
        "exit_code": choose_exit_code(codes),
        "notes": list(dict.fromkeys(note for one in reports for note in read_strs(one, "notes"))),
        "unused_suppressions": [],
        "cases": [case for one in reports for case in read_list(one, "cases")],
    }


def choose_exit_code(codes: Sequence[int]) -> int:
    """Returns the exit code of a sweep, from the exit codes of its cases. It is the first of 2, 3, 1 and 4, in this order,
    that any case has. If no case has one of these, it is 0, or 5 if there is no case or all have 5.
    """
    for code in (2, 3, 1, 4):
        if code in codes:
            return code
    return 5 if set(codes) <= {5} else 0


def render_page(report: SweepReport) -> str:
    """Returns the matrix as a page for a browser."""
    by_case: dict[tuple[str, str], dict[SweepColumn, SweepRow]] = {}
    for row in report.rows:
        by_case.setdefault((row.case, row.source), {})[row.column] = row
    rows = [
        MatrixRow(
            case=case,
            source=source,
            cells=tuple(_make_cells([cells.get(column) for column in report.columns], report.pages)),
        )
        for (case, source), cells in by_case.items()
    ]
    names = [column.name for column in report.columns]
    notes = [f"{source}: {error}" for source, error in report.broken]
    if report.ended_by is not None:
        notes.append(f"ended by {report.ended_by.value}: not every case was done")
    counts = Counter(row.status.value for row in report.rows)
    return render_matrix_html(names, rows, notes=notes, counts=counts)


def _make_cells(rows: Sequence[SweepRow | None], pages: Mapping[str, str]) -> Iterator[MatrixCell | None]:
    """Yields the cells of one case in the matrix. rows: the case's results by column; None for a column whose sizes
    give no such case. pages: from the key of a task to the name of its page.
    """
    before: SweepRow | None = None
    for row in rows:
        if row is None:
            yield None
            continue
        yield MatrixCell(
            verdict=row.verdict,
            status=row.status,
            outputs=tuple(row.outputs.items()),
            rules=row.rules,
            error=row.error,
            is_changed=before is not None and says_other(before, row),
            page=f"{PAGES}/{pages[row.key]}" if row.key in pages else "",
        )
        before = before if row.status in _SILENT else row


def render_case_page(data: bytes, case_id: str) -> str:
    """Returns the page of a case, as `check --html` writes it, with a link back to the matrix. Returns '' if the data are
    broken.

    data: a packed CheckReport (`pack_record`) from the store, which is not trusted.
    """
    try:
        bound = min(max(SMALL_UNPACKED_BYTES, MAXIMUM_UNPACKED_RATIO * len(data)), SANDBOX_ANSWER_BYTES)
        report = unpack_record(CheckReport, data, maximum=bound)
        own = [case for case in report.cases if case.id == case_id]
        case = (own or [case for case in report.cases if case.error])[0]
        return render_case_html(case, report, index=f"../{INDEX}")
    except (FieldError, LookupError, ValueError):
        return ""


def says_other(one: SweepRow, other: SweepRow) -> bool:
    """Returns whether the verdicts of two cells differ. False if one of the cells has no verdicts."""
    return not {one.status, other.status} & _SILENT and one.outputs != other.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepChange:
    """A cell whose verdicts, status or rules differ between two sweeps."""

    case: str
    column: SweepColumn
    outputs: tuple[tuple[str, str, str], ...]
    """(name, verdict in the first sweep, verdict in the second) of each output that changed; a verdict is empty if the
    output is missing in that sweep.
    """
    others: tuple[tuple[str, str, str], ...] = ()
    """The same for `status` and `rules`, the ids of the rules with a finding, if they changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDifference:
    """The differences between two sweeps, found cell by cell."""

    changes: tuple[SweepChange, ...]
    compared: int
    """Number of cells that have verdicts in both sweeps."""
    unknown: int
    """Number of cells in both sweeps that have no verdicts in at least one of them."""
    first_only: int
    second_only: int


def compare_sweeps(first: Sequence[SweepRow], second: Sequence[SweepRow]) -> SweepDifference:
    """Returns the cells that two sweeps answer differently. Cells are matched by case and column. Two answers differ in a
    verdict, in the status or in the rules.
    """
    one, two = _index(first), _index(second)
    both = [(one[key], two[key]) for key in one if key in two]
    known = [(a, b) for a, b in both if not {a.status, b.status} & _SILENT]
    return SweepDifference(
        changes=tuple(change for a, b in known if (change := _describe_change(a, b)).outputs or change.others),
        compared=len(known),
        unknown=len(both) - len(known),
        first_only=len(one.keys() - two.keys()),
        second_only=len(two.keys() - one.keys()),
    )


def _describe_change(one: SweepRow, two: SweepRow) -> SweepChange:
    others = (("status", one.status.value, two.status.value), ("rules", ", ".join(one.rules), ", ".join(two.rules)))
    return SweepChange(
        case=one.case,
        column=one.column,
        outputs=tuple(_list_changed(one.outputs, two.outputs)),
        others=tuple(other for other in others if other[1] != other[2]),
    )


def _index(rows: Sequence[SweepRow]) -> dict[tuple[str, str, SweepColumn], SweepRow]:
    """Maps (case, file name, column) to row. Of two files of the same name, only the rows of the last one are kept."""
    return {(row.case, Path(row.source).name, row.column): row for row in rows}


def _list_changed(one: Mapping[str, str], two: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*one, *two)):
        if one.get(name) != two.get(name):
            yield name, one.get(name, ""), two.get(name, "")
