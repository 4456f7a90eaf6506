"""Computes two figures of a page: the schedule around the kernels, and the relative errors of the outputs.

The figure of the schedule has one row for each step, in the order of logical time; the steps in a loop's body are rows
below the row of the loop. Steps are drawn in lanes: computation, collectives, copies. An asynchronous operation is a
bar in its lane, from its start to the last row before its end. Concurrent operations of a lane stand side by side in
slots, `MAX_SLOTS` at most; more of them share the last slot. Each of the first `MAX_STRIPS` mutated buffers has a
strip, which shows the contents of its bytes after each row. The figure of the errors has one row for each output.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, isnan, log10

from ligerdiag.model.findings import DeviceOutput, OutputNumbers, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import AccessKind, Lane, ScheduleStep, ScheduleView
from ligerdiag.report.html.band_columns import Contents, compute_contents
from ligerdiag.report.html.environment import Sign, sign_of
from ligerdiag.report.relative_errors import compute_worst, render_device_numbers, render_error, render_figure

MAX_SLOTS = 3
MAX_STRIPS = 3
LANES = (Lane.COMPUTE, Lane.COLLECTIVE, Lane.COPY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineCell:
    """A cell of the figure of the schedule: the part of a step's row in one slot of a lane."""

    lane: Lane
    state: str
    """`dot` for a step; `start`, `through` or `end` for a part of a bar; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """The row of one step (one scheduled instruction) in the figure of the schedule."""

    step: ScheduleStep
    cells: tuple[TimelineCell, ...]
    strips: tuple[Contents, ...]
    signs: tuple[Sign, ...]
    """Signs of the step's accesses to mutated buffers."""
    body: tuple["TimelineRow", ...] = ()
    """Rows of the steps in the body, if the step is a loop."""
    is_open: bool = False
    """Whether the page shows the body unfolded at first: it does if a step in the body accesses a mutated buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The figure of the schedule: its rows from top to bottom."""

    rows: tuple[TimelineRow, ...]
    slots: tuple[tuple[Lane, int], ...]
    """The lanes that the schedule uses, each with its number of slots (columns side by side for concurrent operations)."""
    strips: tuple[int, ...]
    """Index, into `ScheduleView.buffers`, of each buffer that has a strip, a column that shows the contents of its
    bytes.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    lane: Lane
    slot: int
    first: int
    """Number of the row in which the bar begins."""
    last: int


def compute_timeline(view: ScheduleView, strips: Sequence[int]) -> Timeline:
    """Returns the figure of the schedule.

    strips: indices of the mutated buffers (those that a kernel overwrites behind XLA's back), the most important first.
    Only the first `MAX_STRIPS` get a strip.
    """
    steps = sorted(view.steps, key=lambda step: step.start)
    spans = _compute_spans(steps)
    slots = _compute_slots(steps, spans)
    shown = tuple(strips[:MAX_STRIPS])
    contents = {buffer: _compute_contents(view, buffer, steps) for buffer in shown}
    signs: dict[int, list[Sign]] = defaultdict(list)
    for access in view.accesses:
        signs[access.step].append(sign_of(access))
    children: dict[int, list[int]] = defaultdict(list)
    known = {step.id for step in steps}
    for number, step in enumerate(steps):
        around = [loop for loop in step.loops if loop in known and loop != step.id]
        children[around[-1] if around else -1].append(number)

    def make(number: int) -> TimelineRow:
        step = steps[number]
        body = tuple(make(child) for child in children.get(step.id, ()))
        return TimelineRow(
            step=step,
            cells=_compute_cells(step, number, slots, spans),
            strips=tuple(contents[buffer][number] for buffer in shown),
            signs=tuple(dict.fromkeys(signs.get(step.id, ()))),
            body=body,
            is_open=any(row.signs or row.is_open for row in body),
        )

    return Timeline(rows=tuple(make(number) for number in children[-1]), slots=tuple(slots.items()), strips=shown)


def _compute_spans(steps: Sequence[ScheduleStep]) -> tuple[_Span, ...]:
    spans: list[_Span] = []
    for number, step in enumerate(steps):
        if step.end <= step.start or step.opcode == "while":
            continue
        last = max(n for n, other in enumerate(steps) if number <= n and (n == number or other.start <= step.end))
        busy = {span.slot for span in spans if span.lane is step.lane and span.last >= number}
        slot = next((slot for slot in range(MAX_SLOTS) if slot not in busy), MAX_SLOTS - 1)
        spans.append(_Span(lane=step.lane, slot=slot, first=number, last=last))
    return tuple(spans)


def _compute_slots(steps: Sequence[ScheduleStep], spans: Sequence[_Span]) -> dict[Lane, int]:
    used = {step.lane for step in steps}
    return {
        lane: max((span.slot + 1 for span in spans if span.lane is lane), default=1) for lane in LANES if lane in used
    }


def _compute_cells(
    step: ScheduleStep, number: int, slots: Mapping[Lane, int], spans: Sequence[_Span]
) -> tuple[TimelineCell, ...]:
    cells: list[TimelineCell] = []
    for lane, count in slots.items():
        for slot in range(count):
            over = [s for s in spans if s.lane is lane and s.slot == slot and s.first <= number <= s.last]
            state = ""
            if over:
                span = over[-1]
                state = "start" if number == span.first else "end" if number == span.last else "through"
            elif lane is step.lane and slot == 0:
                state = "dot"
            cells.append(TimelineCell(lane=lane, state=state))
    return tuple(cells)


def _compute_contents(view: ScheduleView, buffer: int, steps: Sequence[ScheduleStep]) -> tuple[Contents, ...]:
    """Returns the contents of the buffer's bytes after each step."""
    changes = {a.step: a.kind for a in view.accesses if a.buffer == buffer and a.kind is not AccessKind.READ}
    has_definition = AccessKind.DEFINE in changes.values()
    now = Contents.NOTHING if has_definition else Contents.OLD
    found: list[Contents] = []
    for step in steps:
        now = compute_contents(changes.get(step.id, AccessKind.READ), now, view.buffers[buffer])
        found.append(now)
    return tuple(found)


LEAST, MOST = -9, 2
"""Smallest and largest power of ten on the axis of the errors; the axis extends further right if there are larger
errors.
"""
MAX_DECADE = 12
WIDTH = 420
PADDING = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    kind: str
    """Origin of the number: `replay`, `opaque` (the replay with opaque functions), `device`, `reference` or `prediction`
    (the error that a stale output would have).
    """
    x: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """The row of one output in the figure of the errors."""

    output: str
    verdict: Verdict
    attribution: str
    """The attribution of the output by the replay, then with opaque functions, then by the device, with commas between
    them where they differ.
    """
    dots: tuple[Dot, ...]
    tolerance: float | None
    """x of the largest error that rounding explains; None if unknown."""
    sentences: tuple[tuple[str, str], ...]
    """(source, sentence) pairs about the errors; the source is `replay`, `opaque`, `reference` or the name of a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsPlot:
    """The figure of the relative errors of the outputs."""

    rows: tuple[PlotRow, ...]
    ticks: tuple[tuple[float, str], ...]
    """(x, text) of each mark on the axis of relative errors."""


def compute_errors_plot(case: CaseReport, order: Sequence[str] = ()) -> ErrorsPlot | None:
    """Returns the figure of the relative errors of the outputs, or None if no output has numbers.

    order: names of the outputs to show, by default all in the program's order.
    """
    replay: Mapping[str, OutputNumbers] = {} if case.replay is None else case.replay.outputs
    device: Mapping[str, DeviceOutput] = {} if case.device is None else case.device.outputs
    reference: Mapping[str, float] = {} if case.replay is None else case.replay.reference
    opaque = _find_opaque(case)
    shown = replay.keys() | opaque.keys() | device.keys() | reference.keys()
    names = [name for name in order or case.outputs if name in shown]
    if not names:
        return None
    errors = [*(n.error for n in replay.values()), *(n.distance for n in replay.values())]
    errors += [*(n.error for n in opaque.values()), *(n.distance for n in opaque.values())]
    errors += [*(e for output in device.values() for e in output.errors), *reference.values()]
    axis = _Axis(_compute_most(errors))
    return ErrorsPlot(rows=tuple(_make_row(case, name, axis) for name in names), ticks=axis.list_ticks())


def _find_opaque(case: CaseReport) -> Mapping[str, OutputNumbers]:
    """Returns the numbers of the replay with opaque functions by output name; empty if there are none."""
    return {} if case.replay is None or case.replay.opaque is None else case.replay.opaque.outputs


class _Axis:
    """The horizontal axis: maps relative errors to x, on a logarithmic scale."""

    def __init__(self, most: int) -> None:
        self._most = most

    def place(self, error: float) -> float | None:
        """Returns the x at which the figure shows a relative error, or None for NaN.

        An error beyond an end of the axis is shown at that end.
        """
        if isnan(error):
            return None
        decade = float(LEAST) if error <= 0 else self._most if not isfinite(error) else log10(error)
        share = (min(max(decade, LEAST), self._most) - LEAST) / (self._most - LEAST)
        return round(PADDING + share * (WIDTH - 2 * PADDING), 1)

    def list_ticks(self) -> tuple[tuple[float, str], ...]:
        """Returns an (x, text) pair for every third power of ten on the axis of relative errors."""
        decades = range(LEAST, self._most + 1, 3)
        return tuple((self.place(10.0**decade) or 0.0, f"{10.0**decade:.0e}" if decade else "1") for decade in decades)


def _compute_most(errors: Sequence[float]) -> int:
    far = max((error for error in errors if isfinite(error)), default=0.0)
    return MOST if far <= 10**MOST else min(MAX_DECADE, ceil(log10(far)))


def _make_row(case: CaseReport, name: str, axis: _Axis) -> PlotRow:
    dots: list[Dot] = []
    words: list[str] = []
    sentences: list[tuple[str, str]] = []
    tolerance: float | None = None

    def add(kind: str, error: float, title: str) -> None:
        x = axis.place(error)
        if x is not None:
            dots.append(Dot(kind=kind, x=x, title=f"{title}: {render_figure(error)}"))

    if case.replay is not None and name in case.replay.outputs:
        numbers = case.replay.outputs[name]
        tolerance = axis.place(numbers.tolerance)
        add("prediction", numbers.distance, "a stale output would be here")
        add("replay", numbers.error, "replay on the CPU")
        words.append(numbers.attribution.value)
        sentences.append(("replay", f"{numbers.attribution.value}: {render_error(numbers)}"))
    if (numbers := _find_opaque(case).get(name)) is not None:
        if not words:
            tolerance = axis.place(numbers.tolerance)
            add("prediction", numbers.distance, "a stale output would be here")
        add("opaque", numbers.error, "replay with opaque functions")
        word = numbers.attribution.value
        words += [] if word in words else [f"{word} with opaque functions"]
        sentences.append(("opaque", f"{word}: {render_error(numbers)}"))
    if case.replay is not None and name in case.replay.reference:
        error = case.replay.reference[name]
        add("reference", error, "the result in program order, compared with the case's reference")
        sentences.append(
            ("reference", f"the result in program order differs from the reference by {render_figure(error)}")
        )
    if case.device is not None and name in case.device.outputs:
        output = case.device.outputs[name]
        tolerance = axis.place(output.tolerance) if tolerance is None else tolerance
        for draw, error in enumerate(output.errors):
            add("device", error, f"{case.device.device}, draw {draw}")
        words.append(f"{output.attribution.value} on the device")
        sentences.append((case.device.device, render_device_numbers(output)))
        if isnan(compute_worst(output.errors)):
            words.append("not a number")
    return PlotRow(
        output=name,
        verdict=case.outputs[name],
        attribution=", ".join(dict.fromkeys(words)),
        dots=tuple(dots),
        tolerance=tolerance,
        sentences=tuple(sentences),
    )
