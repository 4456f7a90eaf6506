"""Renders how the numbers of a case compare with its verdicts, and lists the troubles of the case.

A trouble is something that needs attention and is no finding: a verdict that contradicts the expectation or that no
finding explains, an undecided output, a contradiction between verdict and numbers, or a case that could not be
analysed. Each kind of trouble has an id that never changes, as rules have.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isnan

from ligerdiag.model.findings import Attribution, Finding, Replay, ReplayState, Severity, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.agreement import (
    Agreement,
    compute_device_agreements,
    compute_opaque_agreements,
    compute_replay_agreements,
    contradicts_replay,
    find_unreached,
    find_unsteady,
    is_undecidable,
)
from ligerdiag.report.relative_errors import compute_worst, is_blind, render_figure
from ligerdiag.report.status import HAZARDOUS, compute_allowed_outputs
from ligerdiag.report.terminal.spans import (
    Line,
    Span,
    Style,
    compute_padded,
    compute_width,
    compute_wrapped,
    verdict_style,
)
from ligerdiag.report.terminal.summary import MAX_LOG_LINES, UNDEFINED
from ligerdiag.text import join_words

_STATES: Mapping[ReplayState, Style] = {
    ReplayState.TOO_LARGE: Style.FAINT,
    ReplayState.NOT_ASKED: Style.FAINT,
    ReplayState.NOT_COVERED: Style.DOUBTFUL,
    ReplayState.FAILED: Style.BAD,
    ReplayState.NOT_DONE: Style.DOUBTFUL,
}
_GAP = Span("  ")


def render_replay_word(case: CaseReport) -> Line:
    """Returns how the replay of the case compares with the verdicts, in a few words. Empty if there was no replay.

    The text is `agrees`, `agrees 3 of 4`, `lossy 0.25`, `DISAGREES`, `undecided`, `undefined`, `too large` or similar. If
    the most expensive loop was cut short, the text says so: `agrees (2 of 32)` means that 2 of its 32 iterations ran.
    `agrees, 1 cannot tell` means that the numbers of one latent output would be the same if it were stale. `agrees, 2
    unknown` means that two more outputs are unknown, about which no numbers say anything. `undefined` means that the
    program leaves all its outputs undefined, so that no numbers can decide.
    """
    return () if case.replay is None else render_agreement_word(case.outputs, case.replay, case.findings)


def render_agreement_word(outputs: Mapping[str, Verdict], replay: Replay, findings: Sequence[Finding]) -> Line:
    """Returns how a replay compares with verdicts, as one word such as `agrees` or `DISAGREES`.

    The words are those of `render_replay_word`.
    """
    opaque = _render_opaque(outputs, replay, findings)
    if replay.state is not ReplayState.DONE:
        return (Span(replay.state.value, _STATES[replay.state]), *opaque)
    lossy = {
        name: compute_lost(replay, name) for name, n in replay.outputs.items() if n.attribution is Attribution.LOSSY
    }
    agreements = compute_replay_agreements(outputs, replay, findings)
    if is_undecidable(outputs, findings) and Agreement.DISAGREES not in agreements.values():
        return (Span(UNDEFINED, Style.DOUBTFUL),)
    known = {name: one for name, one in agreements.items() if outputs.get(name) is not Verdict.UNKNOWN}
    word = _render_word(known, lossy)
    unknown = len(agreements) - len(known) if known else 0
    return (
        *word,
        *([Span(f", {unknown} unknown", Style.DOUBTFUL)] if unknown else []),
        *_render_blind(outputs, replay),
        *[Span(f" ({one.ran} of {one.iterations})", Style.FAINT) for one in replay.cut[:1]],
        *opaque,
    )


def _render_opaque(outputs: Mapping[str, Verdict], replay: Replay, findings: Sequence[Finding]) -> Line:
    """Returns how the replay with opaque functions compares with the verdicts, such as `, opaque agrees`; empty if there
    is none, or if it has nothing to add: it could not be done, or it agrees as the replay itself does.
    """
    if replay.opaque is None or replay.opaque.state is not ReplayState.DONE:
        return ()
    agreements = compute_opaque_agreements(outputs, replay, findings)
    said = set(agreements.values())
    if replay.state is ReplayState.DONE and Agreement.AGREES in said and Agreement.DISAGREES not in said:
        return ()
    return (Span(", opaque "), *_render_word(agreements, {}))


def _render_blind(outputs: Mapping[str, Verdict], replay: Replay) -> Line:
    """Returns a text with the number of latent outputs whose numbers agree and show nothing, because the stale numbers
    are the same; empty if there are none.
    """
    latent = [name for name in replay.outputs if outputs.get(name) is Verdict.LATENT]
    blind = [name for name in latent if is_blind(replay.outputs[name])]
    if not blind:
        return ()
    number = "" if len(blind) == len(replay.outputs) else f"{len(blind)} "
    return (Span(f", {number}cannot tell", Style.DOUBTFUL),)


def render_device_word(case: CaseReport) -> Line:
    """Returns how the numbers of a device compare with the verdicts of the case, such as `agrees` or `DISAGREES`.

    Empty if nothing ran on a device.
    """
    device = case.device
    if device is None:
        return ()
    if device.error:
        return (Span("not run", Style.BAD),)
    unsteady = find_unsteady(case.findings, device)
    agreements = compute_device_agreements(device, unsteady, find_unreached(case.findings, case.replay))
    agreements |= {
        name: Agreement.DISAGREES
        for name, output in device.outputs.items()
        if name not in unsteady and contradicts_replay(output)
    }
    lossy = {name: compute_worst(o.errors) for name, o in device.outputs.items() if o.attribution is Attribution.LOSSY}
    word = _render_word(agreements, lossy)
    worse = find_worse(case)
    return (*word, Span(f", {len(worse)} STALE", Style.BAD)) if worse else word


def find_worse(case: CaseReport) -> tuple[str, ...]:
    """Returns the names of the outputs that are wrong on this machine's device and not wrong on the case's target.

    XLA made one schedule for the device, which ran, and one for the target, a GPU that is only described. Empty without a
    device run.
    """
    if case.device is None:
        return ()
    return tuple(
        name
        for name, word in case.device.verdicts.items()
        if Verdict(word).is_wrong and not case.outputs.get(name, Verdict.UNKNOWN).is_wrong
    )


def compute_lost(replay: Replay, name: str) -> float:
    """Returns how far a lossy output is off: the larger of two relative errors.

    One compares the output with program order (a run of the operations in the order in which they are written), the other
    with the case's reference. The first alone does not suffice, because the result in program order may be lossy itself.
    """
    error, reference = replay.outputs[name].error, replay.reference.get(name, 0.0)
    return reference if isnan(error) or reference > error else error


def render_output_lines(case: CaseReport, *, width: int | None, label: str) -> tuple[Line, ...]:
    """Returns a line with verdict, attribution and error for each output.

    An example is `input STALE replay stale 1.2e+04 device stale 1.2e+04`. Empty if no output has numbers.
    label: a text before each line, such as the target.
    """
    replay, device = case.replay, case.device
    has_numbers = replay is not None and (replay.outputs or (replay.opaque is not None and replay.opaque.outputs))
    if not has_numbers and (device is None or not device.outputs):
        return ()
    rows: list[list[Line]] = []
    for name, verdict in case.outputs.items():
        row: list[Line] = [(Span(name),), (Span(render_verdict(verdict), verdict_style(verdict)),)]
        if replay is not None and name in replay.outputs:
            numbers = replay.outputs[name]
            error = compute_lost(replay, name) if numbers.attribution is Attribution.LOSSY else numbers.error
            row.append((Span(f"replay {numbers.attribution.value} {render_figure(error)}"),))
            if numbers.rows:
                row.append((Span(f"{numbers.rows_fresh} of {numbers.rows} rows fresh, {numbers.rows_stale} stale"),))
        if replay is not None and replay.opaque is not None and name in replay.opaque.outputs:
            numbers = replay.opaque.outputs[name]
            row.append((Span(f"opaque {numbers.attribution.value} {render_figure(numbers.error)}"),))
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
    """Returns the text of a verdict, in capitals if it needs attention."""
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


class TroubleKind(StrEnum):
    """Kinds of troubles. The value of a kind is its id in reports. An id never changes and is never used again."""

    UNEXPECTED = "unexpected-verdict"
    UNEXPLAINED = "unexplained-verdict"
    INCONCLUSIVE = "inconclusive"
    DISAGREEMENT = "disagreement"
    NOT_ANALYSED = "not-analysed"
    NO_NUMBERS = "no-numbers"
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class TroublePage:
    """The explanation of a kind of trouble. Each text is one line in lower case, without a final stop."""

    severity: Severity
    summary: str
    help: str


PAGES: Mapping[TroubleKind, TroublePage] = {
    TroubleKind.UNEXPECTED: TroublePage(
        severity=Severity.ERROR,
        summary="the verdicts of a case contradict its expectation; an unexpectedly right case does, too",
        help="fix the program, or change the expectation of the case",
    ),
    TroubleKind.UNEXPLAINED: TroublePage(
        severity=Severity.ERROR,
        summary="an output is stale, clobbered or latent, but no finding says where",
        help="read the schedule around the kernels that overwrite an operand: `ligerdiag inspect` on the artifact",
    ),
    TroubleKind.INCONCLUSIVE: TroublePage(
        severity=Severity.WARNING,
        summary="something could not be decided, so it does not count as right",
        help=(
            "read the lines `not covered`; declare the effects of each kernel that cannot be analysed; declare the write of"
            " a kernel if its readers cannot be found again after XLA's optimizations"
        ),
    ),
    TroubleKind.DISAGREEMENT: TroublePage(
        severity=Severity.ERROR,
        summary="the schedule and the numbers contradict each other",
        help=(
            "trust neither answer about this output: JAX, XLA, the kernel or ligerdiag has a bug; see the evidence for the"
            " causes that remain"
        ),
    ),
    TroubleKind.NOT_ANALYSED: TroublePage(
        severity=Severity.ERROR,
        summary="a case could not be analysed: input or compile error, abort, timeout",
        help="read the end of the log; without an analysis, nothing is known about this case",
    ),
    TroubleKind.NO_NUMBERS: TroublePage(
        severity=Severity.ERROR,
        summary="a replay or a run on a device was tried and died",
        help="read the reason why it died; the verdicts still hold, but no execution has confirmed them",
    ),
    TroubleKind.NOT_CHECKED: TroublePage(
        severity=Severity.WARNING,
        summary="the run was ended before a case's turn: by Ctrl-C, SIGTERM, its time limit or --exitfirst",
        help="repeat the run with more time or fewer cases: the cache has the artifacts that are compiled already",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A problem of a case that needs attention and is no finding, such as a verdict that contradicts the expectation."""

    kind: TroubleKind
    severity: Severity
    message: str
    """One line in lower case, without a final stop."""
    outputs: tuple[str, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()
    """(label, sentence) pairs that support the message."""


def list_troubles(case: CaseReport) -> tuple[Trouble, ...]:
    """Returns the troubles of a case, the most severe first."""
    return tuple(
        trouble
        for find in (
            _find_error,
            _find_disagreements,
            _find_mismatch,
            _find_unexplained,
            _find_dead,
            _find_undecided,
            _find_unchecked,
        )
        for trouble in find(case)
    )


def _find_error(case: CaseReport) -> Iterator[Trouble]:
    if case.status is Status.ERROR:
        log = case.log_tail.splitlines()[-MAX_LOG_LINES:]
        message = case.error or "could not analyse"
        yield _make(TroubleKind.NOT_ANALYSED, message, evidence=tuple(("log", line) for line in log))


def _find_unchecked(case: CaseReport) -> Iterator[Trouble]:
    if case.status is Status.NOT_CHECKED:
        yield _make(TroubleKind.NOT_CHECKED, case.error or "not run")


def _find_disagreements(case: CaseReport) -> Iterator[Trouble]:
    for one in case.disagreements:
        yield _make(TroubleKind.DISAGREEMENT, one.message, outputs=(one.output,), evidence=one.evidence)
    if case.status is Status.DISAGREEMENT and not case.disagreements:
        yield _make(TroubleKind.DISAGREEMENT, "schedule and numbers contradict each other")


def _find_mismatch(case: CaseReport) -> Iterator[Trouble]:
    if case.mismatch or case.status is Status.UNEXPECTED:
        yield _make(TroubleKind.UNEXPECTED, case.mismatch or "the verdicts contradict the expectation of the case")


def _find_unexplained(case: CaseReport) -> Iterator[Trouble]:
    """Yields a trouble for each verdict that no finding explains: such a verdict counts against a case without an
    expectation although no finding says where it comes from.
    """
    if case.expected is not None:
        return
    allowed = compute_allowed_outputs(case.outputs, case.findings)
    named = {name for finding in case.findings for name in finding.outputs}
    for name, verdict in case.outputs.items():
        if verdict in HAZARDOUS and name not in named and name not in allowed:
            yield _make_unexplained(name, verdict, f"`{name}` is {verdict.value}, and no finding says where")
    if case.device is None:
        return
    for name, word in case.device.verdicts.items():
        verdict = Verdict(word)
        if verdict in HAZARDOUS and case.outputs.get(name) is not verdict and allowed.get(name) is not verdict:
            there = case.outputs.get(name, Verdict.UNKNOWN)
            message = f"`{name}` is {verdict.value} on {case.device.device}, and {there.value} for {case.target}"
            yield _make_unexplained(name, verdict, message)


def _find_dead(case: CaseReport) -> Iterator[Trouble]:
    for death in () if case.replay is None else case.replay.deaths:
        yield _make(TroubleKind.NO_NUMBERS, f"not replayed: {death}")
    if case.device is not None and case.device.died:
        yield _make(TroubleKind.NO_NUMBERS, f"not run on {case.device.device}: {case.device.error}")


def _find_undecided(case: CaseReport) -> Iterator[Trouble]:
    """Yields a trouble about the unknown outputs that the case does not expect, or about incomplete coverage if that
    decided the status.
    """
    unknown = tuple(name for name, verdict in case.outputs.items() if verdict is Verdict.UNKNOWN)
    if case.status is not Status.INCONCLUSIVE and (not unknown or case.status is Status.EXPECTED):
        return
    names = join_words([f"`{name}`" for name in unknown])
    evidence = tuple(("not covered", line) for line in case.coverage.not_covered)
    message = f"{names} could not be decided" if unknown else "not everything could be decided"
    yield _make(TroubleKind.INCONCLUSIVE, message, outputs=unknown, evidence=evidence)


def _make(
    kind: TroubleKind, message: str, *, outputs: tuple[str, ...] = (), evidence: tuple[tuple[str, str], ...] = ()
) -> Trouble:
    return Trouble(kind=kind, severity=PAGES[kind].severity, message=message, outputs=outputs, evidence=evidence)


def _make_unexplained(name: str, verdict: Verdict, message: str) -> Trouble:
    severity = Severity.WARNING if verdict is Verdict.LATENT else Severity.ERROR
    return Trouble(kind=TroubleKind.UNEXPLAINED, severity=severity, message=message, outputs=(name,))
