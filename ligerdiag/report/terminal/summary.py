"""Renders the end of a report: why cases could not be analysed, what was covered and replayed, and the totals."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ligerdiag.ending import Ending
from ligerdiag.model.findings import Attribution, CutLoop, ReplayState, Severity, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Noun, Status
from ligerdiag.report.agreement import (
    Agreement,
    compute_opaque_agreements,
    compute_replay_agreements,
    find_undecidable,
    is_undecidable,
)
from ligerdiag.report.relative_errors import render_figure
from ligerdiag.report.status import list_counted
from ligerdiag.report.terminal.spans import BLANK, Line, Span, Style, compute_wrapped
from ligerdiag.report.words.uncompared import explain_uncompared_reference
from ligerdiag.rules.registry import RULES, list_ids
from ligerdiag.rules.rule import BEYOND_EXPECTATION
from ligerdiag.source_text import compute_near
from ligerdiag.text import count_of, describe_names, join_words

MAX_LOG_LINES = 12
UNDEFINED = "undefined"
"""The word for a replay of a program that leaves all its outputs undefined: no numbers can decide about them."""
MAX_NOT_COVERED = 12

_ALWAYS = (Status.EXPECTED, Status.UNEXPECTED, Status.INCONCLUSIVE, Status.ERROR)
_ALWAYS_WITHOUT_EXPECTATION = (Status.CLEAN, Status.FINDINGS, Status.INCONCLUSIVE, Status.ERROR)
_TOTALS: tuple[tuple[Status, str, Style], ...] = (
    (Status.EXPECTED, "as expected", Style.GOOD),
    (Status.CLEAN, "fresh, with no expectation", Style.GOOD),
    (Status.ALLOWED, "allowed, with no expectation", Style.GOOD),
    (Status.NOTHING, "nothing to check", Style.PLAIN),
    (Status.FINDINGS, "with findings and no expectation", Style.BAD),
    (Status.UNEXPECTED, "unexpected", Style.BAD),
    (Status.INCONCLUSIVE, "inconclusive", Style.DOUBTFUL),
    (Status.DISAGREEMENT, "where schedule and numbers disagree", Style.BAD),
    (Status.ERROR, "could not analyse", Style.BAD),
    (Status.NOT_CHECKED, "not run", Style.BAD),
)
_GOOD = tuple(status for status, _, style in _TOTALS if style not in (Style.BAD, Style.DOUBTFUL))
_GROUPS = ("agree", "lossy", "disagree", UNDEFINED, "undecided")
_LEAVE_UNKNOWN = frozenset(rule.id for rule in RULES if rule.explains is Verdict.UNKNOWN)
_UNSEEN = (Status.ERROR, Status.NOT_CHECKED)


def render_troubles(cases: Iterable[CaseReport], *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns lines that say why cases are unexpected, contradict themselves or could not be analysed.

    They include the end of the worker's log. Lines that are equal on several targets of a case appear once.
    """
    groups: dict[tuple[object, ...], list[CaseReport]] = {}
    for case in cases:
        same = (case.id, case.status, case.mismatch, case.error, case.log_tail, case.disagreements)
        groups.setdefault(same, []).append(case)
    return tuple([line for group in groups.values() for line in _render_trouble(group, width, verbose)])


def name_targets(case_id: str, targets: Sequence[str]) -> str:
    """Returns a text for a case and its targets, such as "`flce[hidden]` on a100 and h100"."""
    return f"`{case_id}` on {join_words(targets)}"


def _render_trouble(group: Sequence[CaseReport], width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines on one case; empty if it has no trouble. group: its reports on targets that have the same one."""
    case, where = group[0], name_targets(group[0].id, [one.target for one in group])
    match case.status:
        case Status.UNEXPECTED:
            head = (Span("unexpected", Style.BAD), Span(f": {where}: {case.mismatch}"))
        case Status.DISAGREEMENT:
            return _render_disagreements(case, where, width)
        case Status.ERROR:
            head = (Span("could not analyse", Style.BAD), Span(f" {where}: {case.error}"))
        case _:
            return ()
    log = case.log_tail.splitlines()
    shown = log if verbose else log[-MAX_LOG_LINES:]
    lines = [*compute_wrapped(head, width, 4), *((Span("   | ", Style.FAINT), Span(line)) for line in shown)]
    return (*lines, BLANK)


def _render_disagreements(case: CaseReport, where: str, width: int | None) -> tuple[Line, ...]:
    """Returns the lines on each disagreement of the case: its evidence, and the expectation of the case if that is
    contradicted, too. where: the case and its target as text, which each first line names.
    """
    lines: list[Line] = []
    for one in case.disagreements:
        head = (Span("disagreement", Style.BAD), Span(f": {where}: "), Span(one.message, Style.STRONG))
        lines += compute_wrapped(head, width, 4)
        facts = (*one.evidence, ("help", one.help))
        column = max(len(label) for label, _ in facts) + 2
        for label, text in facts:
            fact = (Span("   "), Span(f"{label}:".ljust(column), Style.NOTE), Span(text))
            lines += compute_wrapped(fact, width, column + 3)
        lines.append(BLANK)
    if case.mismatch:
        head = (Span("unexpected", Style.BAD), Span(f": {where}: {case.mismatch}"))
        lines += [*compute_wrapped(head, width, 4), BLANK]
    return tuple(lines)


def render_counted_cases(cases: Sequence[CaseReport], width: int | None) -> tuple[Line, ...]:
    """Returns the line that counts the cases that are as expected and are not listed. Empty if there are none."""
    if not cases:
        return ()
    findings = sum(len(case.findings) for case in cases)
    number = count_of(len({case.id for case in cases}), "case")
    text = f"{number} not listed, with {count_of(findings, 'finding')} that they expect: -v lists them"
    return (*compute_wrapped((Span("as expected: ", Style.STRONG), Span(text)), width, 4), BLANK)


def render_coverage(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns the lines on coverage: on how much of the programs the verdicts are based, and which parts were not
    covered.

    The numbers are totals over all analysed cases.
    """
    analysed = [case.coverage for case in report.cases if case.status not in _UNSEEN]
    modules = len(analysed)
    covered = ", ".join(
        (
            f"{count_of(sum(c.instructions for c in analysed), 'instruction')} in {count_of(modules, 'compiled module')}",
            count_of(sum(c.kernels for c in analysed), "kernel or library call"),
            f"{count_of(sum(c.hidden_writes for c in analysed), 'write')} hidden from XLA",
            describe_recognised(analysed),
            f"XLA's memory layout for {sum(c.buffer_assignment for c in analysed)} of {count_of(modules, 'module')}",
        )
    )
    lines = list(compute_wrapped((Span("covered: ", Style.STRONG), Span(covered)), width, 4))
    missed = Counter(line for c in analysed for line in dict.fromkeys(c.not_covered))
    failed = sum(case.status is Status.ERROR for case in report.cases)
    if failed:
        missed[f"{count_of(failed, 'module')} that could not be analysed"] = 1
    skipped = sum(case.status is Status.NOT_CHECKED for case in report.cases)
    if skipped:
        missed[f"{count_of(skipped, report.noun.value)} that the run did not reach: nothing is known about them"] = 1
    if not missed:
        return (*lines, (Span("not covered: ", Style.STRONG), Span(NOTHING_LEFT_OUT)))
    for text, times in missed.most_common(MAX_NOT_COVERED):
        often = f" (in {times} modules)" if times > 1 else ""
        lines += compute_wrapped((Span("not covered: ", Style.STRONG), Span(f"{compute_near(text)}{often}")), width, 4)
    if len(missed) > MAX_NOT_COVERED:
        lines.append((Span("not covered: ", Style.STRONG), Span(f"{len(missed) - MAX_NOT_COVERED} more, see JSON")))
    return tuple(lines)


NOTHING_LEFT_OUT = "nothing was left out of the analysis"


def describe_recognised(coverages: Sequence[Coverage]) -> str:
    """Returns a phrase on how many operations of the programs were found again after XLA's optimizations."""
    tags = sum(one.tags for one in coverages)
    if not tags:
        return "no operation marked before the compile"
    found = sum(one.tags_found for one in coverages)
    return f"{found} of {count_of(tags, 'operation')} recognised after XLA's optimizations"


def render_notes(report: CheckReport, width: int | None, *, verbose: bool = False) -> tuple[Line, ...]:
    """Returns the notes of the report, as lines.

    `verbose` adds the restrictions that the sandbox could not set, and the fields of a target that XLA does not know.
    """
    lines: list[Line] = [*render_selected(report, width)]
    for note in (*report.notes, *((*report.sandbox, *report.dropped_fields) if verbose else ())):
        lines += compute_wrapped((Span("note: ", Style.NOTE), Span(note)), width, 4)
    return tuple(lines)


def render_selected(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns the line on the cases that the option `--last-failed` selected. Empty without that option."""
    if not report.selected:
        return ()
    return compute_wrapped((Span("selected: ", Style.STRONG), Span(report.selected)), width, 4)


def describe_end(report: CheckReport) -> str:
    """Returns a phrase on how the run was ended early, such as `interrupted` or `ended by SIGTERM`."""
    return "interrupted" if report.ended_by is Ending.INTERRUPT else f"ended by {report.ended_by.value}"


def describe_cut(report: CheckReport) -> str:
    """Returns a sentence on how the run was ended early, and what that means for its cases."""
    return f"{describe_end(report)}, the other {report.noun.value}s were not done"


def render_totals(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns the last line of the report.

    It has the number of cases by status, the targets, the seconds, and how the run was ended early, if it was.
    """
    if not report.cases:
        noun = report.noun.value
        nothing = f"{describe_end(report)} before any {noun} was done" if report.interrupted else "nothing was checked"
        return ((Span(nothing, Style.BAD),),)
    counts = Counter(case.status for case in report.cases)
    cases = len({case.id for case in report.cases})
    each = f" ({len(report.cases)} results)" if len(report.cases) != cases else ""
    spans = [
        Span(f"{count_of(cases, report.noun.value)} on {', '.join(report.targets)}{each}", Style.STRONG),
        Span(f"{_describe_toolchain(report)} in {report.seconds:.1f} s"),
    ]
    always = _ALWAYS if report.noun is Noun.CASE else _ALWAYS_WITHOUT_EXPECTATION
    for position, (status, words, style) in enumerate(t for t in _TOTALS if counts[t[0]] or t[0] in always):
        said = words if report.noun is Noun.CASE else words.split(",")[0].removesuffix(" and no expectation")
        spans += [
            Span(", " if position else ": "),
            Span(f"{counts[status]} {said}", style if counts[status] else Style.FAINT),
        ]
    beyond = sum(case.status in _GOOD and _goes_beyond(case) for case in report.cases)
    if beyond:
        said = f"{beyond} with a drift from the baseline or an exceeded budget"
        spans += [Span("; "), Span(said, Style.BAD)]
    if report.interrupted:
        spans.append(Span(f"; {describe_cut(report)}", Style.BAD))
    return compute_wrapped(tuple(spans), width, 4)


def _goes_beyond(case: CaseReport) -> bool:
    """Returns whether the case has a finding that counts although the case is as expected: a drift or an exceeded budget."""
    rules = list_ids(*BEYOND_EXPECTATION)
    return any(one.rule in rules and one.severity is not Severity.NOTE for one in list_counted(case.findings))


def _describe_toolchain(report: CheckReport) -> str:
    """Returns the name and versions of the toolchain, such as ` by seed (jax 0.4.34, triton 3.1.0)`; empty for the
    default toolchain.
    """
    if not report.is_other_toolchain:
        return ""
    versions = (f"{name} {report.versions[name]}" for name in ("jax", "triton") if name in report.versions)
    return f" by {report.toolchain} ({', '.join(versions)})"


MAX_REASONS = 6
"""At most this many reasons of one kind are listed; `--verbose` and JSON have all of them."""


def render_replays(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines that summarise the replays of all cases. Empty if the user asked for no replay."""
    cases = [case for case in report.cases if case.replay is not None]
    if not cases:
        return ()
    states = {state: [case for case in cases if _state(case) is state] for state in ReplayState}
    done = states[ReplayState.DONE]
    counts = Counter(_find_group(case) for case in done)
    counts |= {state.value: len(states[state]) for state in (ReplayState.TOO_LARGE, ReplayState.NOT_COVERED)}
    if states[ReplayState.FAILED]:
        counts[ReplayState.FAILED.value] = len(states[ReplayState.FAILED])
    counts[ReplayState.NOT_DONE.value] = len(states[ReplayState.NOT_DONE])
    replayed = [f"{counts[word]} {word}" for word in _GROUPS if counts[word]]
    not_replayed = [
        f"{counts[word]} {word}" for word in ("too large", "not covered", "failed", "not done") if counts[word]
    ]
    text = f"{len(done)} of {len(cases)}: " + "; ".join(", ".join(parts) for parts in (replayed, not_replayed) if parts)
    lines = list(compute_wrapped((Span("replayed: ", Style.STRONG), Span(text)), width, 4))
    explained = {id(case): reason for case in done if (reason := _explain_undecidable(case))}
    unsettled = [case for case in done if id(case) not in explained and case.replay is not None and case.replay.reason]
    lines += _render_reasons("undecided by replay", _list_reasons(unsettled), width, verbose)
    undefined = [(case, explained[id(case)]) for case in done if id(case) in explained]
    lines += _render_reasons("no replay can decide", undefined, width, verbose)
    lines += _render_cuts(done, width, verbose)
    lines += _render_orders(done, width, verbose)
    if states[ReplayState.TOO_LARGE]:
        lines += _render_too_large(states[ReplayState.TOO_LARGE], width, verbose)
    for label, state in (
        ("not covered by replay", ReplayState.NOT_COVERED),
        ("not replayed", ReplayState.FAILED),
        ("not replayed", ReplayState.NOT_DONE),
    ):
        lines += _render_reasons(label, _list_reasons(states[state]), width, verbose)
    return (*lines, *_render_opaque(cases, width, verbose))


def _render_opaque(cases: Sequence[CaseReport], width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines on the replays with opaque functions; empty if none was requested or needed."""
    tried = [(case, case.replay.opaque) for case in cases if case.replay is not None and case.replay.opaque is not None]
    if not tried:
        return ()
    counts: Counter[str] = Counter()
    for case, opaque in tried:
        said = set(compute_opaque_agreements(case.outputs, case.replay, case.findings).values())
        if opaque.state is not ReplayState.DONE:
            counts[opaque.state.value] += 1
        elif Agreement.DISAGREES in said:
            counts["disagree"] += 1
        else:
            counts["agree" if Agreement.AGREES in said else "undecided"] += 1
    done = sum(opaque.state is ReplayState.DONE for _, opaque in tried)
    words = ("agree", "disagree", "undecided", *(state.value for state in ReplayState))
    text = f"{done} of {len(tried)}: " + ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
    lines = list(compute_wrapped((Span("replayed with opaque functions: ", Style.STRONG), Span(text)), width, 4))
    for label, is_done in (("undecided with opaque functions", True), ("no opaque functions", False)):
        reasons = [
            (case, one.reason) for case, one in tried if one.reason and (one.state is ReplayState.DONE) is is_done
        ]
        lines += _render_reasons(label, reasons, width, verbose)
    return tuple(lines)


def _render_orders(cases: Sequence[CaseReport], width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines on how many legal orders of the schedules, other than their own, were replayed, and what
    changed; empty if none was requested.
    """
    tried = [(case, case.replay.orders) for case in cases if case.replay is not None and case.replay.orders is not None]
    if not tried:
        return ()
    count = sum(orders.tried for _, orders in tried)
    changes = [(case, name, change) for case, orders in tried for name, change in orders.changed.items()]
    outputs = sum(len(case.outputs) for case, orders in tried if orders.tried)
    left = sum(orders.left_out for _, orders in tried)
    text = f"{count_of(count, 'legal order')} beside the schedules' own: "
    text += f"{len(changes)} of {count_of(outputs, 'output')} changed"
    text += f"; {left} more not tried for lack of time" if left else ""
    lines = list(compute_wrapped((Span("other orders: ", Style.STRONG), Span(text)), width, 4))
    reasons = [
        (
            case,
            f"`{name}`, {case.outputs[name].value}: relative difference {render_figure(change.error)} "
            f"with the order {change.order}",
        )
        for case, name, change in changes
        if name in case.outputs
    ]
    lines += _render_reasons("changed by another order", reasons, width, verbose)
    not_covered = [(case, orders.not_covered) for case, orders in tried if orders.not_covered]
    return (*lines, *_render_reasons("not run in another order", not_covered, width, verbose))


def render_devices(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines that summarise the device runs of all cases. Empty if the user asked for none."""
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


MAX_UNCOMPARED = 5
"""Largest number of cases that a line without `--verbose` names."""


def render_uncompared(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns a line for each reason why references were not compared, with the names of the cases."""
    reasons: dict[str, dict[str, None]] = {}
    for case in report.cases:
        if reason := explain_uncompared_reference(case):
            reasons.setdefault(reason, {})[f"`{case.id}`"] = None
    lines: list[Line] = []
    for reason, found in reasons.items():
        names = list(found)
        shown = names if verbose or len(names) <= MAX_UNCOMPARED else names[:MAX_UNCOMPARED]
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        listed = f"{', '.join(shown)}{more}" if more else join_words(shown)
        text = Span(f"{reason} (reference of {listed})")
        lines += compute_wrapped((Span("reference not compared: ", Style.STRONG), text), width, 4)
    return tuple(lines)


def _state(case: CaseReport) -> ReplayState:
    return ReplayState.NOT_ASKED if case.replay is None else case.replay.state


def _find_group(case: CaseReport) -> str:
    """Returns the group in which the summary of the replays counts the case: `disagree`, `lossy`, `agree`, `undefined`
    or `undecided`, by the first of these that holds for one of its outputs; a case without outputs is `undecided`.
    """
    assert case.replay is not None
    agreements = set(compute_replay_agreements(case.outputs, case.replay, case.findings).values())
    if Agreement.DISAGREES in agreements:
        return "disagree"
    if any(numbers.attribution is Attribution.LOSSY for numbers in case.replay.outputs.values()):
        return "lossy"
    if Agreement.AGREES in agreements:
        return "agree"
    return UNDEFINED if is_undecidable(case.outputs, case.findings) else "undecided"


def _explain_undecidable(case: CaseReport) -> str:
    """Returns a clause on why no replay can decide about the outputs that the replay of this case leaves undecided: the
    program leaves them undefined, or the findings make all of them unknown. Empty if no output is undecided, or if an
    output is undecided for another reason.
    """
    undecidable = find_undecidable(case.outputs, case.findings)
    if case.outputs and not undecidable:
        return _explain_unknown(case)
    undecided = set[str]()
    if case.replay is not None:
        replayed = case.replay.outputs.items()
        undecided = {name for name, numbers in replayed if numbers.attribution is Attribution.UNDECIDED}
    if not is_undecidable(case.outputs, case.findings) and (not undecided or not undecided <= undecidable.keys()):
        return ""
    names = [name for name in undecidable if name in undecided] or list(undecidable)
    reasons = dict.fromkeys(f"{undecidable[name].message} ({undecidable[name].rule})" for name in names)
    have = "has" if len(names) == 1 else "have"
    return f"{describe_names(names, tuple(case.outputs))} {have} no defined value, as {join_words(list(reasons))}"


def _explain_unknown(case: CaseReport) -> str:
    """Returns a clause with the findings that make all outputs of the case unknown; empty unless every output is
    unknown because of a finding.
    """
    found = [one for one in case.findings if one.rule in _LEAVE_UNKNOWN]
    unknown = {name for one in found for name in one.outputs if case.outputs.get(name) is Verdict.UNKNOWN}
    if unknown != set(case.outputs):
        return ""
    names = "the output is" if len(unknown) == 1 else "the outputs are"
    reasons = dict.fromkeys(f"{one.message} ({one.rule})" for one in found)
    return f"{names} unknown whatever the numbers are, as {join_words(list(reasons))}"


def _render_cuts(cases: list[CaseReport], width: int | None, verbose: bool) -> list[Line]:
    """Returns the lines on the loops that replay cut short."""
    reasons = [
        (case, f"{describe_cut_loop(one)}, as the whole takes long; `--full` replays it")
        for case in cases
        for one in (() if case.replay is None else case.replay.cut)
    ]
    return _render_reasons("replayed in part", reasons, width, verbose)


def describe_cut_loop(loop: CutLoop) -> str:
    """Returns how much of a loop was replayed, such as `2 of 32 iterations of the loop at train.py:82`."""
    place = f"the loop `{loop.instruction}`" if loop.line is None else f"the loop at {loop.line.file}:{loop.line.line}"
    return f"{loop.ran} of {loop.iterations} iterations of {place}"


def _render_too_large(cases: list[CaseReport], width: int | None, verbose: bool) -> list[Line]:
    if verbose:
        return _render_reasons("too large", _list_reasons(cases), width, verbose)
    remedy = any("--full" in case.replay.reason for case in cases if case.replay is not None)
    text = "estimated above the bounds" + (": `--full` replays them" if remedy else "") + ", `-v` shows the estimates"
    return list(compute_wrapped((Span("too large: ", Style.STRONG), Span(text)), width, 4))


def _list_reasons(cases: list[CaseReport]) -> list[tuple[CaseReport, str]]:
    return [(case, case.replay.reason) for case in cases if case.replay is not None]


def _render_reasons(
    label: str, case_reasons: list[tuple[CaseReport, str]], width: int | None, verbose: bool
) -> list[Line]:
    """Returns the lines with each reason once, and the first case that has it. label: the kind of reason."""
    reasons: dict[str, list[str]] = {}
    for case, reason in case_reasons:
        reasons.setdefault(reason, []).append(f"`{case.id}` on {case.target}")
    lines: list[Line] = []
    for reason, places in list(reasons.items())[: None if verbose else MAX_REASONS]:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        lines += compute_wrapped((Span(f"{label}: ", Style.STRONG), Span(f"{reason} ({places[0]}{more})")), width, 4)
    if len(reasons) > MAX_REASONS and not verbose:
        lines.append((Span(f"{label}: ", Style.STRONG), Span(f"{len(reasons) - MAX_REASONS} more, see JSON")))
    return lines
