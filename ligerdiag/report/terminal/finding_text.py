"""Renders findings, in the style of rustc on a terminal and as plain lines elsewhere, and renders notes on
suppressions.
"""

from collections.abc import Iterable, Sequence

from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.causes import (
    FindingGroup,
    compute_causes,
    compute_places,
    describe_origin,
    is_about_write,
    list_marked_places,
    list_rules,
)
from ligerdiag.report.relative_errors import render_error, summarise_numbers
from ligerdiag.report.status import list_allowed
from ligerdiag.report.terminal.diagnostics import PAGES, Trouble
from ligerdiag.report.terminal.spans import BLANK, Line, Span, Style, compute_width, compute_wrapped, severity_style
from ligerdiag.source_excerpt import load_excerpt, load_unchanged_text
from ligerdiag.source_text import compute_near, compute_place
from ligerdiag.text import FEW, compute_cells, compute_printable, join_words

MAX_NUMBERS = 3
"""One finding quotes at most this many figures of a replay."""
_READS = ("read", "before", "after", "copy")
"""The labels that evidence about reads can have."""
MAX_READS = 5
"""For each label about reads, such as `read` or `copy`, a finding shows at most this many lines of evidence; "N more
such lines" replaces the rest.
"""
MAX_STORES = 3
_INDENT = Span("   ")
MAX_PLACES = 6
"""A finding lists at most this many ids of cases; "and N more" replaces the others. `--verbose` and JSON list all."""


def render_group(group: FindingGroup, *, width: int | None, several_targets: bool, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines about one finding and the cases that have it, with a blank line at the end.

    The lines are indented if the finding is a consequence of another finding. several_targets: whether to name the
    targets of each case.
    """
    finding = group.finding
    if finding.follows_from is None:
        return (*_render_facts(group, (), width, several_targets=several_targets, verbose=verbose), BLANK)
    inner = None if width is None else max(1, width - len(_INDENT.text))
    words = (Span("follows from it: ", Style.NOTE),)
    lines = _render_facts(group, words, inner, several_targets=several_targets, verbose=verbose)
    return (*[(_INDENT, *line) for line in lines], BLANK)


def _render_facts(
    group: FindingGroup, words: Line, width: int | None, *, several_targets: bool, verbose: bool
) -> tuple[Line, ...]:
    """Returns the lines of one finding. words: the text that its first line begins with."""
    finding = group.finding
    head = (
        *words,
        Span(f"{finding.severity.value}[{finding.rule}]", severity_style(finding.severity)),
        Span(": "),
        Span(finding.message, Style.STRONG),
    )
    lines = list(compute_wrapped(head, width, 4))
    lines += _render_sources(finding, group.cases[0].source_roots, width=width, verbose=verbose)
    facts = [
        (label, compute_near(text)) for label, text in limit_reads(finding.evidence, None if verbose else MAX_READS)
    ]
    if len({case.target for case in group.cases}) > 1:  # a time is that of one target
        facts = [(label, f"{text}, on {group.cases[0].target}" if label == "time" else text) for label, text in facts]
    numbers = _render_numbers(finding, group.cases, verbose=verbose)
    if numbers and "replay" not in dict(finding.evidence):
        facts.append(("replay", numbers))
    if finding.help:
        facts.append(("help", compute_near(finding.help)))
    facts.append(("in", _render_places(group, several_targets=several_targets, verbose=verbose)))
    column = max(len(label) for label, _ in facts) + 2
    for label, text in facts:
        lines += compute_wrapped(
            (Span("   "), Span(f"{label}:".ljust(column), Style.NOTE), Span(text)), width, column + 3
        )
    if verbose:
        lines += [(Span("   artifact: ", Style.NOTE), Span(case.artifact)) for case in group.cases[:1] if case.artifact]
    return tuple(lines)


def _render_sources(finding: Finding, roots: Sequence[str], *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns the lines of the user's source that the finding is about: the kernel call, the stores in the kernel, and
    the first read. A line below the call and one below the read mark the expression; the read is left out if its file
    cannot be read.
    """
    marked = list_marked_places(finding)
    stores = () if finding.call is None else finding.call.stores
    plain = [one for one in (finding.source, *stores[: None if verbose else MAX_STORES]) if one is not None]
    labels = {one.line: one.label for one in marked if not one.is_read and one.label}
    lines: list[Line] = []
    for source in dict.fromkeys((*labels, *plain)):
        label = labels.get(source, "")
        place = next((one.line for one in marked if one.line == source), source)
        lines += _render_marked(place, label, roots, width) or _render_source(source, roots, width)
    for one in marked:
        if one.is_read and (shown := _render_marked(one.line, one.label, roots, width)):
            return (*lines, *shown)
    return tuple(lines)


def _render_source(source: SourceLine, roots: Sequence[str], width: int | None) -> tuple[Line, ...]:
    place = (Span("  --> ", Style.FAINT), Span(compute_place(source)))
    text = load_unchanged_text(source, roots)
    return compute_wrapped((*place, Span("  "), Span(text, Style.FAINT)) if text else place, width, 6)


def _render_marked(source: SourceLine, label: str, roots: Sequence[str], width: int | None) -> tuple[Line, ...]:
    """Returns the place, its line, and a mark under the expression with the label beside it; empty without label or
    excerpt, or if the line is wider than the terminal.
    """
    excerpt = load_excerpt(source, roots, around=0) if label else None
    if excerpt is None or excerpt.start == excerpt.end:
        return ()
    place = (Span("  --> ", Style.FAINT), Span(compute_place(source)))
    bar = Span("   | ", Style.FAINT)
    code = (bar, Span(excerpt.line))
    if width is not None and compute_width(code) > width:
        return ()
    before, marked = excerpt.line[: excerpt.start], excerpt.line[excerpt.start : excerpt.end]
    mark = (bar, Span(" " * compute_cells(before)), Span("^" * compute_cells(marked), Style.NOTE), Span(f" {label}"))
    return (place, code, mark)


def limit_reads(evidence: Sequence[tuple[str, str]], limit: int | None) -> list[tuple[str, str]]:
    """Returns the evidence with at most `limit` lines for each label about reads, such as `read` or `copy`.

    If lines are left out, one more line gives their number. None is no limit.
    """
    kept = list(evidence)
    for name in _READS if limit is not None else ():
        places = [number for number, (label, _) in enumerate(kept) if label == name]
        if limit is not None and len(places) > limit:
            dropped = frozenset(places[limit - 1 :])
            more = (name, f"{len(dropped)} more such lines: -v lists them")
            kept = [
                more if n == places[limit - 1] else pair
                for n, pair in enumerate(kept)
                if n not in dropped - {places[limit - 1]}
            ]
    return kept


def _render_numbers(finding: Finding, cases: Sequence[CaseReport], *, verbose: bool) -> str:
    """Returns the replayed numbers of the outputs that the finding reaches, from the first case that has a replay;
    empty if no case has one.
    """
    replayed = next((case for case in cases if case.replay is not None and case.replay.outputs), None)
    if replayed is None or replayed.replay is None:
        return ""
    if len(finding.outputs) > FEW and not verbose:
        shown = summarise_numbers({n: v for n, v in replayed.replay.outputs.items() if n in finding.outputs})
        return shown if replayed is cases[0] or not shown else f"in `{replayed.id}`: {shown}"
    names_by_text: dict[str, list[str]] = {}
    for name in finding.outputs:
        if name in replayed.replay.outputs:
            verdict = replayed.outputs.get(name) if is_about_write(finding) else None
            text = render_error(replayed.replay.outputs[name], verdict)
            names_by_text.setdefault(text, []).append(f"`{name}`")
    several = len(finding.outputs) > 1
    texts = [f"{join_words(names)} {text}" if several else text for text, names in names_by_text.items()]
    shown = "; ".join(texts[: None if verbose else MAX_NUMBERS])
    return shown if replayed is cases[0] or not shown else f"in `{replayed.id}`: {shown}"


def _render_places(group: FindingGroup, *, several_targets: bool, verbose: bool) -> str:
    places = compute_places(group.cases, several_targets)
    if verbose or len(places) <= MAX_PLACES:
        return ", ".join(places)
    return f"{', '.join(places[: MAX_PLACES - 1])} and {len(places) - MAX_PLACES + 1} more"


def render_finding_plain(finding: Finding, places: Sequence[str]) -> tuple[str, ...]:
    """Returns the message, the evidence and the remedy of a finding, and the cases that have it, one printable line each.

    places: the texts for the cases, such as `id (a100, h100)`.
    """
    evidence = [(label, compute_near(text)) for label, text in limit_reads(finding.evidence, MAX_READS)]
    stores = [("store", compute_place(place)) for place in (finding.call.stores if finding.call is not None else ())]
    few = [("outputs", ", ".join(finding.outputs))] if len(finding.outputs) <= FEW else []
    origin = [("follows from", describe_origin(finding))]
    facts = [*origin, *stores[:MAX_STORES], *evidence, ("help", compute_near(finding.help)), *few]
    return _render(finding.message, (*facts, ("in", ", ".join(places))))


def render_trouble_plain(trouble: Trouble, places: Sequence[str]) -> tuple[str, ...]:
    facts = [*trouble.evidence, ("help", PAGES[trouble.kind].help), ("outputs", ", ".join(trouble.outputs))]
    return _render(trouble.message, (*facts, ("in", ", ".join(places))))


def _render(message: str, facts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    lines = (message, *(f"{label}: {text}" for label, text in facts if text))
    return tuple(compute_printable(line) for line in lines)


def render_allowed(report: CheckReport, *, width: int | None, verbose: bool) -> tuple[Line, ...]:
    """Returns a line with the number of allowed findings, or a line for each of them with `verbose`. Empty if there are
    none.
    """
    allowed = [
        (finding, case)
        for case in report.cases
        for finding in compute_causes(list_allowed(case.findings), tuple(case.outputs), case.source_roots)
    ]
    if not allowed:
        return ()
    if not verbose:
        number = f"{len(allowed)} finding{'s' if len(allowed) > 1 else ''}"
        rules = ", ".join(dict.fromkeys(sorted(rule for finding, _ in allowed for rule in list_rules(finding))))
        text = f"{number} of {rules}, each with a reason: -v lists them"
        return compute_wrapped((Span("allowed: ", Style.STRONG), Span(text)), width, 4)
    members: dict[Finding, list[CaseReport]] = {}
    for finding, case in allowed:
        key = next((f for f in members if _is_same(f, finding)), finding)
        members.setdefault(key, []).append(case)
    lines: list[Line] = []
    for finding, cases in members.items():
        lines += _render_one(finding, cases, width=width, several_targets=len(report.targets) > 1)
    return (*lines, BLANK)


def render_unused(report: CheckReport, width: int | None) -> tuple[Line, ...]:
    """Returns a note for each suppression that allowed nothing or gives no reason."""
    lines: list[Line] = []
    for one in report.unused_suppressions:
        words = f"allow {one.rule}".rstrip()
        head = (Span("suppression", Style.NOTE), Span(f" {one.where}: `{words}` {one.message}"))
        lines += compute_wrapped(head, width, 4)
    return tuple(lines)


def _is_same(one: Finding, other: Finding) -> bool:
    return (one.rule, one.message, one.source, one.suppressed) == (
        other.rule,
        other.message,
        other.source,
        other.suppressed,
    )


def _render_one(
    finding: Finding, cases: list[CaseReport], *, width: int | None, several_targets: bool
) -> tuple[Line, ...]:
    suppressed = finding.suppressed
    assert suppressed is not None
    head = (Span("allowed: ", Style.STRONG), Span(f"{finding.rule} {finding.message}"))
    place = "" if finding.source is None else compute_place(finding.source)
    lines = list(compute_wrapped(head, width, 4))
    if place:
        lines.append((Span("  --> ", Style.FAINT), Span(place)))
    facts = (
        ("reason", suppressed.reason),
        ("by", suppressed.where),
        ("in", ", ".join(compute_places(cases, several_targets))),
    )
    for label, text in facts:
        lines += compute_wrapped((Span("   "), Span(f"{label}:".ljust(8), Style.NOTE), Span(text)), width, 11)
    return tuple(lines)
