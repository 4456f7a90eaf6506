"""Summarizes how many cases were replayed, how many agree, and why the others were not."""

from collections import Counter

from ligerdiag.outcomes import Attribution, ReplayState
from ligerdiag.report.agreement import Agreement, compute_replay_agreements
from ligerdiag.report.model import CaseReport, CheckReport
from ligerdiag.report.spans import Line, Span, Style, compute_wrapped

MAX_REASONS = 6
"""Reasons that are listed of each kind; all of them with `--verbose`, and always in JSON."""


def render_replays(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Renders the summary; empty if no replay was requested."""
    cases = [case for case in report.cases if case.replay is not None]
    if not cases:
        return ()
    states = {state: [case for case in cases if _state(case) is state] for state in ReplayState}
    done = states[ReplayState.DONE]
    counts = Counter(_compute_word(case) for case in done)
    counts |= {state.value: len(states[state]) for state in (ReplayState.TOO_LARGE, ReplayState.NOT_COVERED)}
    if states[ReplayState.FAILED]:
        counts[ReplayState.FAILED.value] = len(states[ReplayState.FAILED])
    counts[ReplayState.NOT_DONE.value] = len(states[ReplayState.NOT_DONE])
    said = [f"{counts[word]} {word}" for word in ("agree", "lossy", "disagree", "undecided") if counts[word]]
    unsaid = [f"{counts[word]} {word}" for word in ("too large", "not covered", "failed", "not done") if counts[word]]
    text = f"{len(done)} of {len(cases)}: " + "; ".join(", ".join(parts) for parts in (said, unsaid) if parts)
    lines = list(compute_wrapped((Span("replayed: ", Style.STRONG), Span(text)), width, 4))
    unsettled = [case for case in done if case.replay is not None and case.replay.reason]
    lines += _render_reasons("undecided by replay", _list_reasons(unsettled), width, verbose)
    if states[ReplayState.TOO_LARGE]:
        lines += _render_too_large(states[ReplayState.TOO_LARGE], width, verbose)
    for label, state in (
        ("not covered by replay", ReplayState.NOT_COVERED),
        ("not replayed", ReplayState.FAILED),
        ("not replayed", ReplayState.NOT_DONE),
    ):
        lines += _render_reasons(label, _list_reasons(states[state]), width, verbose)
    return tuple(lines)


def render_devices(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Renders the device runs; empty if no device was requested."""
    cases = [case for case in report.cases if case.device is not None]
    ran = [case.device for case in cases if case.device is not None and case.device.outputs]
    if not cases:
        return ()
    names = ", ".join(sorted({device.device for device in ran})) or "a device"
    text = f"{len(ran)} of {len(cases)} compared with the intended result"
    lines = list(compute_wrapped((Span(f"ran on {names}: ", Style.STRONG), Span(text)), width, 4))
    reasons = [(case, case.device.error) for case in cases if case.device is not None and case.device.error]
    lines += _render_reasons("not compared", reasons, width, verbose)
    unseen = [(case, note) for case in cases if case.device is not None for note in case.device.not_covered]
    return (*lines, *_render_reasons("not covered on the device's artifact", unseen, width, verbose))


def _state(case: CaseReport) -> ReplayState:
    return ReplayState.NOT_ASKED if case.replay is None else case.replay.state


def _compute_word(case: CaseReport) -> str:
    """Returns the word under which the case counts; a case without an output is undecided."""
    assert case.replay is not None
    said = set(compute_replay_agreements(case.outputs, case.replay, case.findings).values())
    if Agreement.DISAGREES in said:
        return "disagree"
    if any(numbers.attribution is Attribution.LOSSY for numbers in case.replay.outputs.values()):
        return "lossy"
    return "agree" if Agreement.AGREES in said else "undecided"


def _render_too_large(cases: list[CaseReport], width: int | None, verbose: bool) -> list[Line]:
    if verbose:
        return _render_reasons("too large", _list_reasons(cases), width, verbose)
    remedy = any("--full" in case.replay.reason for case in cases if case.replay is not None)
    text = "estimated above the bounds" + (": `--full` replays them" if remedy else "") + ", `-v` shows the estimates"
    return list(compute_wrapped((Span("too large: ", Style.STRONG), Span(text)), width, 4))


def _list_reasons(cases: list[CaseReport]) -> list[tuple[CaseReport, str]]:
    return [(case, case.replay.reason) for case in cases if case.replay is not None]


def _render_reasons(label: str, said: list[tuple[CaseReport, str]], width: int | None, verbose: bool) -> list[Line]:
    """Each reason once, with the first case that has it."""
    reasons: dict[str, list[str]] = {}
    for case, reason in said:
        reasons.setdefault(reason, []).append(f"`{case.id}` on {case.target}")
    lines: list[Line] = []
    for reason, places in list(reasons.items())[: None if verbose else MAX_REASONS]:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        lines += compute_wrapped((Span(f"{label}: ", Style.STRONG), Span(f"{reason} ({places[0]}{more})")), width, 4)
    if len(reasons) > MAX_REASONS and not verbose:
        lines.append((Span(f"{label}: ", Style.STRONG), Span(f"{len(reasons) - MAX_REASONS} more, see JSON")))
    return lines
