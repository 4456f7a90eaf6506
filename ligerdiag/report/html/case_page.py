"""One case's page."""

from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.findings import VERDICT_ORDER
from ligerdiag.report.html.band import BAND_HEIGHT, Band, compute_band
from ligerdiag.report.html.band_columns import Column, compute_columns, count_hidden
from ligerdiag.report.html.band_narrow import NarrowBand, compute_narrow_band
from ligerdiag.report.html.dataflow import compute_dataflow
from ligerdiag.report.html.dataflow_graph import compute_graph
from ligerdiag.report.html.environment import render
from ligerdiag.report.html.errors_plot import compute_errors_plot
from ligerdiag.report.html.filenames import INDEX
from ligerdiag.report.html.finding_article import compute_articles
from ligerdiag.report.html.headline import compute_headline
from ligerdiag.report.html.listing import compute_listing
from ligerdiag.report.html.marks import SIGNS, WRONG_READS, Sign, sign_of
from ligerdiag.report.html.module_text import compute_packed
from ligerdiag.report.html.prose import compute_parts, compute_step_ids
from ligerdiag.report.html.timeline import compute_timeline
from ligerdiag.report.json import compute_version
from ligerdiag.report.model import CaseReport, CheckReport, Noun
from ligerdiag.report.numbers_cell import render_device_word, render_replay_word
from ligerdiag.report.spans import compute_text
from ligerdiag.schedule_view import Access, MutatedBuffer, ReadKind, ScheduleView, Step

MAX_BANDS = 2
"""Buffers that are drawn at once; the others are folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPicture:
    """One mutated buffer, drawn."""

    number: int
    """Index into the view's buffers."""
    buffer: MutatedBuffer
    columns: tuple[Column, ...]
    table: tuple[tuple[Access, Step, Sign], ...]
    """Everything that happens to it, one by one."""
    merged: int
    """Reads that share a mark with others."""
    wide: Band
    narrow: NarrowBand


def render_case_html(case: CaseReport, report: CheckReport, *, index: str = INDEX, version: str = "") -> str:
    """A whole HTML document. index: where its way back leads. version: ligerdiag's own."""
    view = case.view
    steps = compute_step_ids(view)
    headline = compute_headline(case)
    pictures = () if view is None else compute_pictures(view)
    graph = None if view is None else compute_graph(view)
    return render(
        "case.html.jinja",
        "report.css",
        "case.js",
        case=case,
        report=report,
        index=index,
        version=version or compute_version(),
        noun=report.noun.value,
        has_expectation=report.noun is Noun.CASE,
        headline=headline,
        plain=compute_parts(headline.plain, steps),
        sentence=compute_parts(headline.detail, steps),
        view=view,
        pictures=pictures,
        max_bands=MAX_BANDS,
        band_height=BAND_HEIGHT,
        legend=_list_legend(pictures),
        outputs=sorted(case.outputs.items(), key=lambda one: -VERDICT_ORDER.index(one[1])),
        ways=() if view is None else tuple(o for o in view.outputs if o.sentence or o.path or o.missing),
        names={} if view is None else {step.id: step.name for step in view.steps},
        sentences={} if view is None else {o.name: compute_parts(o.sentence, steps) for o in view.outputs},
        dataflow=None if graph is None else compute_dataflow(graph),
        undrawn=0 if graph is None else graph.omitted,
        articles=compute_articles(case, steps),
        plot=compute_errors_plot(case),
        replay_word=compute_text(render_replay_word(case)),
        device_word=compute_text(render_device_word(case)),
        timeline=None if view is None else compute_timeline(view, tuple(p.number for p in pictures)),
        listing=() if view is None else compute_listing(view),
        packed="" if view is None else compute_packed(view.text),
        anchors=[] if view is None else [[line, number] for number, line in view.anchors],
        disagreements=[(one, [(k, compute_parts(v, steps)) for k, v in one.evidence]) for one in case.disagreements],
        expected=_describe_expected(case.expected),
    )


def compute_pictures(view: ScheduleView) -> tuple[BufferPicture, ...]:
    """Buffers with the worst reads first."""
    pictures: list[BufferPicture] = []
    steps = {step.id: step for step in view.steps}
    for number, buffer in enumerate(view.buffers):
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
    return tuple(sorted(pictures, key=_weight))


def _weight(picture: BufferPicture) -> int:
    kinds = {access.read for column in picture.columns for access in column.accesses} - {ReadKind.NONE}
    return next((place for place, kind in enumerate(WRONG_READS) if kind in kinds), len(WRONG_READS))


def _list_legend(pictures: tuple[BufferPicture, ...]) -> list[Sign]:
    """Signs that the page uses; what is perhaps a write says so itself."""
    used = {
        column.sign.name
        for picture in pictures
        for column in picture.columns
        if not (picture.buffer.unknown and column.sign.name == "write")
    }
    return [sign for name, sign in SIGNS.items() if name in used]


def _describe_expected(expected: str | Mapping[str, str] | None) -> str:
    """What the case says about its outputs, in words; empty where it says nothing."""
    if expected is None:
        return ""
    if isinstance(expected, str):
        return expected
    return ", ".join(f"{'every other output' if name == '*' else name} {words}" for name, words in expected.items())
