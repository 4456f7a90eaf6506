"""Lays out the part of a page about the memory of a case: the curve of the memory in use over the schedule, and four tables.
The tables list the values alive at the peak, the copies, the donations and the requests (operations that ask to work in
place).

The curve has a column for each of its points, in the order of the schedule. A triangle below the curve marks a copy
whose instruction is a point of the curve.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.memory import Copy, CurvePoint, Donation, MemoryUse, Request
from ligerdiag.model.report import CaseReport
from ligerdiag.report.html.band import NARROW_WIDTH, TEXT_WIDTH, WIDTH
from ligerdiag.report.html.environment import compute_shortened
from ligerdiag.report.html.prose import Part, compute_parts
from ligerdiag.report.words.memory_words import (
    count_rest,
    describe_cause,
    describe_dropped,
    describe_live,
    describe_memory,
    describe_requests,
    describe_size,
    describe_way,
    group_live,
    list_unmet,
    list_void,
    name_instruction,
    render_milliseconds,
)
from ligerdiag.source_text import compute_place, load_source_text
from ligerdiag.text import count_of, render_bytes

HEIGHT, NARROW_HEIGHT = 270, 230
LEFT, RIGHT, TOP, BOTTOM = 76, 10, 48, 34
"""Margins of the plot within the picture: left for the labels of the axis, right for a rim, top for the peak's label,
bottom for copies and the caption.
"""
_RIM = 4.0
"""Smallest distance between a label and the edge of the picture."""
_TICKS = 4
"""Greatest number of horizontal grid lines above zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A column of the curve: the memory in use at one point of the schedule."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A horizontal line across the plot, at the total size of the arguments or of the reserved memory."""

    name: str
    """`arguments` or `reserved`."""
    y: float
    text: str
    text_y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakMark:
    """The highest point of the curve, with its label above the plot."""

    x: float
    y: float
    text: str
    text_x: float
    anchor: str
    """Value of SVG's `text-anchor` for the label: `start`, `middle` or `end`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMark:
    """The triangle below the plot that marks a copy."""

    x: float
    title: str
    is_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The picture of the memory in use over the schedule. Lengths are in user units of SVG."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    """y of the plot's lower edge; `left`, `right` and `top` are its other edges."""
    outline: str
    """The curve as SVG path data; together with the base line it encloses the memory in use."""
    moments: tuple[Moment, ...]
    ticks: tuple[tuple[float, str], ...]
    """(y, text) of each horizontal grid line."""
    levels: tuple[Level, ...]
    peak: PeakMark
    marks: tuple[CopyMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table. The text of each cell is split into plain parts and code."""

    size: str
    texts: tuple[tuple[Part, ...], ...]
    place: str = ""
    """The source line as `file:line`; empty if it is unknown."""
    source: str = ""
    """The text of the source line; empty if the file cannot be read."""
    is_good: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySection:
    """The contents of the page's section about memory."""

    sentence: str
    wide: Curve | None
    """The curve for a wide page, as `narrow` is for a narrow one; None if the case has no curve."""
    narrow: Curve | None
    description: str
    """A sentence that says what the curve shows, for readers who cannot see it."""
    figures: tuple[tuple[str, str], ...]
    """(name, text) of each figure, such as the peak."""
    alive: tuple[Row, ...]
    copies: tuple[Row, ...]
    donations: tuple[Row, ...]
    """The donated arguments; arguments whose bytes no output takes come first."""
    dropped: tuple[Row, ...]
    """The arguments that JAX drops."""
    requests: tuple[Row, ...]
    """The requests that are not met: something is copied for each of them."""
    verdict: str
    """A line that says whether all requests are met, with the evidence."""
    is_in_place: bool
    """Whether the case asks XLA to work in place at least once, and XLA does so for every such request."""
    warning: str


def compute_memory_section(case: CaseReport, steps: Mapping[str, int]) -> MemorySection | None:
    """Returns the section about memory, or None if the memory of the case is unknown.

    steps: maps the name of each instruction to the id of its step, as `compute_step_ids` does.
    """
    memory = case.memory
    if memory is None:
        return None
    return MemorySection(
        sentence=describe_memory(memory),
        wide=compute_curve(memory, WIDTH, HEIGHT),
        narrow=compute_curve(memory, NARROW_WIDTH, NARROW_HEIGHT),
        description=_describe_curve(memory),
        figures=_list_figures(memory),
        alive=_list_alive(memory, case.source_roots, steps),
        copies=tuple(_make_copy_row(one, case.source_roots, steps) for one in memory.copies),
        donations=_list_donations(memory, case.source_roots, steps),
        dropped=tuple(
            _make_row(one.bytes, [f"`{one.argument}`", describe_dropped(one)], None, case.source_roots, steps)
            for one in memory.dropped
        ),
        requests=tuple(_make_request_row(one, case.source_roots, steps) for one in list_unmet(memory)),
        verdict=describe_requests(memory),
        is_in_place=memory.is_in_place and bool(memory.requests),
        warning=memory.warning,
    )


def compute_curve(memory: MemoryUse, width: float, height: float) -> Curve | None:
    """Returns the picture of the curve in the given size, or None if no point of the curve has any bytes."""
    points = memory.curve
    most = max((*(point.bytes for point in points), memory.reserved, memory.arguments), default=0)
    if not points or most <= 0:
        return None
    left, right, top, bottom = LEFT, width - RIGHT, TOP, height - BOTTOM
    step = (right - left) / len(points)

    def place(size: int) -> float:
        return round(bottom - (bottom - top) * (max(size, 0) / most), 1)

    xs = [left + step * number for number in range(len(points))]
    outline = "".join(
        f"{'L' if n else 'M'}{x:.1f} {place(p.bytes)}H{x + step:.1f}"
        for n, (x, p) in enumerate(zip(xs, points, strict=True))
    )
    highest = _find_peak(memory)
    x = round(xs[highest] + step / 2, 1)
    label = f"peak {describe_point(points[highest], memory.peak_line)}"
    copies = {name_instruction(one.instruction): one for one in reversed(memory.copies)}
    return Curve(
        width=width,
        height=height,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        outline=outline,
        moments=tuple(
            Moment(x=round(x, 2), width=round(step, 2), title=describe_point(point))
            for x, point in zip(xs, points, strict=True)
        ),
        ticks=tuple((place(size), render_bytes(size)) for size in _list_ticks(most)),
        levels=_list_levels(memory, place),
        peak=_make_peak(
            x, place(points[highest].bytes), compute_shortened(label, int((width - 2 * _RIM) / TEXT_WIDTH)), width
        ),
        marks=tuple(
            _make_mark(copies[name_instruction(point.instruction)], round(x + step / 2, 1))
            for x, point in zip(xs, points, strict=True)
            if name_instruction(point.instruction) in copies
        ),
    )


def describe_point(point: CurvePoint, line: SourceLine | None = None) -> str:
    """Returns the text for a point of the curve, such as `33.0 MiB: %fusion.7 (train.py:52)`.

    line: the source line to show if the point has none.
    """
    shown = point.line or line
    place = "" if shown is None else f" ({compute_place(shown)})"
    return f"{render_bytes(point.bytes)}: {name_instruction(point.instruction)}{place}"


def _find_peak(memory: MemoryUse) -> int:
    """Returns the index of the highest point; among equally high ones, that of the instruction `peak_at`."""
    name = name_instruction(memory.peak_at)
    numbers = range(len(memory.curve))
    return max(numbers, key=lambda n: (memory.curve[n].bytes, name_instruction(memory.curve[n].instruction) == name))


def _make_peak(x: float, y: float, text: str, width: float) -> PeakMark:
    """Returns the peak with its label centred above it; a label that would leave the picture starts or ends at its edge
    instead.
    """
    room = len(text) * TEXT_WIDTH / 2
    text_x, anchor = x, "middle"
    if x - room < _RIM:
        text_x, anchor = _RIM, "start"
    elif x + room > width - _RIM:
        text_x, anchor = width - _RIM, "end"
    return PeakMark(x=x, y=y, text=text, text_x=text_x, anchor=anchor)


def _list_levels(memory: MemoryUse, place: Callable[[int], float]) -> tuple[Level, ...]:
    sizes = (("arguments", memory.arguments), ("reserved", memory.reserved))
    return tuple(
        Level(name=name, y=place(size), text=f"{name} {render_bytes(size)}", text_y=place(size) - 5)
        for name, size in sizes
        if size > 0
    )


def _list_ticks(most: int) -> list[int]:
    """Returns the sizes of the grid lines, in bytes: zero and multiples of a power of two, none above `most`."""
    step = 1
    while step * _TICKS < most:
        step *= 2
    return list(range(0, most + 1, step))


def _make_mark(copy: Copy, x: float) -> CopyMark:
    title = f"copy of {describe_size(copy)}, {'needed' if copy.is_needed else 'not needed'}: {describe_way(copy)}"
    return CopyMark(x=x, title=title, is_needed=copy.is_needed)


def _describe_curve(memory: MemoryUse) -> str:
    if not memory.curve:
        return ""
    highest = memory.curve[_find_peak(memory)]
    return (
        f"memory in use over {count_of(len(memory.curve), 'moment')} of the schedule: at first "
        f"{render_bytes(memory.curve[0].bytes)}, at most {describe_point(highest, memory.peak_line)}, at the end "
        f"{render_bytes(memory.curve[-1].bytes)}"
    )


def _list_figures(memory: MemoryUse) -> tuple[tuple[str, str], ...]:
    sizes = (
        ("arguments", memory.arguments),
        ("outputs", memory.outputs),
        ("in common", memory.aliased),
        ("temporaries", memory.temporaries),
        ("reserved in all", memory.reserved),
        ("constants", memory.constants),
        ("peak", memory.peak),
        ("copied a call", memory.copied),
        *((f"{opcode} a call", size) for opcode, size in memory.collectives),
    )
    least = memory.copy_milliseconds
    times = [("copies take at least", render_milliseconds(least))] if least else []
    return (*((name, render_bytes(size)) for name, size in sizes), *times)


def _list_alive(memory: MemoryUse, roots: Sequence[str], steps: Mapping[str, int]) -> tuple[Row, ...]:
    rows = [
        _make_row(group.bytes, [describe_live(value) for value in group.values], group.line, roots, steps)
        for group in group_live(memory)
    ]
    rest = count_rest(memory) if memory.at_peak else 0
    return (*rows, *([_make_row(rest, ["smaller values"], None, roots, steps)] if rest else []))


def _make_copy_row(copy: Copy, roots: Sequence[str], steps: Mapping[str, int]) -> Row:
    texts = [
        describe_way(copy),
        describe_cause(copy),
        ": ".join(filter(None, (name_instruction(copy.instruction), copy.why))),
    ]
    row = _make_row(copy.bytes, texts, copy.line, roots, steps)
    return replace(row, size=describe_size(copy), is_good=copy.is_needed)


def _list_donations(memory: MemoryUse, roots: Sequence[str], steps: Mapping[str, int]) -> tuple[Row, ...]:
    void = list_void(memory)

    def make(one: Donation) -> Row:
        fate = f"output `{one.output}`" if one.fault is None else f"void: {one.fault.value}"
        row = _make_row(one.bytes, [f"`{one.argument}`", fate, one.why], one.line, roots, steps)
        return replace(row, is_good=one.fault is None)

    return (*map(make, void), *(make(one) for one in memory.donations if one not in void))


def _make_request_row(request: Request, roots: Sequence[str], steps: Mapping[str, int]) -> Row:
    texts = [request.kind.value, name_instruction(request.instruction)]
    return replace(_make_row(request.bytes, texts, request.line, roots, steps), is_good=False)


def _make_row(
    size: int, texts: Sequence[str], line: SourceLine | None, roots: Sequence[str], steps: Mapping[str, int]
) -> Row:
    return Row(
        size=render_bytes(size),
        texts=tuple(compute_parts(text, steps) for text in texts),
        place="" if line is None else compute_place(line),
        source="" if line is None else load_source_text(line, roots),
    )
