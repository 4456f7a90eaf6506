"""Renders the HTML page of one case, and the index: a table of all cases, with coverage and notes about the run.

In the index, cases that fail come first, then undecided ones, then cases with nothing to check, and cases that are as
expected last.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.model.report import CaseReport, CheckReport, Noun, Status
from ligerdiag.model.schedule_view import BufferAccess, MutatedBuffer, ScheduleStep, ScheduleView
from ligerdiag.package_metadata import compute_version
from ligerdiag.report.html.band import BAND_HEIGHT, Band, NarrowBand, compute_band, compute_narrow_band
from ligerdiag.report.html.band_columns import Column, compute_columns, count_hidden
from ligerdiag.report.html.dataflow_drawing import compute_dataflow, compute_graph
from ligerdiag.report.html.environment import INDEX, SIGNS, Sign, compute_file_names, compute_packed, render, sign_of
from ligerdiag.report.html.figures import compute_errors_plot, compute_timeline
from ligerdiag.report.html.headline import Headline, compute_answer, compute_headline
from ligerdiag.report.html.memory_section import compute_memory_section
from ligerdiag.report.html.prose import (
    SIGN_ORDER,
    Chip,
    compute_listing,
    compute_parts,
    compute_step_ids,
    compute_ways,
    list_chips,
)
from ligerdiag.report.html.source_view import compute_remedy
from ligerdiag.report.html.subject import Subject, compute_articles, find_subject, list_buffers
from ligerdiag.report.terminal.diagnostics import render_device_word, render_replay_word
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.report.terminal.summary import (
    NOTHING_LEFT_OUT,
    describe_cut_loop,
    describe_end,
    describe_recognised,
    render_coverage,
    render_totals,
    render_uncompared,
)
from ligerdiag.report.words.tuning_words import describe_tuning
from ligerdiag.report.words.uncompared import explain_uncompared_reference
from ligerdiag.text import join_words

MAX_BANDS = 2
"""A page with at most this many mutated buffers shows the pictures of all of them unfolded; with more, only the first
`FEW_BANDS`.
"""
FEW_BANDS = 1
MAX_CHIPS = 12
"""A page with at most this many outputs lists all of them at the top; with more, only the first `FEW_CHIPS` unfolded.
"""
FEW_CHIPS = 6
MAX_WAYS = 4
"""A page shows the paths from kernels to outputs unfolded for at most this many groups of similar outputs; the paths of the
other groups are folded.
"""
MAX_FINDINGS = 2
"""A page shows at most this many findings in full; each further one is a single line."""
MAX_TITLES = 8
"""A page shows at most this many findings unfolded, in full or as a line."""
MAX_PLOTS = 6
"""A page unfolds the numbers of at most this many outputs."""
MAX_FACTS = 6
"""A finding shows at most this many pieces of evidence unfolded."""
MAX_PLACES = 4
"""A finding shows at most this many lines of the user's source unfolded."""
MAX_MISSING = 3
"""The path to an output shows at most this many missing edges unfolded."""
MAX_MEMORY_ROWS = 20
"""A table about memory has at most this many unfolded rows."""
MAX_ROWS = 24
"""The schedule and the HLO are unfolded if they have at most this many instructions."""
PAGE_WIDTH = 1120
"""Width, in user units, of the widest picture that fits on a wide page without scrolling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPicture:
    """The pictures of one mutated buffer (one that a kernel overwrites behind XLA's back), and a table of its accesses."""

    number: int
    """Index of the buffer in `ScheduleView.buffers`."""
    buffer: MutatedBuffer
    columns: tuple[Column, ...]
    table: tuple[tuple[BufferAccess, ScheduleStep, Sign], ...]
    """(access, its step, its sign) for each access to the buffer."""
    merged: int
    """Number of reads that share a column of the picture."""
    wide: Band
    narrow: NarrowBand


def render_case_html(case: CaseReport, report: CheckReport, *, index: str = INDEX) -> str:
    """Returns the page of the case as a whole HTML document. index: address of the index page."""
    view = case.view
    steps = compute_step_ids(view)
    subject = find_subject(case)
    headline = compute_headline(case, subject)
    chips = list_chips(case)
    pictures = () if view is None else compute_pictures(view, subject)
    graph = None if view is None else compute_graph(view)
    return render(
        "case.html.jinja",
        "report.css",
        "case.js",
        case=case,
        report=report,
        index=index,
        version=compute_version(),
        noun=report.noun.value,
        has_expectation=report.noun is Noun.CASE,
        headline=headline,
        plain=compute_parts(headline.plain, steps),
        sentence=compute_parts(headline.detail, steps),
        view=view,
        tuning=compute_parts("" if case.tuning is None else describe_tuning(case.tuning), steps),
        pictures=pictures,
        subject=subject,
        remedy=compute_remedy(case, subject.finding, steps),
        max_bands=MAX_BANDS if len(pictures) <= MAX_BANDS else FEW_BANDS,
        shown_chips=len(chips) if len(chips) <= MAX_CHIPS else FEW_CHIPS,
        max_ways=MAX_WAYS,
        max_findings=MAX_FINDINGS,
        max_titles=MAX_TITLES,
        max_plots=MAX_PLOTS,
        max_facts=MAX_FACTS,
        max_places=MAX_PLACES,
        max_reached=FEW_CHIPS,
        tags={"kept": "span", "removed": "del", "added": "ins"},
        marks={"kept": " ", "removed": "-", "added": "+"},
        max_missing=MAX_MISSING,
        max_rows=MAX_ROWS,
        max_memory_rows=MAX_MEMORY_ROWS,
        memory=compute_memory_section(case, steps),
        signs_of={chip.name: chip.sign for chip in chips},
        folded_chips=_count_words(chips[FEW_CHIPS:]),
        page_width=PAGE_WIDTH,
        band_height=BAND_HEIGHT,
        legend=_list_legend(pictures),
        chips=chips,
        ways=() if view is None else compute_ways(view, chips, steps),
        names={} if view is None else {step.id: step.name for step in view.steps},
        dataflow=None if graph is None else compute_dataflow(graph),
        undrawn=0 if graph is None else graph.omitted,
        articles=compute_articles(case, steps),
        plot=compute_errors_plot(case, [chip.name for chip in chips]),
        replay_word=compute_text(render_replay_word(case)),
        cut_loops=join_words([describe_cut_loop(one) for one in (() if case.replay is None else case.replay.cut)]),
        device_word=compute_text(render_device_word(case)),
        timeline=None if view is None else compute_timeline(view, tuple(p.number for p in pictures)),
        listing=() if view is None else compute_listing(view, case.source_roots),
        packed="" if view is None else compute_packed(view.text),
        anchors=[] if view is None else [[line, number] for number, line in view.anchors],
        disagreements=[(one, [(k, compute_parts(v, steps)) for k, v in one.evidence]) for one in case.disagreements],
        expected=_describe_expected(case.expected),
        recognised=describe_recognised((case.coverage,)),
        nothing_left_out=NOTHING_LEFT_OUT,
        uncompared=explain_uncompared_reference(case),
    )


def compute_pictures(view: ScheduleView, subject: Subject) -> tuple[BufferPicture, ...]:
    """Returns the pictures of each mutated buffer (one that a kernel overwrites behind XLA's back).

    The buffer of the page's kernel call comes first, then the others, those with the worst reads first. subject: the
    page's kernel call.
    """
    pictures: list[BufferPicture] = []
    steps = {step.id: step for step in view.steps}
    for number in list_buffers(view, subject):
        buffer = view.buffers[number]
        columns = compute_columns(view, number)
        pictures.append(
            BufferPicture(
                number=number,
                buffer=buffer,
                columns=columns,
                table=tuple(
                    (a, steps[a.step], sign_of(a)) for a in view.accesses if a.buffer == number and a.step in steps
                ),
                merged=count_hidden(columns),
                wide=compute_band(columns, buffer.kernel),
                narrow=compute_narrow_band(columns),
            )
        )
    return tuple(pictures)


def _count_words(chips: Sequence[Chip]) -> str:
    """Returns the number of outputs by verdict, such as `22 STALE, 2 fresh`."""
    return ", ".join(f"{number} {word}" for word, number in Counter(chip.word for chip in chips).items())


def _list_legend(pictures: tuple[BufferPicture, ...]) -> list[Sign]:
    """Returns the signs that need an entry in the legend: those that the pictures use, except for a write that may not
    happen, which has a text of its own.
    """
    used = {
        column.sign.name
        for picture in pictures
        for column in picture.columns
        if not (picture.buffer.unknown and column.sign.name == "write")
    }
    return [sign for name, sign in SIGNS.items() if name in used]


def _describe_expected(expected: str | Mapping[str, str] | None) -> str:
    """Returns what the case expects of its outputs, as text; empty if it expects nothing."""
    if expected is None:
        return ""
    if isinstance(expected, str):
        return expected
    return ", ".join(f"{'every other output' if name == '*' else name} {words}" for name, words in expected.items())


ORDER = ("bad", "doubtful", "plain", "good")
"""Tones of the rows of the index, in the order in which the rows are sorted."""
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
MAX_INDEX_CHIPS = 6
"""A row of the index shows at most this many outputs, the wrong ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """The row of one case in the index."""

    case: CaseReport
    file: str
    headline: Headline
    rules: tuple[str, ...]
    """Ids of the rules that have a finding about the case, allowed or not."""
    chips: tuple[Chip, ...]
    """The outputs of the case, the wrong ones first."""
    worst: int
    """Rank of the worst output, larger for a worse one; -1 without outputs."""
    replay: str
    device: str


def render_index_html(report: CheckReport, *, files: Sequence[str] = ()) -> str:
    """Returns the index as a whole HTML document.

    files: names of the pages, one for each case; by default those that `compute_file_names` returns.
    """
    names = files or compute_file_names(report.cases)
    rows = [_make_row(case, name) for case, name in zip(report.cases, names, strict=True)]
    rows.sort(key=lambda row: ORDER.index(TONES[row.case.status]))
    statuses = Counter(case.status for case in report.cases)
    return render(
        "index.html.jinja",
        "report.css",
        "index.js",
        report=report,
        version=compute_version(),
        rows=rows,
        answer=compute_answer([(row.case.status, row.headline) for row in rows], report.noun.value),
        noun=report.noun.value,
        ended=describe_end(report),
        has_device=any(case.device is not None for case in report.cases),
        has_replay=any(case.replay is not None for case in report.cases),
        has_targets=len({case.target for case in report.cases}) > 1,
        tones=TONES,
        statuses=[(status, statuses[status]) for status in Status if statuses[status]],
        counts=_count_chips(rows),
        max_chips=MAX_INDEX_CHIPS,
        coverage=[
            compute_text(line)
            for line in (*render_coverage(report, None), *render_uncompared(report, width=None, verbose=True))
        ],
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
    """Returns (sign, word, number of outputs) over all rows, the worst sign first."""
    counts = Counter((chip.sign, chip.word) for row in rows for chip in row.chips)
    ordered = sorted(counts.items(), key=lambda one: SIGN_ORDER.index(one[0][0]))
    return [(sign, word, number) for (sign, word), number in ordered]
