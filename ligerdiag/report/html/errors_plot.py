"""Relative errors on a log axis, an output a row: what rounding explains, what came out, and where stale would be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, isnan, log10

from ligerdiag.findings import Verdict
from ligerdiag.outcomes import DeviceOutput, OutputNumbers
from ligerdiag.report.model import CaseReport
from ligerdiag.report.numbers import compute_worst, render_device_numbers, render_error, render_figure

LEAST, MOST = -9, 2
"""Decades of the axis; it grows to the right for what is further away."""
MAX_DECADE = 12
WIDTH, HEIGHT = 420, 30
PADDING = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One figure."""

    kind: str
    """`replay`, `device`, `reference` or `prediction`."""
    x: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """One output."""

    output: str
    verdict: Verdict
    attribution: str
    """The explanation of the numbers, one word for each witness that computed them."""
    dots: tuple[Dot, ...]
    tolerance: float | None
    """x up to which rounding explains an error."""
    sentences: tuple[tuple[str, str], ...]
    """(witness, sentence)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsPlot:
    """All rows, and their axis."""

    rows: tuple[PlotRow, ...]
    ticks: tuple[tuple[float, str], ...]
    """(x, text)."""


def compute_errors_plot(case: CaseReport, order: Sequence[str] = ()) -> ErrorsPlot | None:
    """Returns None if there are no numbers. order: of the outputs' names; by default the program's."""
    replay: Mapping[str, OutputNumbers] = {} if case.replay is None else case.replay.outputs
    device: Mapping[str, DeviceOutput] = {} if case.device is None else case.device.outputs
    reference: Mapping[str, float] = {} if case.replay is None else case.replay.reference
    names = [name for name in order or case.outputs if name in replay or name in device or name in reference]
    if not names:
        return None
    errors = [*(n.error for n in replay.values()), *(n.distance for n in replay.values())]
    errors += [*(e for output in device.values() for e in output.errors), *reference.values()]
    axis = _Axis(_compute_most(errors))
    return ErrorsPlot(rows=tuple(_make_row(case, name, axis) for name in names), ticks=axis.list_ticks())


class _Axis:
    """From a relative error to x."""

    def __init__(self, most: int) -> None:
        self._most = most

    def place(self, error: float) -> float | None:
        """Clamped to the axis; None for what is no number."""
        if isnan(error):
            return None
        decade = float(LEAST) if error <= 0 else self._most if not isfinite(error) else log10(error)
        share = (min(max(decade, LEAST), self._most) - LEAST) / (self._most - LEAST)
        return round(PADDING + share * (WIDTH - 2 * PADDING), 1)

    def list_ticks(self) -> tuple[tuple[float, str], ...]:
        """Returns every third decade."""
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
        add("prediction", numbers.distance, "where the stale prediction is")
        add("replay", numbers.error, "replay on the CPU")
        words.append(numbers.attribution.value)
        sentences.append(("replay", f"{numbers.attribution.value}: {render_error(numbers)}"))
    if case.replay is not None and name in case.replay.reference:
        error = case.replay.reference[name]
        add("reference", error, "program order against the case's reference")
        sentences.append(("reference", f"program order differs from it by {render_figure(error)}"))
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
