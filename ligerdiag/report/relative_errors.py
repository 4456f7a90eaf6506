"""Renders relative errors, which say how far the numbers of an output are from the intended ones, and their
explanation. The stale prediction is the output computed as if no read saw a hidden write.
"""

from collections.abc import Mapping
from math import isfinite, isnan

from ligerdiag.model.findings import Attribution, DeviceOutput, OutputNumbers, Verdict
from ligerdiag.text import count_of


def render_figure(value: float) -> str:
    """Returns a relative error with two digits, such as `0.25`, `1.2e+04` or `0`."""
    if isnan(value):
        return "not a number"
    return f"{value:.2g}" if isfinite(value) else "infinite"


def render_numbers(numbers: OutputNumbers) -> str:
    """Returns the attribution and the error of an output, such as `stale: relative error 1.2e+04, equal to the stale
    prediction`.
    """
    return f"{numbers.attribution.value}: {render_error(numbers)}"


def render_error(numbers: OutputNumbers, verdict: Verdict | None = None) -> str:
    """Returns the error of an output and how it compares with the stale prediction: its value if no read saw a hidden
    write.

    An example is `relative error 1.2e+04, equal to the stale prediction`.

    verdict: the static analysis's verdict on the output; pass it if the error belongs to a finding about a hidden write.
    The value of a stale output may be neither the intended nor the stale one, because a reader sees old and new contents.
    """
    error, tolerance = f"relative error {render_figure(numbers.error)}", render_figure(numbers.tolerance)
    rows = f" ({numbers.rows_fresh} of {numbers.rows} rows as intended, {numbers.rows_stale} stale)"
    match numbers.attribution:
        case Attribution.STALE:
            words = f"{error}, equal to the stale prediction"
        case Attribution.PARTLY_STALE:
            words = f"{error}, some rows as intended and the others stale"
        case Attribution.FRESH if is_blind(numbers):
            near = f"a stale read would give a result {render_figure(numbers.distance)} away"
            words = f"{error}, but the numbers cannot tell fresh from stale: {near}, within the tolerance {tolerance}"
        case Attribution.FRESH | Attribution.LOSSY:
            words = f"{error}, tolerance {tolerance}, {_place_stale(numbers, 'away')}"
        case Attribution.NEITHER if numbers.nan_as_stale:
            words = "not a number, as in the stale prediction"
        case Attribution.NEITHER:
            words = f"{error}, and {_compare_with_stale(numbers)}"
            if verdict is Verdict.STALE:
                words += ": neither the intended nor the stale value, so perhaps a mixture, partly old and partly new"
        case Attribution.UNDECIDED:
            words = f"{error}, {_place_stale(numbers, 'away from the intended')}"
    return words + rows if numbers.rows else words


def _place_stale(numbers: OutputNumbers, away: str) -> str:
    """Returns the distance of the stale prediction from the intended numbers, or says which of the two is not finite.

    away: words behind the distance.
    """
    if not isnan(numbers.distance):
        return f"the stale prediction {render_figure(numbers.distance)} {away}"
    is_fault_of_intended = numbers.attribution is Attribution.UNDECIDED and isnan(numbers.error)
    return "the intended value not finite" if is_fault_of_intended else "the stale prediction not finite"


def _compare_with_stale(numbers: OutputNumbers) -> str:
    """Returns how far an output that is neither as intended nor stale is from the stale prediction."""
    if not isnan(numbers.stale_error):
        return f"{render_figure(numbers.stale_error)} from the stale prediction"
    if not isnan(numbers.distance):
        return "the stale prediction is finite"
    return f"the stale prediction is not finite{' either' if isnan(numbers.error) else ''}"


def is_blind(numbers: OutputNumbers) -> bool:
    """Returns whether the output has the intended numbers, but the stale numbers are the same up to rounding.

    Such numbers do not prove that the output is fresh.
    """
    return numbers.attribution is Attribution.FRESH and numbers.distance <= numbers.tolerance


def summarise_numbers(outputs: Mapping[str, OutputNumbers]) -> str:
    """Returns the number of outputs for each attribution, the most frequent attribution first.

    An example is `105 outputs stale, relative error 0.3 to 1.2e+04; 1 undecided`.
    """
    found: dict[str, list[float]] = {}
    for numbers in outputs.values():
        word = "whose numbers cannot tell fresh from stale" if is_blind(numbers) else numbers.attribution.value
        found.setdefault(word, []).append(numbers.error)
    phrases: list[str] = []
    for word, errors in sorted(found.items(), key=lambda item: -len(item[1])):
        finite = [error for error in errors if isfinite(error)]
        low, high = (render_figure(min(finite)), render_figure(max(finite))) if finite else ("", "")
        span = f", relative error {low if low == high else f'{low} to {high}'}" if finite else ""
        noun = count_of(len(errors), "output") if not phrases else str(len(errors))
        phrases.append(f"{noun} {word}{span}")
    return "; ".join(phrases)


def render_device_numbers(output: DeviceOutput) -> str:
    """Returns the attribution of an output on the device, such as `stale: relative error 1.2e+04`.

    The error is the worst over all sets of random arguments.
    """
    text = f"{output.attribution.value}: relative error {render_figure(compute_worst(output.errors))}"
    return f"{text}, {render_figure(output.unsteady)} between two runs" if output.unsteady else text


def compute_worst(errors: tuple[float, ...]) -> float:
    """Returns the largest of the errors. Returns NaN if one of them is NaN, and 0 if there are none."""
    return max(errors, key=lambda error: (isnan(error), error), default=0.0)
