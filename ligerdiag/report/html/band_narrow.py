"""The same band for a narrow page: time runs down, one row for each column, the labels to its right."""

from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.report.html.band import CODE_WIDTH, TEXT_WIDTH, Line
from ligerdiag.report.html.band_columns import Column, Contents
from ligerdiag.report.html.text_fit import compute_lines, compute_shortened
from ligerdiag.schedule_view import Place

WIDTH = 356
BAND_X = 6
BAND_WIDTH = 26
_LANE_STEP = 26
_LINE_HEIGHT = 15
_ROW_GAP = 11
_WHEN_WIDTH = 84
"""Room for `time 123456` behind the heading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A column of the band, lying."""

    column: Column
    x: float
    y: float
    lines: tuple[Line, ...]
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the band, from top to bottom."""

    start: float
    end: float
    contents: Contents


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowLane:
    """A line beside the band."""

    place: Place
    x: float
    start: float
    end: float
    joint: float | None
    """y at which it is tied to the band: where the two have the same contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowBand:
    """The whole picture."""

    height: float
    label_x: float
    rows: tuple[Row, ...]
    stretches: tuple[Stretch, ...]
    lanes: tuple[NarrowLane, ...]


def compute_narrow_band(columns: Sequence[Column]) -> NarrowBand:
    """`WIDTH` wide, as high as it has to be."""
    places = [place for place in (Place.COPY, Place.COMPUTED_ANEW) if any(c.place is place for c in columns)]
    lane_x = {place: BAND_X + BAND_WIDTH + _LANE_STEP * (n + 1) - 8 for n, place in enumerate(places)}
    label_x = BAND_X + BAND_WIDTH + _LANE_STEP * len(places) + 16
    rows: list[Row] = []
    top = 4.0
    for column in columns:
        texts = _compute_texts(column, WIDTH - label_x)
        lines = tuple(
            Line(text=text, y=top + 12 + number * _LINE_HEIGHT, style=style)
            for number, (text, style) in enumerate(texts)
        )
        x = lane_x.get(column.place, BAND_X + BAND_WIDTH / 2)
        rows.append(Row(column=column, x=x, y=top + 8, lines=lines, when=f"time {column.when}"))
        top += len(texts) * _LINE_HEIGHT + _ROW_GAP
    return NarrowBand(
        height=top,
        label_x=label_x,
        rows=tuple(rows),
        stretches=_compute_stretches(rows, top),
        lanes=tuple(_compute_lane(place, x, rows) for place, x in lane_x.items()),
    )


def _compute_texts(column: Column, room: float) -> list[tuple[str, str]]:
    text = int(room / TEXT_WIDTH)
    lines = [(compute_shortened(column.heading, int((room - _WHEN_WIDTH) / TEXT_WIDTH)), "heading")]
    if column.outputs:
        lines.append((compute_shortened(f"→ {column.outputs}", text), "outputs"))
    return [*lines, *((line, "name") for line in compute_lines(column.name, int(room / CODE_WIDTH), 2))]


def _compute_stretches(rows: Sequence[Row], bottom: float) -> tuple[Stretch, ...]:
    if not rows:
        return ()
    edges = [(0.0, rows[0].column.before)]
    for row in rows:
        if row.column.after is not edges[-1][1]:
            edges.append((row.y, row.column.after))
    ends = [*(y for y, _ in edges[1:]), bottom - 4]
    return tuple(
        Stretch(start=start, end=end, contents=contents)
        for (start, contents), end in zip(edges, ends, strict=True)
        if end > start
    )


def _compute_lane(place: Place, x: float, rows: Sequence[Row]) -> NarrowLane:
    """Up to the last mark."""
    own = [row.y for row in rows if row.column.place is place]
    joints = [row.y for row in rows if row.column.after is Contents.OLD]
    joint = joints[0] if joints and joints[0] <= own[-1] else None
    return NarrowLane(place=place, x=x, start=min((own[0] - 12, *joints[:1])), end=own[-1], joint=joint)
