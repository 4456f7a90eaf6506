"""Lays out the band of a mutated buffer: a picture of the buffer's contents over time, with a mark and a label for each
access to it.

A mutated buffer is one that a kernel overwrites behind XLA's back. Time runs along the band, with one column for each
access or group of accesses; all columns have the same width, and a label is never wider than its column. A read of the
buffer's own bytes has its label above the band. A read of a copy of the value, or of the same value computed again, is
a mark on a line of its own below the band, with its label at the bottom. On a narrow page the band is vertical.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ligerdiag.model.schedule_view import Place
from ligerdiag.report.html.band_columns import Column, Contents
from ligerdiag.report.html.environment import compute_lines, compute_shortened

WIDTH = 1120
"""Width of the picture in user units, equal to pixels on a wide page; a picture with many columns is wider."""
MIN_COLUMN = 112
PADDING = 10
BAND_HEIGHT = 30
LINE_HEIGHT = 15
CODE_WIDTH = 6.7
"""Greatest width, in pixels, of a monospace character at 11 px."""
TEXT_WIDTH = 6.6
"""Greatest average width, in pixels, of a character of the proportional font at 12 px."""
_NAME_LINES = 2
_LOOP_HEIGHT = 20
_GAP = 14
"""Vertical distance, in user units, between the band and the labels of its marks."""
_LANE_GAP = 30
"""Distance between the band, the line for copies, and the line for values that are computed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of text in the label of a mark, with its height on the page and its style."""

    text: str
    y: float
    style: str
    """`heading`, `outputs`, `name` or `when`: the role of the line, which decides how it looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A sign with a label for the accesses of one column, on the band or on a line below it."""

    column: Column
    x: float
    y: float
    leader: tuple[float, float]
    """Both ends, as y, of the vertical line that joins the mark with its label."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the band between two changes of the buffer's contents."""

    start: float
    end: float
    contents: Contents
    text: str = ""
    """A description of the contents, shown below the segment; empty if there is no space for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandLane:
    """A line below the band, with marks for reads of other bytes than those that the kernel overwrites.

    Such a read is of a copy, or of a value that is computed again.
    """

    place: Place
    start: float
    end: float
    y: float
    joint: float | None
    """x of the vertical line that joins this line with the band, at a point where both hold the same contents; None if
    there is no such point.
    """
    text: str
    """Description of the line; empty if there is no space for it."""
    text_x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """A frame around those columns of the drawing whose accesses are in one loop."""

    start: float
    end: float
    loop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The picture of a buffer on a wide page: time runs from left to right."""

    width: float
    height: float
    y: float
    """y of the band's top; the band is `BAND_HEIGHT` high."""
    marks: tuple[Mark, ...]
    segments: tuple[Segment, ...]
    lanes: tuple[BandLane, ...]
    brackets: tuple[Bracket, ...]


_LANE_TEXTS = {
    Place.COPY: "other bytes: not overwritten",
    Place.RECOMPUTED: "computed again: nothing to overwrite",
}


def compute_band(columns: Sequence[Column], kernel: str) -> Band:
    """Returns the picture of a buffer for a wide page.

    columns: the accesses to this buffer, in schedule order. kernel: name of the kernel that overwrites the buffer.
    """
    width = max(WIDTH, 2 * PADDING + MIN_COLUMN * len(columns))
    step = (width - 2 * PADDING) / max(1, len(columns))
    xs = [PADDING + step * (number + 0.5) for number in range(len(columns))]
    texts = [_compute_texts(column, step) for column in columns]
    is_below = [column.place is not Place.SAME_BYTES for column in columns]
    above = max((len(t) for t, below in zip(texts, is_below, strict=True) if not below), default=0)
    below = max((len(t) for t, below in zip(texts, is_below, strict=True) if below), default=0)
    brackets = _compute_brackets(columns, xs, step)
    y = (_LOOP_HEIGHT if brackets else 0) + above * LINE_HEIGHT + _GAP
    lanes, bottom = _compute_lanes(columns, xs, y + BAND_HEIGHT)
    places = {lane.place: lane.y for lane in lanes}
    marks: list[Mark] = []
    for column, x, text in zip(columns, xs, texts, strict=True):
        if column.place is Place.SAME_BYTES:
            at, top = y + BAND_HEIGHT / 2, y - _GAP - (len(text) - 1) * LINE_HEIGHT
            leader = (y - _GAP + 4, y)
        else:
            at, top = places[column.place], bottom + _GAP + LINE_HEIGHT - 4
            leader = (places[column.place] + 9, bottom + _GAP - 2)
        lines = tuple(
            Line(text=said, y=top + number * LINE_HEIGHT, style=style) for number, (said, style) in enumerate(text)
        )
        marks.append(Mark(column=column, x=x, y=at, leader=leader, lines=lines))
    height = bottom + (_GAP + below * LINE_HEIGHT + 6 if below else 4)
    return Band(
        width=width,
        height=height,
        y=y,
        marks=tuple(marks),
        segments=_compute_segments(columns, xs, width, kernel),
        lanes=lanes,
        brackets=brackets,
    )


def _compute_texts(column: Column, step: float) -> list[tuple[str, str]]:
    code, text = int((step - 10) / CODE_WIDTH), int((step - 10) / TEXT_WIDTH)
    lines = [(compute_shortened(column.heading, text), "heading")]
    if column.outputs:
        lines.append((compute_shortened(f"→ {column.outputs}", text), "outputs"))
    lines += [(line, "name") for line in compute_lines(column.name, code, _NAME_LINES)]
    return [*lines, (f"time {column.when}", "when")]


def _compute_lanes(columns: Sequence[Column], xs: Sequence[float], bottom: float) -> tuple[tuple[BandLane, ...], float]:
    """Returns the lines below the band, and the y of the lowest one. bottom: y of the band's lower edge."""
    lanes: list[BandLane] = []
    y = bottom + 20
    step = xs[1] - xs[0] if len(xs) > 1 else WIDTH / 2
    joints = [x for column, x in zip(columns, xs, strict=True) if column.after is Contents.OLD]
    for place in (Place.COPY, Place.RECOMPUTED):
        own = [x for column, x in zip(columns, xs, strict=True) if column.place is place]
        if own:
            y += _LANE_GAP
            start = min((own[0] - step * 0.4, *joints[:1]))
            text, text_x = _place_text(_LANE_TEXTS[place], sorted((start, *own, *joints[:1])))
            joint = joints[0] if joints and joints[0] <= own[-1] else None
            lanes.append(BandLane(place=place, start=start, end=own[-1], y=y, joint=joint, text=text, text_x=text_x))
    return tuple(lanes), y if lanes else bottom + 20


def _place_text(text: str, xs: Sequence[float]) -> tuple[str, float]:
    """Returns the text and its x in the first space that is wide enough, between two of the positions `xs` or after the
    last; ("", 0) if there is none.
    """
    for start, end in zip(xs, (*xs[1:], float(WIDTH)), strict=True):
        if end - start > TEXT_WIDTH * len(text) + 32:
            return text, start + 16
    return "", 0.0


def _compute_segments(columns: Sequence[Column], xs: Sequence[float], width: float, kernel: str) -> tuple[Segment, ...]:
    right = width - PADDING
    if not columns:
        return ()
    texts = {
        Contents.NOTHING: "",
        Contents.OLD: "old contents",
        Contents.NEW: f"what `{kernel}` wrote",
        Contents.UNSURE: f"old contents, or what `{kernel}` wrote",
        Contents.OTHER: "another value",
    }
    return tuple(
        Segment(
            start=start,
            end=end,
            contents=contents,
            text=compute_shortened(texts[contents].replace("`", ""), int((end - start - 16) / TEXT_WIDTH))
            if end - start > 90
            else "",
        )
        for start, end, contents in _iterate_contents(columns, xs, float(PADDING), right)
    )


def _iterate_contents(
    columns: Sequence[Column], places: Sequence[float], start: float, end: float
) -> Iterator[tuple[float, float, Contents]]:
    """Yields (start, end, contents) for each part of the band in which the contents stay the same. places: position of
    each column along the band.
    """
    edges = [(start, columns[0].before)]
    for column, place in zip(columns, places, strict=True):
        if column.after is not edges[-1][1]:
            edges.append((place, column.after))
    for (begin, contents), stop in zip(edges, [*(place for place, _ in edges[1:]), end], strict=True):
        if stop > begin:
            yield begin, stop, contents


def _compute_brackets(columns: Sequence[Column], xs: Sequence[float], step: float) -> tuple[Bracket, ...]:
    brackets: list[Bracket] = []
    for loop, members in groupby(zip(columns, xs, strict=True), key=lambda one: one[0].loop):
        own = [x for _, x in members]
        start = 1.0 if own[0] == xs[0] else own[0] - step / 2 + 3
        end = xs[-1] + step / 2 + PADDING - 1 if own[-1] == xs[-1] else own[-1] + step / 2 - 3
        if loop is not None:
            brackets.append(Bracket(start=start, end=end, loop=loop))
    return tuple(brackets)


NARROW_WIDTH = 356
BAND_X = 6
BAND_WIDTH = 26
_LANE_STEP = 26
_LINE_HEIGHT = 15
_ROW_GAP = 11
_WHEN_WIDTH = 84
"""Width, in pixels, that `time 123456` needs after the heading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    """A row of the vertical band: one column of accesses, on a narrow page."""

    column: Column
    x: float
    y: float
    lines: tuple[Line, ...]
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the vertical band between two changes of the buffer's contents."""

    start: float
    end: float
    contents: Contents


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowLane:
    """A line beside the vertical band, with marks for reads of a copy or of a value that is computed again."""

    place: Place
    x: float
    start: float
    end: float
    joint: float | None
    """y of the horizontal line that joins this line with the band, at a point where both hold the same contents; None
    if there is no such point.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowBand:
    """The picture of a buffer on a narrow page: time runs from top to bottom."""

    height: float
    label_x: float
    rows: tuple[BandRow, ...]
    stretches: tuple[Stretch, ...]
    lanes: tuple[NarrowLane, ...]


def compute_narrow_band(columns: Sequence[Column]) -> NarrowBand:
    """Returns the picture of a buffer for a narrow page.

    It is `NARROW_WIDTH` wide and as high as its columns need.
    """
    places = [place for place in (Place.COPY, Place.RECOMPUTED) if any(c.place is place for c in columns)]
    lane_x = {place: BAND_X + BAND_WIDTH + _LANE_STEP * (n + 1) - 8 for n, place in enumerate(places)}
    label_x = BAND_X + BAND_WIDTH + _LANE_STEP * len(places) + 16
    rows: list[BandRow] = []
    top = 4.0
    for column in columns:
        texts = _compute_narrow_texts(column, NARROW_WIDTH - label_x)
        lines = tuple(
            Line(text=text, y=top + 12 + number * _LINE_HEIGHT, style=style)
            for number, (text, style) in enumerate(texts)
        )
        x = lane_x.get(column.place, BAND_X + BAND_WIDTH / 2)
        rows.append(BandRow(column=column, x=x, y=top + 8, lines=lines, when=f"time {column.when}"))
        top += len(texts) * _LINE_HEIGHT + _ROW_GAP
    return NarrowBand(
        height=top,
        label_x=label_x,
        rows=tuple(rows),
        stretches=_compute_stretches(rows, top),
        lanes=tuple(_compute_lane(place, x, rows) for place, x in lane_x.items()),
    )


def _compute_narrow_texts(column: Column, room: float) -> list[tuple[str, str]]:
    text = int(room / TEXT_WIDTH)
    lines = [(compute_shortened(column.heading, int((room - _WHEN_WIDTH) / TEXT_WIDTH)), "heading")]
    if column.outputs:
        lines.append((compute_shortened(f"→ {column.outputs}", text), "outputs"))
    return [*lines, *((line, "name") for line in compute_lines(column.name, int(room / CODE_WIDTH), 2))]


def _compute_stretches(rows: Sequence[BandRow], bottom: float) -> tuple[Stretch, ...]:
    if not rows:
        return ()
    columns, places = [row.column for row in rows], [row.y for row in rows]
    return tuple(
        Stretch(start=start, end=end, contents=contents)
        for start, end, contents in _iterate_contents(columns, places, 0.0, bottom - 4)
    )


def _compute_lane(place: Place, x: float, rows: Sequence[BandRow]) -> NarrowLane:
    """Returns the line beside the band for the reads that find the value in `place`; it ends at the last of their
    marks.
    """
    own = [row.y for row in rows if row.column.place is place]
    joints = [row.y for row in rows if row.column.after is Contents.OLD]
    joint = joints[0] if joints and joints[0] <= own[-1] else None
    return NarrowLane(place=place, x=x, start=min((own[0] - 12, *joints[:1])), end=own[-1], joint=joint)
