"""The index: every case in one table, the coverage, and notes about the run as a whole.

Failing cases come first, then those that could not be decided, those with nothing to check, and those that are as expected.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.render.html.environment import compute_file_names, render
from ligerdiag.render.html.headline import Headline, compute_headline
from ligerdiag.render.html.prose import SIGN_ORDER, Chip, list_chips
from ligerdiag.render.json import compute_version
from ligerdiag.render.terminal.diagnostics import render_device_word, render_replay_word
from ligerdiag.render.terminal.spans import compute_text
from ligerdiag.render.terminal.summary import describe_end, render_coverage, render_totals

_ORDER = ("bad", "doubtful", "plain", "good")
"""Tones in the order of the table."""
TONES = {
    Status.CLEAN: "good",
    Status.EXPECTED: "good",
    Status.ALLOWED: "good",
    Status.NOTHING: "plain",
    Status.FINDINGS: "bad",
    Status.UNEXPECTED: "bad",
    Status.INCONCLUSIVE: "doubtful",
    Status.DISAGREEMENT: "bad",
    Status.ERROR: "bad",
    Status.NOT_CHECKED: "doubtful",
}
MAX_CHIPS = 6
"""Outputs in a row of the table; the wrong ones come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """One case."""

    case: CaseReport
    file: str
    headline: Headline
    rules: tuple[str, ...]
    """Ids of those that have a finding, allowed or not."""
    chips: tuple[Chip, ...]
    """The wrong ones first."""
    worst: int
    """The severity of its worst output; -1 without outputs."""
    replay: str
    device: str


def render_index_html(report: CheckReport, *, files: Sequence[str] = (), version: str = "") -> str:
    """Renders a whole HTML document. files: the page of each case, by default those of `compute_file_names`."""
    names = files or compute_file_names(report.cases)
    rows = [_make_row(case, name) for case, name in zip(report.cases, names, strict=True)]
    rows.sort(key=lambda row: _ORDER.index(TONES[row.case.status]))
    statuses = Counter(case.status for case in report.cases)
    return render(
        "index.html.jinja",
        "report.css",
        "index.js",
        report=report,
        version=version or compute_version(),
        rows=rows,
        noun=report.noun.value,
        ended=describe_end(report),
        has_device=any(case.device is not None for case in report.cases),
        has_replay=any(case.replay is not None for case in report.cases),
        has_targets=len({case.target for case in report.cases}) > 1,
        tones=TONES,
        statuses=[(status, statuses[status]) for status in Status if statuses[status]],
        counts=_count_chips(rows),
        max_chips=MAX_CHIPS,
        coverage=[compute_text(line) for line in render_coverage(report, None)],
        totals=" ".join(compute_text(line) for line in render_totals(report, None)),
    )


def _make_row(case: CaseReport, file: str) -> IndexRow:
    chips = list_chips(case)
    return IndexRow(
        case=case,
        file=file,
        headline=compute_headline(case),
        rules=tuple(sorted({finding.rule for finding in case.findings})),
        chips=chips,
        worst=len(SIGN_ORDER) - SIGN_ORDER.index(chips[0].sign) if chips else -1,
        replay=compute_text(render_replay_word(case)),
        device=compute_text(render_device_word(case)),
    )


def _count_chips(rows: Sequence[IndexRow]) -> list[tuple[str, str, int]]:
    """Returns (sign, word, outputs), the worst first."""
    counts = Counter((chip.sign, chip.word) for row in rows for chip in row.chips)
    ordered = sorted(counts.items(), key=lambda one: SIGN_ORDER.index(one[0][0]))
    return [(sign, word, number) for (sign, word), number in ordered]
