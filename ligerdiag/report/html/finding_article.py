"""A cause as data for a page: the fact, the place with the user's line, the evidence, one remedy."""

from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.findings import VERDICT_ORDER, Finding, Severity
from ligerdiag.report.causes import compute_causes
from ligerdiag.report.finding_text import MAX_READS, limit_reads
from ligerdiag.report.folded_names import FEW
from ligerdiag.report.html.prose import Part, compute_parts
from ligerdiag.report.model import CaseReport
from ligerdiag.report.numbers import render_error, summarise_numbers
from ligerdiag.report.source_text import compute_near, compute_place, load_source_text

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """One finding."""

    rule: str
    severity: str
    message: tuple[Part, ...]
    place: str
    """`file:line`, empty where it is not known."""
    function: str
    line: int
    source: str
    """The user's line, where the file is here."""
    facts: tuple[tuple[str, tuple[Part, ...]], ...]
    """(label, sentence) pairs."""
    help: tuple[Part, ...]
    allowed: str
    """The suppression and its reason; empty if the finding is not allowed."""


def compute_articles(case: CaseReport, steps: Mapping[str, int]) -> tuple[Article, ...]:
    """Returns the articles, the worst first, those that are allowed last. steps: name of an instruction to the id of
    its step."""
    return tuple(_make(finding, case, steps) for finding in list_worst_first(case))


def list_worst_first(case: CaseReport) -> list[Finding]:
    """Returns the causes of a page by severity, then by the worst output that each reaches and by how many; allowed
    ones last."""

    def weigh(cause: Finding) -> tuple[bool, int, int, int]:
        verdicts = [VERDICT_ORDER.index(case.outputs[name]) for name in cause.outputs if name in case.outputs]
        is_allowed = cause.suppressed is not None
        return is_allowed, _SEVERITIES.index(cause.severity), -max(verdicts, default=-1), -len(verdicts)

    return sorted(compute_causes(case.findings, tuple(case.outputs), case.source_roots), key=weigh)


def _make(finding: Finding, case: CaseReport, steps: Mapping[str, int]) -> Article:
    source, allowed = finding.source, finding.suppressed
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
                said.setdefault(render_error(case.replay.outputs[name]), []).append(f"`{name}`")
        facts += [("replay", f"{' and '.join(names)}: {text}") for text, names in said.items()]
    return Article(
        rule=finding.rule,
        severity=finding.severity.value,
        message=compute_parts(finding.message, steps),
        place="" if source is None else compute_place(source),
        function="" if source is None else source.function,
        line=0 if source is None else source.line,
        source="" if source is None else load_source_text(source, roots),
        facts=tuple((label, compute_parts(text, steps)) for label, text in facts),
        help=compute_parts(finding.help, steps),
        allowed="" if allowed is None else f"{allowed.reason} ({allowed.kind.value}, {allowed.where})",
    )
