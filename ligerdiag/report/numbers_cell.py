"""The cell of replay and device, beside a case's verdicts: one word a case, or one line an output."""

from collections.abc import Mapping, Sequence
from math import isnan

from ligerdiag.findings import Finding, Verdict
from ligerdiag.outcomes import Attribution, Replay, ReplayState
from ligerdiag.report.agreement import (
    Agreement,
    compute_device_agreements,
    compute_replay_agreements,
    contradicts_replay,
    find_racing,
    find_unreached,
)
from ligerdiag.report.model import CaseReport
from ligerdiag.report.numbers import compute_worst, render_figure
from ligerdiag.report.spans import Line, Span, Style, compute_padded, compute_width, compute_wrapped, verdict_style

_STATES: Mapping[ReplayState, Style] = {
    ReplayState.TOO_LARGE: Style.FAINT,
    ReplayState.NOT_ASKED: Style.FAINT,
    ReplayState.NOT_COVERED: Style.DOUBTFUL,
    ReplayState.FAILED: Style.BAD,
    ReplayState.NOT_DONE: Style.DOUBTFUL,
}
_GAP = Span("  ")


def render_replay_word(case: CaseReport) -> Line:
    """`agrees`, `agrees 3 of 4`, `lossy 0.25`, `DISAGREES`, `undecided`, `too large` and so on; empty without replay."""
    return () if case.replay is None else render_agreement_word(case.outputs, case.replay, case.findings)


def render_agreement_word(outputs: Mapping[str, Verdict], replay: Replay, findings: Sequence[Finding]) -> Line:
    """Returns the same for verdicts and findings by themselves."""
    if replay.state is not ReplayState.DONE:
        return (Span(replay.state.value, _STATES[replay.state]),)
    lossy = {name: compute_lost(replay, name) for name, n in replay.outputs.items() if is_lossy(n.attribution)}
    return _render_word(compute_replay_agreements(outputs, replay, findings), lossy)


def render_device_word(case: CaseReport) -> Line:
    """Returns the same of a device; empty when none was asked."""
    device = case.device
    if device is None:
        return ()
    if device.error:
        return (Span("not run", Style.BAD),)
    racing = find_racing(case.findings)
    agreements = compute_device_agreements(device, racing, find_unreached(case.findings, case.replay))
    agreements |= {
        name: Agreement.DISAGREES
        for name, output in device.outputs.items()
        if name not in racing and contradicts_replay(output)
    }
    lossy = {name: compute_worst(o.errors) for name, o in device.outputs.items() if is_lossy(o.attribution)}
    word = _render_word(agreements, lossy)
    worse = find_worse(case)
    return (*word, Span(f", {len(worse)} STALE", Style.BAD)) if worse else word


def find_worse(case: CaseReport) -> tuple[str, ...]:
    """Outputs that are right by the schedule for the described GPU, and wrong by the one for the device's own."""
    if case.device is None:
        return ()
    wrong = (Verdict.STALE, Verdict.CLOBBERED)
    return tuple(
        name
        for name, word in case.device.verdicts.items()
        if Verdict(word) in wrong and case.outputs.get(name) not in wrong
    )


def is_lossy(attribution: Attribution) -> bool:
    """Returns whether precision was lost."""
    return attribution is Attribution.LOSSY


def compute_lost(replay: Replay, name: str) -> float:
    """Relative error of a lossy output: against the reference where that is worse, as program order loses it too."""
    error, reference = replay.outputs[name].error, replay.reference.get(name, 0.0)
    return reference if isnan(error) or reference > error else error


def render_output_lines(case: CaseReport, *, width: int | None, label: str) -> tuple[Line, ...]:
    """`input STALE  replay stale 1.2e+04  device stale 1.2e+04`, one line an output; empty without numbers."""
    replay, device = case.replay, case.device
    if (replay is None or not replay.outputs) and (device is None or not device.outputs):
        return ()
    rows: list[list[Line]] = []
    for name, verdict in case.outputs.items():
        row: list[Line] = [(Span(name),), (Span(render_verdict(verdict), verdict_style(verdict)),)]
        if replay is not None and name in replay.outputs:
            numbers = replay.outputs[name]
            error = compute_lost(replay, name) if is_lossy(numbers.attribution) else numbers.error
            row.append((Span(f"replay {numbers.attribution.value} {render_figure(error)}"),))
            if numbers.rows:
                row.append((Span(f"{numbers.rows_fresh} of {numbers.rows} rows fresh, {numbers.rows_stale} stale"),))
        if device is not None and name in device.outputs:
            output = device.outputs[name]
            error = render_figure(compute_worst(output.errors))
            own = Verdict(device.verdicts[name]) if name in device.verdicts else verdict
            there = "" if own is verdict else f", {render_verdict(own)} by its own schedule"
            row.append((Span(f"device {output.attribution.value} {error}{there}"),))
        rows.append(row)
    widths = [max(compute_width(row[n]) for row in rows if n < len(row)) for n in range(max(map(len, rows)))]
    lines: list[Line] = []
    for row in rows:
        spans: list[Span] = [Span(f"    {label}")]
        for number, cell in enumerate(row):
            last = number == len(row) - 1
            spans += [*(cell if last else compute_padded(cell, widths[number])), *(() if last else (_GAP,))]
        lines += compute_wrapped(tuple(spans), width, 6)
    return tuple(lines)


def render_verdict(verdict: Verdict) -> str:
    """Returns the verdict's word, in capitals if it needs the user's attention."""
    return "STALE" if verdict is Verdict.STALE else verdict.value


def _render_word(agreements: Mapping[str, Agreement], lossy: Mapping[str, float]) -> Line:
    said = list(agreements.values())
    agreeing = said.count(Agreement.AGREES)
    if Agreement.DISAGREES in said:
        return (Span("DISAGREES", Style.BAD),)
    if lossy:
        return (Span(f"lossy {render_figure(compute_worst(tuple(lossy.values())))}", Style.WARNING),)
    if not agreeing:
        return (Span("undecided", Style.DOUBTFUL),)
    return (Span("agrees" if agreeing == len(said) else f"agrees {agreeing} of {len(said)}", Style.GOOD),)
