"""Renders the matrix of a sweep: a row for each case and a column for each combination of toolchain, target, flags and
sizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from ligerdiag.package_metadata import compute_version
from ligerdiag.report.html.environment import render
from ligerdiag.report.html.pages import TONES

_UNKNOWN = frozenset({Status.ERROR, Status.NOT_CHECKED, Status.INCONCLUSIVE, Status.DISAGREEMENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A cell of the matrix: the result for one case with one combination of toolchain, target, flags and sizes."""

    verdict: str
    """The worst verdict among the outputs; empty if it is unknown or there is nothing to check."""
    status: Status
    outputs: tuple[tuple[str, str], ...]
    """(name, verdict) of each output."""
    rules: tuple[str, ...]
    error: str
    is_changed: bool
    """Whether the verdict differs from the verdict of the nearest cell to the left that has one."""
    page: str = ""
    """Address of the page about this case; empty if there is none."""

    @property
    def is_unknown(self) -> bool:
        """Returns whether any verdict in the cell is unknown."""
        return self.status in _UNKNOWN or self.verdict == Verdict.UNKNOWN

    @property
    def tone(self) -> str:
        """Returns the name of the CSS style for the cell's status."""
        return TONES[self.status]

    @property
    def sign(self) -> str:
        """Returns the name of the sign that the cell shows."""
        return self.verdict or ("nothing" if self.status is Status.NOTHING else "error")

    @property
    def count(self) -> str:
        """Returns how many outputs have the cell's verdict, such as `2 of 5`. Empty if all have it."""
        same = sum(verdict == self.verdict for _, verdict in self.outputs)
        return "" if same == len(self.outputs) else f"{same} of {len(self.outputs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A row of the matrix: one case of the sweep, with a cell for each column."""

    case: str
    source: str
    cells: tuple[MatrixCell | None, ...]
    """One cell for each column; None where the case was not compiled in that way."""

    @property
    def kind(self) -> str:
        """Returns the group by which the menu of the page filters rows.

        `changed`: the row's cells have different verdicts. `not known`: otherwise, if a verdict is unknown. `the same`:
        otherwise.
        """
        cells = [cell for cell in self.cells if cell is not None]
        if any(cell.is_changed for cell in cells):
            return "changed"
        return "not known" if any(cell.is_unknown for cell in cells) else "the same"


KINDS = ("changed", "not known", "the same")


def render_matrix_html(
    columns: Sequence[str],
    rows: Sequence[MatrixRow],
    *,
    notes: Sequence[str] = (),
    counts: Mapping[str, int] | None = None,
) -> str:
    """Returns the matrix as a whole HTML document. Rows in which a verdict changes come first.

    columns: one title for each combination of toolchain, target, flags and sizes. counts: number of cells by status.
    """
    return render(
        "matrix.html.jinja",
        "report.css",
        "index.js",
        columns=columns,
        rows=sorted(rows, key=lambda row: KINDS.index(row.kind)),
        changed=sum(row.kind == KINDS[0] for row in rows),
        kinds=KINDS,
        notes=notes,
        counts=dict(counts or {}),
        version=compute_version(),
    )
