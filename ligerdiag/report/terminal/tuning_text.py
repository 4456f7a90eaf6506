"""Renders one line for each case about the choices of XLA's autotuner. A case that is compiled with a file of choices
always has such a line; with `--verbose`, so has every other case for which the autotuner has something to choose.
"""

from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.terminal.spans import Line, Span, Style, compute_wrapped
from ligerdiag.report.words.tuning_words import describe_tuning

MAX_TUNED = 12
"""At most this many cases have a line about their tuning; `--verbose` and JSON have all of them."""


def render_tunings(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines about the choices of XLA's autotuner.

    If there are too many cases for a line each, those that lack the most choices come first.
    """
    said = [(case, text) for case in report.cases if case.tuning and (text := describe_tuning(case.tuning))]
    if not verbose:
        said = [(case, text) for case, text in said if case.tuning and case.tuning.file]
    shown = said
    if not verbose and len(said) > MAX_TUNED:
        shown = sorted(said, key=lambda pair: -_count_open(pair[0]))[: MAX_TUNED - 1]
    lines: list[Line] = []
    for case, text in shown:
        label = "tuned" if case.tuning and case.tuning.file else "not tuned"
        place = "" if len(report.cases) == 1 else f" `{case.id}` on {case.target}"
        lines += compute_wrapped((Span(f"{label}{place}: ", Style.STRONG), Span(text)), width, 4)
    if len(shown) < len(said):
        lines += compute_wrapped(
            (Span("tuned: ", Style.STRONG), Span(f"{len(said) - len(shown)} more: -v lists them")), width, 4
        )
    return tuple(lines)


def _count_open(case: CaseReport) -> int:
    return len(case.tuning.open) if case.tuning else 0
