"""Chooses the subject of a page, which is the kernel call that the page is about, and lists the findings of the page.

The subject is the call of the worst finding about a kernel. Findings that are not allowed are worse than allowed ones;
then the severity decides, then the worst output that the finding reaches, then the number of outputs. If outputs are
wrong, only findings that reach the worst outputs count, allowed or not. Without such a finding, the subject is the
kernel that overwrites the buffer with the worst reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.model.findings import VERDICT_ORDER, Finding, SourceLine, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import AccessKind, ReadKind, ScheduleView
from ligerdiag.report.causes import compute_causes, describe_origin, is_about_write
from ligerdiag.report.html.environment import WRONG_READS, compute_worst_verdict
from ligerdiag.report.html.prose import Part, compute_parts
from ligerdiag.report.html.source_view import SourcePlace, compute_source_places, list_unplaced
from ligerdiag.report.relative_errors import render_error, summarise_numbers
from ligerdiag.report.rule_page import compute_rule_address
from ligerdiag.report.terminal.finding_text import MAX_READS, limit_reads
from ligerdiag.rules.registry import RULES, list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.source_excerpt import load_unchanged_text
from ligerdiag.source_text import compute_near, compute_place, load_source_text
from ligerdiag.text import FEW, join_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """One finding in the form in which the page shows it."""

    rule: str
    page: str
    """The address of the rule's page on the web; empty if it is unknown."""
    severity: str
    message: tuple[Part, ...]
    places: tuple[SourcePlace, ...]
    """The lines of the user's source that the finding is about, the kernel call first; empty if none is known."""
    unplaced: tuple[str, ...]
    """Names of the instructions that read and have no source line."""
    facts: tuple[tuple[str, tuple[Part, ...]], ...]
    """(label, sentence) pairs: the evidence."""
    help: tuple[Part, ...]
    allowed: str
    """The reason of the suppression that allows the finding, and the place of the suppression; empty if the finding is
    not allowed.
    """
    follows: tuple[Part, ...]
    """The rule and the message of the finding of which this finding is a consequence; empty if there is none."""


def compute_articles(case: CaseReport, steps: Mapping[str, int]) -> tuple[Article, ...]:
    """Returns the findings of the page, the worst first and allowed ones last.

    steps: maps the name of each instruction to the id of its step, as `compute_step_ids` does.
    """
    return tuple(_make(finding, case, steps) for finding in list_worst_first(case))


def list_worst_first(case: CaseReport) -> list[Finding]:
    """Returns the causes of the case's findings, the worst first and allowed ones last.

    They are sorted by severity, then by the worst verdict on their outputs, then by the number of their outputs. A
    consequence comes right after its cause, and the two are sorted by the worse one of them.
    """

    def weigh(cause: Finding) -> tuple[bool, int, int, int]:
        verdicts = [VERDICT_ORDER.index(case.outputs[name]) for name in cause.outputs if name in case.outputs]
        is_allowed = cause.suppressed is not None
        return is_allowed, -cause.severity.weight, -max(verdicts, default=-1), -len(verdicts)

    families: list[list[Finding]] = []
    for cause in compute_causes(case.findings, tuple(case.outputs), case.source_roots):
        if cause.follows_from is None:
            families.append([cause])
        else:
            families[-1].append(cause)
    families.sort(key=lambda family: min(map(weigh, family)))
    return [cause for origin, *others in families for cause in (origin, *sorted(others, key=weigh))]


def _compute_page(rule_id: str) -> str:
    return next((compute_rule_address(rule) for rule in RULES if rule.id == rule_id), "")


def _make(finding: Finding, case: CaseReport, steps: Mapping[str, int]) -> Article:
    allowed = finding.suppressed
    stores = () if finding.call is None else finding.call.stores
    roots = case.source_roots
    facts = [("store", f"{compute_place(place)}  {load_source_text(place, roots)}".rstrip()) for place in stores]
    facts += [(label, compute_near(text)) for label, text in limit_reads(finding.evidence, MAX_READS)]
    if "replay" not in dict(facts) and case.replay is not None:
        said: dict[str, list[str]] = {}
        numbers = {name: case.replay.outputs[name] for name in finding.outputs if name in case.replay.outputs}
        if len(numbers) > FEW:
            facts.append(("replay", summarise_numbers(numbers)))
        for name in finding.outputs if len(numbers) <= FEW else ():
            if name in case.replay.outputs:
                verdict = case.outputs.get(name) if is_about_write(finding) else None
                said.setdefault(render_error(case.replay.outputs[name], verdict), []).append(f"`{name}`")
        facts += [("replay", f"{join_words(names)}: {text}") for text, names in said.items()]
    return Article(
        rule=finding.rule,
        page=_compute_page(finding.rule),
        severity=finding.severity.value,
        message=compute_parts(finding.message, steps),
        places=compute_source_places(finding, roots),
        unplaced=list_unplaced(finding),
        facts=tuple((label, compute_parts(text, steps)) for label, text in facts),
        help=compute_parts(compute_near(finding.help), steps),
        follows=compute_parts(describe_origin(finding), steps),
        allowed="" if allowed is None else f"{allowed.reason} ({allowed.kind.value}, {allowed.where})",
    )


_HIDDEN_WRITES = list_ids(RuleKind.HIDDEN_WRITE)
"""Ids of the rules about a hidden write itself: their findings give the line of the kernel call, other findings perhaps
that of a reader.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The kernel call that a page is about. A field is empty if it is unknown."""

    kernel: str = ""
    finding: Finding | None = None
    buffer: int | None = None
    """Index, in `ScheduleView.buffers`, of the buffer that the call overwrites."""
    place: str = ""
    """The line of the call as `file:line`."""
    function: str = ""
    source: str = ""
    """The text of the call's line; empty if the file cannot be read."""


def find_subject(case: CaseReport) -> Subject:
    """Returns the kernel call that is the subject of the case's page. All fields are empty if no kernel is known."""
    finding, view = _find_finding(case), case.view
    buffer = None if view is None else _find_buffer(view, finding)
    kernel = finding.kernel if finding is not None else ""
    if not kernel and view is not None and buffer is not None:
        kernel = view.buffers[buffer].kernel
    line = _find_line(case, finding, buffer)
    return Subject(
        kernel=kernel,
        finding=finding,
        buffer=buffer,
        place="" if line is None else compute_place(line),
        function="" if line is None else line.function,
        source="" if line is None else load_unchanged_text(line, case.source_roots),
    )


def list_buffers(view: ScheduleView, subject: Subject) -> tuple[int, ...]:
    """Returns the indices of all mutated buffers (those that a kernel overwrites behind XLA's back).

    The buffer of the page's kernel call comes first, then the others, those with the worst reads first. subject: the
    page's kernel call.
    """
    numbers = range(len(view.buffers))
    return tuple(sorted(numbers, key=lambda number: (number != subject.buffer, _weigh_reads(view, number))))


def _find_finding(case: CaseReport) -> Finding | None:
    worst = compute_worst_verdict(case.outputs.values())
    is_right = worst in (None, Verdict.FRESH, Verdict.LATENT)
    reached = {name for name, verdict in case.outputs.items() if verdict is worst}
    for finding in list_worst_first(case):
        if not finding.kernel:
            continue
        if reached.intersection(finding.outputs) or (is_right and finding.suppressed is None):
            return finding
    return None


def _find_buffer(view: ScheduleView, finding: Finding | None) -> int | None:
    """Returns the index of the buffer that the finding's call overwrites, else of one that its kernel overwrites;
    without a finding, of the buffer with the worst reads.
    """
    numbers = list_buffers(view, Subject())
    if finding is None:
        return numbers[0] if numbers else None
    names = {step.id: step.name.removeprefix("%") for step in view.steps}
    writes = [access for access in view.accesses if access.kind is AccessKind.HIDDEN_WRITE]
    calls = {access.buffer for access in writes if names.get(access.step) in finding.instructions[:1]}
    same = [n for n in numbers if view.buffers[n].kernel == finding.kernel]
    ranked = sorted(same, key=lambda n: (n not in calls, view.buffers[n].operand != finding.operand))
    return ranked[0] if ranked else None


def _find_line(case: CaseReport, finding: Finding | None, buffer: int | None) -> SourceLine | None:
    """Returns the user's line that calls the kernel: that of the finding, else that of the step that writes the buffer;
    None if neither is known.
    """
    if finding is not None:
        own = finding.instructions[:1]
        calls = [f for f in case.findings if f.rule in _HIDDEN_WRITES and own and f.instructions[:1] == own]
        line = next((f.source for f in (*calls, finding) if f.source is not None), None)
        if line is not None:
            return line
    if case.view is None or buffer is None:
        return None
    writes = {a.step for a in case.view.accesses if a.kind is AccessKind.HIDDEN_WRITE and a.buffer == buffer}
    return next((step.source for step in case.view.steps if step.id in writes), None)


def _weigh_reads(view: ScheduleView, buffer: int) -> int:
    kinds = {access.read for access in view.accesses if access.buffer == buffer} - {ReadKind.NONE}
    return next((place for place, kind in enumerate(WRONG_READS) if kind in kinds), len(WRONG_READS))
