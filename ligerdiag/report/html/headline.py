"""The headline, for a reader with ten seconds: which outputs are wrong, why in words without HLO, and the place.

1. Outputs that the schedule makes wrong come first, then those that are wrong by the numbers, then unknown ones.
2. If every output is fresh or lucky, an error comes before that, and a warning beside it: a headline is green only if
   no finding and no wrong number stands below.
3. All three lines are about the page's subject, and about no other kernel.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ligerdiag.findings import Finding, Severity, Verdict
from ligerdiag.report.allowed import list_counted
from ligerdiag.report.html.finding_article import list_worst_first
from ligerdiag.report.html.headline_reasons import MAX_NAMES, NO_KERNEL, PLAIN, compute_detail, compute_plain
from ligerdiag.report.html.marks import compute_worst_verdict
from ligerdiag.report.html.output_chips import NumbersWord, compute_numbers_words
from ligerdiag.report.html.subject import Subject, find_subject
from ligerdiag.report.model import CaseReport, Status
from ligerdiag.report.summary import DISAGREEMENT_HELP
from ligerdiag.words import count_of, join_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Three lines, and the sign beside them; names stand in backticks."""

    sign: str
    """Name of a verdict, or `error`, `warning`, `nothing`."""
    count: str
    """Such as `1 of 4 outputs is wrong (stale): bias`; without backticks."""
    plain: str
    """The reason, for readers new to HLO."""
    detail: str = ""
    """The instruction; empty if it is unknown."""


_ONE = {
    Verdict.FRESH: "is fresh",
    Verdict.LATENT: "is right by luck",
    Verdict.UNKNOWN: "could not be decided",
    Verdict.CLOBBERED: "is wrong (clobbered)",
    Verdict.STALE: "is wrong (stale)",
}
_MANY = {verdict: saying.replace("is ", "are ") for verdict, saying in _ONE.items()}
_NO_LUCK = (Verdict.CLOBBERED, Verdict.UNKNOWN)
"""Verdicts that are mentioned beside a worse one."""
_KEEPS = {
    Verdict.FRESH: "the schedule keeps to the program's own order",
    Verdict.LATENT: "this schedule happens to keep to the program's own order",
    Verdict.UNKNOWN: "what the schedule does could not be decided for every output",
}
_WRONG_NUMBERS = (
    "{keeps}, and the numbers are wrong all the same: "
    "what the program says is not what is meant, or a part of it never ran"
)
_WRONG_ANYWAY = "{keeps}, and the numbers are wrong whatever it does"
_INEXACT = "{keeps}, and the numbers are worse than rounding explains"
_BESIDE = "every output is computed from what it should be; what is found stands all the same"


def compute_headline(case: CaseReport, subject: Subject | None = None) -> Headline:
    """Never says that all is well where something is wrong or unknown. subject: that of the case's page."""
    if case.status is Status.ERROR:
        return Headline(sign="error", count="could not analyse", plain=case.error)
    if case.status is Status.NOT_CHECKED:
        return Headline(sign="unknown", count="not checked", plain=case.error)
    if case.status is Status.DISAGREEMENT:
        count = "the schedule and the numbers cannot both be right"
        plain = "; ".join(one.message for one in case.disagreements[:1])
        return Headline(sign="unknown", count=count, plain=plain, detail=DISAGREEMENT_HELP)
    subject = find_subject(case) if subject is None else subject
    worst = compute_worst_verdict(case.outputs.values())
    found = _compute_by_numbers(case, worst, subject) or _compute_by_findings(case, worst)
    if found is None:
        found = _compute_by_verdicts(case, worst, subject)
    if case.status is Status.INCONCLUSIVE and worst in (Verdict.FRESH, Verdict.LATENT):
        sign = found.sign if found.sign == "error" else "unknown"
        plain = f"{found.plain}; {PLAIN[Verdict.UNKNOWN]}" if sign == "error" else PLAIN[Verdict.UNKNOWN]
        return replace(found, sign=sign, count=f"inconclusive: {found.count}", plain=plain)
    if case.status is Status.UNEXPECTED and found.sign in ("fresh", "nothing"):
        return replace(found, sign="error", count=f"unexpected: {found.count}")
    return found


def _compute_by_verdicts(case: CaseReport, worst: Verdict | None, subject: Subject) -> Headline:
    if worst is None or case.status is Status.NOTHING:
        return Headline(sign="nothing", count="nothing to check", plain=f"{NO_KERNEL}, as far as it was followed")
    count, plain = _compute_count(case, worst), compute_plain(case, worst, subject)
    return Headline(sign=worst.value, count=count, plain=plain, detail=compute_detail(case, worst, subject))


def _compute_by_numbers(case: CaseReport, worst: Verdict | None, subject: Subject) -> Headline | None:
    """Returns a headline; None if no number is wrong, or if the schedule itself makes outputs wrong."""
    words = compute_numbers_words(case)
    wrong = [name for name, word in words.items() if word is NumbersWord.WRONG]
    inexact = [name for name, word in words.items() if word is NumbersWord.INEXACT]
    keeps = None if worst is None else _KEEPS.get(worst)
    if keeps is None or not (wrong or inexact):
        return None
    if not wrong and (worst is Verdict.UNKNOWN or _list_errors(case)):
        return None
    names = wrong or inexact
    findings = list_counted(list_worst_first(case))
    own = [] if subject.finding is None or subject.finding.severity is not Severity.ERROR else [subject.finding]
    reaching = [finding for finding in findings if set(names).intersection(finding.outputs)]
    first = next(iter((*own, *reaching)), None)
    plain = _INEXACT if not wrong else _WRONG_ANYWAY if worst is Verdict.UNKNOWN else _WRONG_NUMBERS
    undecided = sum(verdict is Verdict.UNKNOWN for verdict in case.outputs.values())
    too = f"; {undecided} could not be decided" if undecided else ""
    said = (
        f"{'is' if len(names) == 1 else 'are'} {NumbersWord.WRONG.value if wrong else 'worse than rounding explains'}"
    )
    return Headline(
        sign="error" if wrong else "warning",
        count=f"{_count_outputs(names, len(case.outputs))} {said}{_name(names, len(case.outputs))}{too}",
        plain=plain.format(keeps=keeps),
        detail="" if first is None else first.message,
    )


def _compute_by_findings(case: CaseReport, worst: Verdict | None) -> Headline | None:
    """Returns a headline; None if no finding says more than the verdicts do."""
    if worst not in (None, Verdict.FRESH, Verdict.LATENT):
        return None
    findings, errors = list_counted(list_worst_first(case)), _list_errors(case)
    right = "" if worst is None or case.status is Status.NOTHING else _compute_count(case, worst)
    beside = _BESIDE if worst is Verdict.FRESH else PLAIN[worst].format(kernel="a kernel") if worst else NO_KERNEL
    if errors:
        more = f"; {count_of(len(findings) - 1, 'more finding')}" if len(findings) > 1 else ""
        message = errors[0].message.replace("`", "")
        return Headline(sign="error", count=f"{message}{more}", plain=beside, detail=right)
    if worst is Verdict.LATENT or not case.findings:
        return None
    if findings:
        count = f"{right or 'nothing to check'}, with {count_of(len(findings), _NOUNS[findings[0].severity])}"
        return Headline(sign="warning", count=count, plain=beside, detail=findings[0].message)
    count = f"{right or 'nothing to check'}; {count_of(len(list_worst_first(case)), 'finding')} allowed"
    return Headline(sign="nothing", count=count, plain=beside, detail=list_worst_first(case)[0].message)


_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def _list_errors(case: CaseReport) -> list[Finding]:
    return [finding for finding in list_counted(list_worst_first(case)) if finding.severity is Severity.ERROR]


def _compute_count(case: CaseReport, worst: Verdict) -> str:
    names = [name for name, verdict in case.outputs.items() if verdict is worst]
    total, sayings = len(case.outputs), _ONE if len(names) == 1 else _MANY
    counted = f"{_count_outputs(names, total)} {sayings[worst]}{_name(names, total)}"
    others = Counter(verdict for verdict in case.outputs.values() if verdict is not worst)
    too = [f"{others[v]} {(_ONE if others[v] == 1 else _MANY)[v]}" for v in _NO_LUCK if others[v]]
    return "; ".join((counted, *too, *_compute_more_wrong(case, worst)))


def _compute_more_wrong(case: CaseReport, worst: Verdict) -> list[str]:
    """Outputs that only the numbers call wrong, beside those that the schedule makes wrong."""
    words = compute_numbers_words(case)
    known = (worst, *_NO_LUCK)
    more = [n for n, word in words.items() if word is NumbersWord.WRONG and case.outputs[n] not in known]
    return [f"{len(more)} {'is' if len(more) == 1 else 'are'} {NumbersWord.WRONG.value}"] if more else []


def _count_outputs(names: Sequence[str], total: int) -> str:
    """Such as `all 4 outputs` or `1 of 4 outputs`."""
    if len(names) == total:
        return {1: "the output", 2: "both outputs"}.get(total, f"all {total} outputs")
    return f"{len(names)} of {count_of(total, 'output')}"


def _name(names: Sequence[str], total: int) -> str:
    """Their names, where these are few and not all."""
    return f": {join_words(names)}" if len(names) <= MAX_NAMES and len(names) < total else ""
