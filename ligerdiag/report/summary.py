"""The end of a report: what went wrong with looking, what was covered and what was not, and the totals."""

from collections import Counter

from ligerdiag.ending import Ending
from ligerdiag.report.model import CaseReport, CheckReport, Noun, Status
from ligerdiag.report.spans import BLANK, Line, Span, Style, compute_wrapped
from ligerdiag.words import count_of

MAX_LOG_LINES = 12
MAX_NOT_COVERED = 12

_ALWAYS = (Status.EXPECTED, Status.UNEXPECTED, Status.INCONCLUSIVE, Status.ERROR)
_ALWAYS_WITHOUT_EXPECTATION = (Status.CLEAN, Status.FINDINGS, Status.INCONCLUSIVE, Status.ERROR)
DISAGREEMENT_HELP = "one of the two is wrong, and that is a bug in ligerdiag: trust neither for this output"
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
    (Status.NOT_CHECKED, "not checked", Style.BAD),
)
_UNSEEN = (Status.ERROR, Status.NOT_CHECKED)


def render_trouble(case: CaseReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Renders why a case is unexpected, contradictory or could not be analysed, with the end of the worker's log; else
    empty."""
    where = f"`{case.id}` on {case.target}"
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
    """Renders each with both sides' evidence; adds the expectation if that is contradicted too."""
    lines: list[Line] = []
    for one in case.disagreements:
        head = (Span("disagreement", Style.BAD), Span(f": {where}: "), Span(one.message, Style.STRONG))
        lines += compute_wrapped(head, width, 4)
        facts = (*one.evidence, ("help", DISAGREEMENT_HELP))
        column = max(len(label) for label, _ in facts) + 2
        for label, text in facts:
            fact = (Span("   "), Span(f"{label}:".ljust(column), Style.NOTE), Span(text))
            lines += compute_wrapped(fact, width, column + 3)
        lines.append(BLANK)
    if case.mismatch:
        head = (Span("unexpected", Style.BAD), Span(f": {where}: {case.mismatch}"))
        lines += [*compute_wrapped(head, width, 4), BLANK]
    return tuple(lines)


def render_coverage(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Renders the basis of the verdicts, over all analysed cases, and every kind of thing that was not followed."""
    analysed = [case.coverage for case in report.cases if case.status not in _UNSEEN]
    modules = len(analysed)
    covered = ", ".join(
        (
            f"{count_of(sum(c.instructions for c in analysed), 'instruction')} in {count_of(modules, 'module')}",
            count_of(sum(c.kernels for c in analysed), "custom call"),
            count_of(sum(c.hidden_writes for c in analysed), "hidden write"),
            f"{sum(c.tags_found for c in analysed)} of {sum(c.tags for c in analysed)} tags found again",
            f"buffer assignment of {count_of(sum(c.buffer_assignment for c in analysed), 'module')}",
        )
    )
    lines = list(compute_wrapped((Span("covered: ", Style.STRONG), Span(covered)), width, 4))
    missed = Counter(line for c in analysed for line in dict.fromkeys(c.not_covered))
    failed = sum(case.status is Status.ERROR for case in report.cases)
    if failed:
        missed[f"{count_of(failed, 'module')} that could not be analysed"] = 1
    skipped = sum(case.status is Status.NOT_CHECKED for case in report.cases)
    if skipped:
        missed[f"{count_of(skipped, report.noun.value)} that the run was ended before: nothing is known of them"] = 1
    if not missed:
        return (*lines, (Span("not covered: ", Style.STRONG), Span("nothing that the analysis met and does not model")))
    for text, times in missed.most_common(MAX_NOT_COVERED):
        often = f" (in {times} modules)" if times > 1 else ""
        lines += compute_wrapped((Span("not covered: ", Style.STRONG), Span(f"{text}{often}")), width, 4)
    if len(missed) > MAX_NOT_COVERED:
        lines.append((Span("not covered: ", Style.STRONG), Span(f"{len(missed) - MAX_NOT_COVERED} more, see JSON")))
    return tuple(lines)


def render_notes(report: CheckReport, width: int | None, *, verbose: bool = False) -> tuple[Line, ...]:
    """Renders the notes on what was found and is no entry of the report; with `verbose`, what the sandbox lacks,
    too."""
    lines: list[Line] = []
    for note in (*report.notes, *(report.sandbox if verbose else ())):
        lines += compute_wrapped((Span("note: ", Style.NOTE), Span(note)), width, 4)
    return tuple(lines)


def describe_end(report: CheckReport) -> str:
    """Returns how a run that was cut short was ended: `interrupted`, `ended by SIGTERM`."""
    return "interrupted" if report.ended_by is Ending.INTERRUPT else f"ended by {report.ended_by.value}"


def describe_cut(report: CheckReport) -> str:
    """Returns the same, with what that means."""
    return f"{describe_end(report)}, the other {report.noun.value}s were not done"


def render_totals(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns the last line: how many of what, where and how long; and what cut it short."""
    if not report.cases:
        noun = report.noun.value
        nothing = f"{describe_end(report)} before any {noun} was done" if report.interrupted else "nothing was checked"
        return ((Span(nothing, Style.BAD),),)
    counts = Counter(case.status for case in report.cases)
    cases = len({case.id for case in report.cases})
    spans = [
        Span(f"{count_of(cases, report.noun.value)} on {', '.join(report.targets)}", Style.STRONG),
        Span(f"{_describe_toolchain(report)} in {report.seconds:.1f} s"),
    ]
    always = _ALWAYS if report.noun is Noun.CASE else _ALWAYS_WITHOUT_EXPECTATION
    for position, (status, words, style) in enumerate(t for t in _TOTALS if counts[t[0]] or t[0] in always):
        said = words if report.noun is Noun.CASE else words.split(",")[0].removesuffix(" and no expectation")
        spans += [
            Span(", " if position else ": "),
            Span(f"{counts[status]} {said}", style if counts[status] else Style.FAINT),
        ]
    if report.interrupted:
        spans.append(Span(f"; {describe_cut(report)}", Style.BAD))
    return compute_wrapped(tuple(spans), width, 4)


def _describe_toolchain(report: CheckReport) -> str:
    """` by seed (jax 0.4.34, triton 3.1.0)`; nothing for the usual one."""
    if not report.is_other_toolchain:
        return ""
    versions = (f"{name} {report.versions[name]}" for name in ("jax", "triton") if name in report.versions)
    return f" by {report.toolchain} ({', '.join(versions)})"
