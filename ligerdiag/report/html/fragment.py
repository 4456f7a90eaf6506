"""Renders a report as a piece of HTML for a notebook: each case with its headline, outputs and findings.

The piece has neither scripts nor a style sheet, because it becomes part of another page. Each element has its own style, and
the text keeps the page's colour.
"""

from dataclasses import dataclass

from ligerdiag.model.findings import OutputNumbers
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.html.environment import render_part
from ligerdiag.report.html.headline import Headline, compute_headline
from ligerdiag.report.html.pages import ORDER, TONES
from ligerdiag.report.html.prose import Chip, Part, compute_parts, list_chips
from ligerdiag.report.html.subject import Article, compute_articles
from ligerdiag.report.relative_errors import render_numbers
from ligerdiag.report.terminal.diagnostics import PAGES, Trouble, list_troubles, render_device_word, render_replay_word
from ligerdiag.report.terminal.finding_text import render_unused
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.report.terminal.summary import render_notes, render_totals

MAX_CASES = 8
"""The HTML shows at most this many cases, the worst first."""
MAX_OUTPUTS = 24
"""A case shows at most this many outputs, the worst first."""
MAX_FINDINGS = 8
"""A case shows at most this many findings, the worst first."""
MAX_LINES = 6
"""A case shows at most this many lines about parts of the program that are not covered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePart:
    """One case in the HTML for a notebook."""

    case: CaseReport
    headline: Headline
    count: tuple[Part, ...]
    plain: tuple[Part, ...]
    rows: tuple[tuple[Chip, str], ...]
    """(output, numbers of the replay) pairs; the text is empty if there are no numbers."""
    articles: tuple[Article, ...]
    troubles: tuple[tuple[Trouble, str], ...]
    """(trouble, remedy) pairs."""
    replay: str
    device: str


def render_fragment(report: CheckReport) -> str:
    """Returns the HTML of the report, for a notebook."""
    cases = sorted(report.cases, key=lambda case: ORDER.index(TONES[case.status]))
    notes = (*render_unused(report, None), *render_notes(report, None))
    return render_part(
        "fragment.html.jinja",
        parts_of_cases=[_make_part(case) for case in cases[:MAX_CASES]],
        more_cases=len(cases) - MAX_CASES,
        max_outputs=MAX_OUTPUTS,
        max_findings=MAX_FINDINGS,
        max_lines=MAX_LINES,
        notes=[compute_text(line) for line in notes],
        totals=" ".join(compute_text(line) for line in render_totals(report, None)),
    )


def _make_part(case: CaseReport) -> CasePart:
    headline = compute_headline(case)
    numbers = dict[str, OutputNumbers]() if case.replay is None else case.replay.outputs
    opaque = None if case.replay is None else case.replay.opaque
    others = dict[str, OutputNumbers]() if opaque is None else opaque.outputs
    return CasePart(
        case=case,
        headline=headline,
        count=compute_parts(headline.count, {}),
        plain=compute_parts(headline.plain, {}),
        rows=tuple((chip, _render(numbers.get(chip.name), others.get(chip.name))) for chip in list_chips(case)),
        articles=compute_articles(case, {}),
        troubles=tuple((one, PAGES[one.kind].help) for one in list_troubles(case)),
        replay=compute_text(render_replay_word(case)),
        device=compute_text(render_device_word(case)),
    )


def _render(numbers: OutputNumbers | None, opaque: OutputNumbers | None) -> str:
    """Returns the numbers of the replay, and those with opaque functions if they say something else."""
    found = [] if numbers is None else [render_numbers(numbers)]
    if opaque is not None and (numbers is None or opaque.attribution is not numbers.attribution):
        found.append(f"with opaque functions {render_numbers(opaque)}")
    return "; ".join(found)
