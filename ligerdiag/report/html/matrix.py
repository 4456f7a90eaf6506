"""The matrix of a sweep: a row a case, a column a way to compile it, and where a verdict is another than to its left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from ligerdiag.report.html.environment import render
from ligerdiag.report.html.pages import TONES
from ligerdiag.report.json import compute_version

_UNKNOWN = frozenset({Status.ERROR, Status.NOT_CHECKED, Status.INCONCLUSIVE, Status.DISAGREEMENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One case in one column."""

    verdict: str
    """The worst of its outputs; empty where nothing is known, or where there is nothing to know."""
    status: Status
    outputs: tuple[tuple[str, str], ...]
    """Name and verdict."""
    rules: tuple[str, ...]
    error: str
    is_changed: bool
    """Another verdict than in the nearest cell to the left that says any."""
    page: str = ""
    """Where the page of the case leads; empty without one."""

    @property
    def is_unknown(self) -> bool:
        """Returns whether something of it is not known."""
        return self.status in _UNKNOWN or self.verdict == Verdict.UNKNOWN

    @property
    def tone(self) -> str:
        """Returns the style of its status."""
        return TONES[self.status]

    @property
    def sign(self) -> str:
        """Returns the name of the sign that stands for it."""
        return self.verdict or ("nothing" if self.status is Status.NOTHING else "error")

    @property
    def count(self) -> str:
        """Returns how many of the outputs have its verdict, where not all do."""
        same = sum(verdict == self.verdict for _, verdict in self.outputs)
        return "" if same == len(self.outputs) else f"{same} of {len(self.outputs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One case."""

    case: str
    source: str
    cells: tuple[MatrixCell | None, ...]
    """None where the column has no such case."""

    @property
    def kind(self) -> str:
        """Returns the word that the page's menu chooses rows by."""
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
    version: str = "",
) -> str:
    """Returns a whole HTML document; rows with a changed verdict come first.

    columns: toolchain, target, set of flags and set of sizes. counts: cells by status.
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
        version=version or compute_version(),
    )
