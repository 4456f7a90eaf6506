"""Renders the report, and the comparison of two reports, for GitHub: as Markdown for the page of a job or a comment, and as
workflow commands.

In Markdown the cases that need attention come first, and everything else is folded. All text of the report is in code
spans or code blocks, so that nothing in a name acts as markup. Where the page would be longer than a limit, it shows
fewer rows and findings and says how many it leaves out.

Workflow commands make annotations, messages that GitHub shows beside source lines. Expected and allowed results are
counted and not annotated. Each finding is one annotation, with all cases and targets that have it. GitHub shows ten
annotations of each severity for a step, so the most severe ones come first.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ligerdiag.model.findings import Finding, Severity, SourceLine, SuppressionKind
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.case_places import Repository, find_case_place
from ligerdiag.report.causes import FindingGroup, compute_causes, compute_places, compute_shared_groups, list_families
from ligerdiag.report.compared.comparison_words import (
    COLUMNS,
    TOLERATED,
    describe_counts,
    describe_finding,
    describe_sides,
    list_cells,
    list_changes,
    list_new_findings,
    list_notes,
)
from ligerdiag.report.compared.report_comparison import ComparedCase, Grade, ReportComparison
from ligerdiag.report.status import compute_allowed_outputs, compute_excuse, list_allowed, list_unexcused
from ligerdiag.report.terminal.case_table import STATUS_TEXTS, render_counted
from ligerdiag.report.terminal.diagnostics import list_troubles
from ligerdiag.report.terminal.finding_text import (
    render_finding_plain,
    render_group,
    render_trouble_plain,
    render_unused,
)
from ligerdiag.report.terminal.spans import BLANK, Line, compute_text
from ligerdiag.report.terminal.summary import (
    describe_cut,
    render_coverage,
    render_notes,
    render_selected,
    render_totals,
    render_uncompared,
)
from ligerdiag.report.words.memory_words import (
    is_small,
    list_void,
    list_worst_first,
    render_milliseconds,
    summarise_memory,
)
from ligerdiag.rules.registry import RULES
from ligerdiag.source_text import join_place, parse_place, strip_folders
from ligerdiag.text import compute_printable, count_of, list_first, render_bytes


def render_code(text: str, *, in_table: bool = False) -> str:
    """Returns `text` as a Markdown code span on one line. Empty for an empty text.

    in_table: escapes `|`, which would end the cell.
    """
    bare = compute_printable(text)
    if not bare.strip():
        return ""
    if in_table and "|" in bare:
        return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in bare)}</code>"
    fence = "`" * (_longest_run(bare) + 1)
    blank = " " if bare[0] in "` " or bare[-1] in "` " else ""
    return f"{fence}{blank}{bare}{blank}{fence}"


def render_block(lines: list[str], language: str = "text") -> str:
    """Returns the lines as a fenced code block. Its fence is longer than any fence in the lines.

    language: the name of the language, for colours.
    """
    bare = [compute_printable(line) for line in lines]
    fence = "`" * max(3, max((_longest_run(line) for line in bare), default=0) + 1)
    return "\n".join((f"{fence}{language}", *bare, fence))


def render_table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a Markdown table. The cells must be Markdown already, and are not escaped."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


HEADING = "## ligerdiag"
_CAPS = (None, 500, 100, 20, 3, 0)
"""Numbers of rows and findings to show at most; the next one is tried if the page is still too long. None is no limit."""
_QUIET = frozenset({Status.EXPECTED, Status.ALLOWED, Status.CLEAN, Status.NOTHING})


def render_markdown(report: CheckReport, *, exit_code: int, meaning: str = "", limit: int | None = None) -> str:
    """Returns the report as a Markdown page with a final newline.

    meaning: the exit code in words. limit: greatest size of the page in bytes of UTF-8.
    """
    page = ""
    for cap in _CAPS:
        page = _render_page(report, exit_code, meaning, cap)
        if limit is None or len(page.encode()) <= limit:
            return page
    return page.encode()[: limit or 0].decode(errors="ignore")


def _render_page(report: CheckReport, exit_code: int, meaning: str, cap: int | None) -> str:
    watched = [case for case in report.cases if needs_attention(case)]
    parts = [
        HEADING,
        render_code(_text(render_totals(report, None))),
        f"Exit code {exit_code}: {meaning}." if meaning else f"Exit code {exit_code}.",
    ]
    if watched:
        parts += ["### Needs attention", *_render_cases(watched, cap, with_reasons=True)]
    parts += _render_findings(report, watched, cap)
    if len(watched) < len(report.cases):
        table = _render_cases(report.cases, cap)
        parts += [_folded(f"All {report.noun.value}s ({len(report.cases)})", table)]
    parts += _render_memory(report, cap)
    parts += _render_excused(report)
    unused = render_unused(report, None)
    if unused:
        parts += ["### Suppressions to look at", *_capped([render_code(_text((line,))) for line in unused], cap, _list)]
    parts += [_folded("What was covered", [render_block([compute_text(line) for line in _about(report)])])]
    return "\n\n".join(part for part in parts if part) + "\n"


def needs_attention(case: CaseReport) -> bool:
    """Returns whether the page shows the case unfolded.

    It does if the case has a trouble or a finding that counts. It also does for every status except as expected, allowed,
    clean and nothing to check.
    """
    return case.status not in _QUIET or bool(list_troubles(case)) or any(list_unexcused(case))


def _render_cases(cases: Sequence[CaseReport], cap: int | None, *, with_reasons: bool = False) -> list[str]:
    heading = ("case", "target", "status", "outputs", *(("why",) if with_reasons else ()))
    rows = [
        (
            render_code(case.id, in_table=True),
            render_code(case.target, in_table=True),
            STATUS_TEXTS[case.status],
            render_code(_describe_outputs(case), in_table=True),
            *((_describe_reasons(case),) if with_reasons else ()),
        )
        for case in cases
    ]
    return _capped(rows, cap, lambda shown: render_table(heading, shown))


def _describe_outputs(case: CaseReport) -> str:
    return compute_text(render_counted(case.outputs, compute_allowed_outputs(case.outputs, case.findings)))


def _describe_reasons(case: CaseReport) -> str:
    """Returns why a case needs attention: its troubles, and the rules whose findings count."""
    reasons = [trouble.message for trouble in list_troubles(case)]
    rules = ", ".join(dict.fromkeys(finding.rule for finding in list_unexcused(case)))
    return render_code("; ".join((*reasons, *((rules,) if rules else ()))), in_table=True)


def _render_findings(report: CheckReport, watched: Sequence[CaseReport], cap: int | None) -> list[str]:
    """Returns the section of the findings that count, each once for all cases that have it, and of the evidence of
    troubles. watched: the cases that `needs_attention` selects. cap: most findings and troubles to show; None for all.
    """
    several = len(report.targets) > 1
    groups = compute_shared_groups(replace(case, findings=list_unexcused(case)) for case in watched)

    def render(group: FindingGroup) -> list[str]:
        lines: Sequence[Line] = render_group(group, width=None, several_targets=several, verbose=False)
        return [compute_text(line) for line in lines if line != BLANK]

    blocks = [render_block([line for group in family for line in render(group)]) for family in list_families(groups)]
    for case in watched:
        for trouble in list_troubles(case):
            if trouble.evidence:
                where = f"{trouble.kind.value}: {case.id} on {case.target}: {trouble.message}"
                blocks.append(render_block([where, *(f"   {label}: {text}" for label, text in trouble.evidence)]))
    return ["### Findings", *_capped(blocks, cap, "\n\n".join)] if blocks else []


def _render_memory(report: CheckReport, cap: int | None) -> list[str]:
    """Returns the section about memory: a sentence, and a folded table of the cases whose memory is worth a line, the
    worst case first; empty if there is no such case. cap: most rows of the table; None for all.
    """
    cases = list_worst_first([case for case in report.cases if case.memory is not None and not is_small(case.memory)])
    if not cases:
        return []
    heading = ("case", "target", "peak", "arguments", "temporaries", "copied a call", "at least", "void donations")
    rows = [_list_memory_cells(case, case.memory) for case in cases if case.memory is not None]
    table = _capped(rows, cap, lambda shown: render_table(heading, shown))
    title = f"Peak, copies and donations ({count_of(len(cases), report.noun.value)})"
    return [f"Memory: {render_code(summarise_memory(cases))}", _folded(title, table)]


def _list_memory_cells(case: CaseReport, memory: MemoryUse) -> tuple[str, ...]:
    least = memory.copy_milliseconds
    void = list_void(memory)
    return (
        render_code(case.id, in_table=True),
        render_code(case.target, in_table=True),
        *(render_bytes(size) for size in (memory.peak, memory.arguments, memory.temporaries, memory.copied)),
        render_milliseconds(least) if least else "",
        f"{len(void)} of {len(memory.donations)}, {render_bytes(sum(one.bytes for one in void))}" if void else "",
    )


def _render_excused(report: CheckReport) -> list[str]:
    """Returns a line on how many findings do not count, because they are allowed or expected; empty if there are none."""

    def count(select: Callable[[CaseReport], Sequence[Finding]]) -> int:
        return sum(len(compute_causes(select(case), tuple(case.outputs))) for case in report.cases)

    allowed = count(lambda case: list_allowed(case.findings))
    excused = count(lambda case: [finding for finding in case.findings if compute_excuse(case, finding)])
    expected = excused - allowed
    words = [
        *([f"{count_of(expected, 'finding')} in cases that are as expected"] if expected else []),
        *([f"{count_of(allowed, 'finding')} allowed by suppressions with a reason"] if allowed else []),
    ]
    return [f"Not listed: {' and '.join(words)}."] if words else []


def _about(report: CheckReport) -> tuple[Line, ...]:
    covered = (*render_coverage(report, None), *render_uncompared(report, width=None, verbose=True))
    return (*(covered if report.cases else ()), *render_notes(report, None))


def _capped[T](items: list[T], cap: int | None, render: Callable[[list[T]], str]) -> list[str]:
    """Returns the first `cap` items as Markdown, followed by a line with the number of the others."""
    shown = items if cap is None else items[:cap]
    missing = len(items) - len(shown)
    return [*([render(shown)] if shown else []), *([f"… and {missing} more, not shown here."] if missing else [])]


def _list(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _folded(title: str, parts: list[str]) -> str:
    return "\n\n".join((f"<details><summary>{title}</summary>", *parts, "</details>")) if any(parts) else ""


def _text(lines: Sequence[Line]) -> str:
    return " ".join(compute_text(line) for line in lines)


_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_NAMES = {rule.id: rule.name for rule in RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A message that GitHub shows beside a line of source."""

    severity: Severity
    title: str
    lines: tuple[str, ...]
    place: SourceLine | None = None


def render_github(report: CheckReport, *, repository: Repository) -> str:
    """Returns the report as workflow commands for GitHub, with a final newline.

    There is one line for each annotation, and a last line with the totals.
    """
    annotations = sorted(list_annotations(report), key=lambda annotation: -annotation.severity.weight)
    commands = [_render(annotation, repository) for annotation in annotations]
    totals = [compute_text(line) for line in render_totals(report, None)]
    selected = [compute_text(line) for line in render_selected(report, None)]
    return "\n".join((*commands, *selected, *totals)) + "\n"


def list_annotations(report: CheckReport) -> Iterator[Annotation]:
    """Yields the annotations of a report: first the troubles, then findings that count, then unused suppressions.

    Troubles are in the order of the cases.
    """
    several = len(report.targets) > 1
    for case in report.cases:
        place = find_case_place(case)
        for trouble in list_troubles(case):
            lines = render_trouble_plain(trouble, compute_places((case,), several))
            title = trouble.kind.value.replace("-", " ")
            yield Annotation(severity=trouble.severity, title=title, lines=lines, place=place)
    for group in compute_shared_groups(replace(case, findings=list_unexcused(case)) for case in report.cases):
        finding = group.finding
        yield Annotation(
            severity=finding.severity,
            title=f"{finding.rule} {_NAMES.get(finding.rule, '')}".rstrip(),
            lines=render_finding_plain(finding, compute_places(group.cases, several)),
            place=finding.source or find_case_place(group.cases[0]),
        )
    if report.interrupted:
        yield Annotation(severity=Severity.ERROR, title="interrupted", lines=(describe_cut(report),))
    for one in report.unused_suppressions:
        text = compute_printable(f"{one.where}: `{f'allow {one.rule}'.rstrip()}` {one.message}")
        place = parse_place(one.where) if one.kind is SuppressionKind.IN_CODE else None
        yield Annotation(severity=Severity.WARNING, title="unused suppression", lines=(text,), place=place)


def _render(annotation: Annotation, repository: Repository) -> str:
    properties: list[tuple[str, str]] = []
    lines: Sequence[str] = annotation.lines
    place = annotation.place
    if place is not None:
        file = repository.find(place.file)
        if file:
            properties.append(("file", file))
            if place.line > 0:
                properties += [("line", str(place.line)), ("endLine", str(place.line))]
        else:
            lines = (*lines, compute_printable(f"at: {join_place(place.file, place.line)}"))
    properties.append(("title", annotation.title))
    words = ",".join(f"{name}={_escape_property(value)}" for name, value in properties)
    return f"::{_COMMANDS[annotation.severity]} {words}::{_escape('\n'.join(lines))}"


def _escape(text: str) -> str:
    """Returns a text escaped as data of a workflow command:
    https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(compute_printable(text)).replace(":", "%3A").replace(",", "%2C")


_CODE_SPAN = re.compile(r"`([^`]*)`")
_BARE_NAME = re.compile(r"%\w(?:[\w.$\-]*[\w$])?(?:\{[\d,]*\})?|[\w\-]+\.py:\d+|\{[\d,]*\}")
"""A name that messages have without backticks: an instruction, a line of a file, the place of a value in a tuple."""
_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:'()%+=\-]*")
_LINK = re.compile(r"www\.|:[^ ]")


def render_prose(text: str) -> str:
    """Returns a sentence as Markdown, with each name in backticks as a code span.

    If anything outside of the backticks could act as markup, a link or a mention, the whole sentence becomes one code
    span.
    """
    bare = strip_folders(compute_printable(text))
    parts = _CODE_SPAN.split(bare)
    words, names = [_BARE_NAME.split(part) for part in parts[::2]], [_BARE_NAME.findall(part) for part in parts[::2]]
    if not all(is_harmless(word) for some in words for word in some):
        return render_code(bare)
    plain = [
        "".join(map("".join, zip(some, (*map(render_code, found), ""), strict=True)))
        for some, found in zip(words, names, strict=True)
    ]
    coded = [*map(render_code, parts[1::2]), ""]
    return "".join(map("".join, zip(plain, coded, strict=True)))


def is_harmless(text: str) -> bool:
    """Returns whether Markdown leaves the text unchanged, so that it needs no escapes."""
    return bool(_PLAIN.fullmatch(text)) and not _LINK.search(text)


MOST_ROWS = 100
MOST_CHANGES = 8
"""The last column of a row lists at most this many changes."""
MOST_FINDINGS = 20
MOST_CASES = 5
"""The block of a finding names at most this many cases."""
_MARKS = {Grade.WORSE: "❌", Grade.MIXED: "⚠️", Grade.BETTER: "✅", Grade.UNKNOWN: "❔", Grade.SAME: ""}


def render_comparison_markdown(comparison: ReportComparison) -> str:
    """Returns the comparison as a Markdown table under a heading, with a final newline."""
    changed = [case for case in comparison.cases if not case.is_same]
    shown = changed[:MOST_ROWS]
    parts = [f"{HEADING} compare", f"{describe_counts(comparison)}. {render_code(describe_sides(comparison))}"]
    if shown:
        parts.append(render_table(("", "case", "target", *COLUMNS, "changes"), [_make_row(case) for case in shown]))
    if len(changed) > len(shown):
        parts.append(f"… and {len(changed) - len(shown)} more, not shown here.")
    parts += _render_new_findings(comparison)
    notes = [*map(render_code, list_notes(comparison)), *([TOLERATED] if shown else [])]
    parts += ["\n".join(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(parts) + "\n"


def _render_new_findings(comparison: ReportComparison) -> list[str]:
    """Returns the section about findings that only the new report has, each as a code block with its remedy; empty if
    there are none.
    """
    found = list_new_findings(comparison)
    blocks = [
        render_block(
            [
                strip_folders(describe_finding(finding)),
                *([f"   help: {strip_folders(finding.help)}"] if finding.help else []),
                f"   in:   {list_first(names, MOST_CASES)}",
            ]
        )
        for finding, names in found[:MOST_FINDINGS]
    ]
    rest = len(found) - len(blocks)
    more = [f"… and {rest} more new findings, not shown here."] if rest else []
    return ["### New findings", *blocks, *more] if found else []


def _make_row(case: ComparedCase) -> tuple[str, ...]:
    changes = [strip_folders(f"{label}: {text}") for label, text in list_changes(case)]
    more = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    return (
        f"{_MARKS[case.grade]} {case.grade.value}".strip(),
        render_code(case.id, in_table=True),
        render_code(case.target, in_table=True),
        *(render_code(cell, in_table=True) for cell in list_cells(case)),
        "<br>".join([*(render_code(one, in_table=True) for one in changes[:MOST_CHANGES]), *more]),
    )
