"""Computes the headline of a page and the title of the index. A headline says which outputs are wrong, the reason in words
without HLO, and the instruction that is the cause.

The headline is about the outputs that the schedule makes wrong; if there are no such outputs, about outputs with wrong
numbers; otherwise about unknown outputs. If every output is fresh or latent, an error among the findings takes precedence
over the verdicts, and a warning is added to them. A headline is green only if the page shows no finding and no wrong number.
The three lines of a headline are about the subject of the page, which is one kernel call.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ligerdiag.model.findings import VERDICT_ORDER, Finding, Severity, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.model.schedule_view import BufferAccess, OutputView, Place, ReadKind, ScheduleView
from ligerdiag.report.html.environment import compute_worst_verdict
from ligerdiag.report.html.prose import NumbersFault, compute_numbers_faults
from ligerdiag.report.html.subject import Subject, find_subject, list_worst_first
from ligerdiag.report.status import list_counted
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.text import count_of, join_words

MAX_NAMES = 3
"""A headline names at most this many outputs; if there are more, it only gives their number."""
NO_KERNEL = "no kernel of this program overwrites an operand behind XLA's back"
PLAIN = {
    Verdict.FRESH: "{kernel} overwrites memory behind XLA's back; every output is computed from the intended values, "
    "in an order that dependences force",
    Verdict.LATENT: "{kernel} overwrites memory behind XLA's back; this schedule happens to read it afterwards, and "
    "nothing forces it to: another compiler, GPU or flag may reverse the order",
    Verdict.UNKNOWN: "this is no all-clear: it is unknown whether every read gets the intended value",
    Verdict.CLOBBERED: "{kernel} overwrites memory behind XLA's back, and the value from before, which is needed "
    "afterwards, is gone",
}
_STALE = {
    Place.SAME_BYTES: "{kernel} overwrites its operand behind XLA's back, and XLA reads it too early: before the "
    "kernel's result is there",
    Place.COPY: "{kernel} overwrites its operand behind XLA's back, and XLA reads another copy, which still holds the "
    "old contents",
    Place.RECOMPUTED: "{kernel} overwrites its operand behind XLA's back, and XLA does not read it but computes the "
    "old contents again",
}
SHARED = "no kernel is to blame: XLA has two values in the same bytes while both are needed, and one of them is gone"
_MISSED = "{kernel} overwrites its operand behind XLA's back, and an output misses its result"


def compute_plain(case: CaseReport, worst: Verdict, subject: Subject) -> str:
    """Returns a sentence with the reason why outputs are wrong, without names of HLO instructions.

    The sentence is about the kernel call that the page is about (the subject).
    """
    view = case.view
    if worst is Verdict.FRESH and view is not None and not view.buffers:
        return NO_KERNEL
    if (
        worst is Verdict.CLOBBERED
        and not subject.kernel
        and any(f.rule in list_ids(RuleKind.SHARED_BYTES) for f in case.findings)
    ):
        return SHARED
    access = None if view is None or worst is not Verdict.STALE else _find_stale(view, subject)
    kernel = f"`{subject.kernel}`" if subject.kernel else "a kernel"
    if access is not None:
        return _STALE[access.place].format(kernel=kernel)
    return PLAIN.get(worst, _MISSED).format(kernel=kernel)


def _find_stale(view: ScheduleView, subject: Subject) -> BufferAccess | None:
    """Returns the stale read that the headline is about: the one that the finding of the subject (the page's kernel
    call) names, else the first read of the subject's buffer that makes an output stale; None if there is no such read.
    """
    stale = [a for a in view.accesses if a.read is ReadKind.STALE and a.buffer == subject.buffer]
    instructions = () if subject.finding is None else subject.finding.instructions[1:]
    names = {step.id: step.name.removeprefix("%") for step in view.steps}
    reads = {number for number, name in names.items() if name in instructions}
    ends = [output.name for output in view.outputs if output.verdict is Verdict.STALE]
    place = {name: number for number, name in enumerate(ends)}
    stale = [access for access in stale if access.outputs and any(name in place for name in access.outputs)]
    stale.sort(key=lambda a: (a.step not in reads, min(place[name] for name in a.outputs if name in place)))
    return stale[0] if stale else None


def compute_detail(case: CaseReport, worst: Verdict, subject: Subject) -> str:
    """Returns a sentence about an output that the kernel call makes wrong; the subject is this kernel call.

    If the same sentence holds for more outputs, their names follow. If there is no such sentence, returns the message of
    a finding.
    """
    finding = subject.finding
    if case.view is not None and VERDICT_ORDER.index(worst) > 0:
        candidates = [
            o for o in case.view.outputs if o.verdict is worst and o.sentence and _is_about(o, case.view, subject)
        ]
        known = [output for output in candidates if output.path or output.missing] or candidates
        if known:
            reader = _name_reader(case.view, subject)
            first = next((o for o in known if reader and f"`{reader}`" in o.sentence), known[0])
            same = [f"`{o.name}`" for o in known if o is not first and _tail(o) == _tail(first)]
            shown = same if len(same) <= MAX_NAMES else [*same[: MAX_NAMES - 1], f"{len(same) - MAX_NAMES + 1} more"]
            return f"{first.sentence}; the same holds for {join_words(shown)}" if same else first.sentence
    if finding is not None:
        return finding.message
    reached = {name for name, verdict in case.outputs.items() if verdict is worst}
    findings = list_counted(list_worst_first(case))
    return next(
        (f.message for f in findings if reached.intersection(f.outputs)), findings[0].message if findings else ""
    )


def _name_reader(view: ScheduleView, subject: Subject) -> str:
    """Returns the name of the instruction that the text of `compute_plain` is about; empty if the text is about none."""
    access = _find_stale(view, subject)
    return next((step.name for step in view.steps if access is not None and step.id == access.step), "")


def _is_about(output: OutputView, view: ScheduleView, subject: Subject) -> bool:
    """Returns whether the sentence about the output concerns the buffer of the subject (the page's kernel call), and
    the subject's finding reaches the output.
    """
    if subject.finding is not None and output.name not in subject.finding.outputs:
        return False
    if subject.buffer is None:
        return not subject.kernel or f"`{subject.kernel}`" in output.sentence
    if len(view.buffers) == 1:
        return True
    return view.buffers[subject.buffer].value.partition("{")[0] in re.findall(r"%[\w.\-]+", output.sentence)


def _tail(output: OutputView) -> str:
    return output.sentence.removeprefix(f"`{output.name}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The headline of a page: three lines and a sign. Names in the lines are in backticks."""

    sign: str
    """Name of the sign: a verdict, `error`, `warning` or `nothing`."""
    count: str
    """The first line, such as `1 of 4 outputs is wrong (stale): bias`; without backticks."""
    plain: str
    """The second line: the reason, in words without HLO."""
    detail: str = ""
    """The third line: the instruction that is the cause; empty if it is unknown."""


_ONE = {
    Verdict.FRESH: "is fresh",
    Verdict.LATENT: "is right by luck",
    Verdict.UNKNOWN: "could not be decided",
    Verdict.CLOBBERED: "is wrong (clobbered)",
    Verdict.STALE: "is wrong (stale)",
}
_MANY = {verdict: saying.replace("is ", "are ") for verdict, saying in _ONE.items()}
_NO_LUCK = (Verdict.CLOBBERED, Verdict.UNKNOWN)
"""Verdicts that a headline mentions as well if its main verdict is still worse."""
_KEEPS = {
    Verdict.FRESH: "the schedule keeps to the program's own order",
    Verdict.LATENT: "this schedule happens to keep to the program's own order",
    Verdict.UNKNOWN: "not every output could be decided",
}
_WRONG_NUMBERS = (
    "{keeps}, but the numbers are wrong: the program does not compute the intended result, or a part of it never ran"
)
_WRONG_ANYWAY = "{keeps}, and some numbers are wrong"
_INEXACT = "{keeps}, but the numbers are worse than rounding explains"
_BESIDE = "every output is computed from the intended values, but there are findings"


def compute_headline(case: CaseReport, subject: Subject | None = None) -> Headline:
    """Returns the headline of the page of a case. It is never green if something is wrong or unknown.

    subject: the kernel call that the page is about, by default the result of `find_subject`.
    """
    if case.status is Status.ERROR:
        return Headline(sign="error", count="could not analyse", plain=case.error)
    if case.status is Status.NOT_CHECKED:
        return Headline(sign="unknown", count="not run", plain=case.error)
    if case.status is Status.DISAGREEMENT:
        count = "the schedule and the numbers cannot both be right"
        plain = "; ".join(one.message for one in case.disagreements[:1])
        detail = "; ".join(one.help for one in case.disagreements[:1])
        return Headline(sign="unknown", count=count, plain=plain, detail=detail)
    subject = find_subject(case) if subject is None else subject
    worst = compute_worst_verdict(case.outputs.values())
    found = _compute_by_numbers(case, worst, subject) or _compute_by_findings(case, worst)
    if found is None:
        found = _compute_by_verdicts(case, worst, subject)
    if case.status is Status.INCONCLUSIVE and worst is not None and worst.is_right:
        sign = found.sign if found.sign == "error" else "unknown"
        plain = f"{found.plain}; {PLAIN[Verdict.UNKNOWN]}" if sign == "error" else PLAIN[Verdict.UNKNOWN]
        return replace(found, sign=sign, count=f"inconclusive: {found.count}", plain=plain)
    if case.status is Status.UNEXPECTED and found.sign in ("fresh", "nothing"):
        return replace(found, sign="error", count=f"unexpected: {found.count}")
    return found


def _compute_by_verdicts(case: CaseReport, worst: Verdict | None, subject: Subject) -> Headline:
    if worst is None or case.status is Status.NOTHING:
        return Headline(
            sign="nothing", count="nothing to check", plain=f"{NO_KERNEL}, as far as the program could be followed"
        )
    count, plain = _compute_count(case, worst), compute_plain(case, worst, subject)
    return Headline(sign=worst.value, count=count, plain=plain, detail=compute_detail(case, worst, subject))


def _compute_by_numbers(case: CaseReport, worst: Verdict | None, subject: Subject) -> Headline | None:
    """Returns a headline about wrong numbers; None if no number is wrong, or if the schedule already makes outputs
    wrong.
    """
    words = compute_numbers_faults(case)
    wrong = [name for name, word in words.items() if word is NumbersFault.WRONG]
    inexact = [name for name, word in words.items() if word is NumbersFault.INEXACT]
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
    predicate = (
        f"{'is' if len(names) == 1 else 'are'} {NumbersFault.WRONG.value if wrong else 'worse than rounding explains'}"
    )
    return Headline(
        sign="error" if wrong else "warning",
        count=f"{_count_outputs(names, len(case.outputs))} {predicate}{_name(names, len(case.outputs))}{too}",
        plain=plain.format(keeps=keeps),
        detail="" if first is None else first.message,
    )


def _compute_by_findings(case: CaseReport, worst: Verdict | None) -> Headline | None:
    """Returns a headline about the findings; None if they say no more than the verdicts."""
    if worst is not None and not worst.is_right:
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
    total, predicates = len(case.outputs), _ONE if len(names) == 1 else _MANY
    counted = f"{_count_outputs(names, total)} {predicates[worst]}{_name(names, total)}"
    others = Counter(verdict for verdict in case.outputs.values() if verdict is not worst)
    too = [f"{others[v]} {(_ONE if others[v] == 1 else _MANY)[v]}" for v in _NO_LUCK if others[v]]
    return "; ".join((counted, *too, *_compute_more_wrong(case, worst)))


def _compute_more_wrong(case: CaseReport, worst: Verdict) -> list[str]:
    """Returns a phrase about outputs that have wrong numbers although the schedule does not make them wrong; an empty
    list if there are none.
    """
    words = compute_numbers_faults(case)
    known = (worst, *_NO_LUCK)
    more = [n for n, word in words.items() if word is NumbersFault.WRONG and case.outputs[n] not in known]
    return [f"{len(more)} {'is' if len(more) == 1 else 'are'} {NumbersFault.WRONG.value}"] if more else []


def _count_outputs(names: Sequence[str], total: int) -> str:
    """Returns the number of named outputs as text, such as `all 4 outputs` or `1 of 4 outputs`. total: number of all
    outputs.
    """
    if len(names) == total:
        return {1: "the output", 2: "both outputs"}.get(total, f"all {total} outputs")
    return f"{len(names)} of {count_of(total, 'output')}"


def _name(names: Sequence[str], total: int) -> str:
    """Returns the names of the outputs, joined to a text; empty if they are more than `MAX_NAMES`, or all of the
    `total` outputs.
    """
    return f": {join_words(names)}" if len(names) <= MAX_NAMES and len(names) < total else ""


_STATUSES = {
    Status.DISAGREEMENT: ("has a verdict that its numbers contradict", "have verdicts that their numbers contradict"),
    Status.ERROR: ("could not be analysed", "could not be analysed"),
    Status.NOT_CHECKED: ("was not run", "were not run"),
}
"""Statuses that take precedence over the sign of the headline, with the predicate for one case and for several."""
_SIGNS = {
    "stale": ("reads stale values", "read stale values"),
    "clobbered": ("reads overwritten values", "read overwritten values"),
    "error": ("has an error", "have errors"),
    "unknown": ("could not be decided", "could not be decided"),
    "warning": ("has a warning", "have warnings"),
    "latent": ("is right by luck", "are right by luck"),
}
_GOOD = {
    "nothing": ("has nothing to check", "have nothing to check"),
    "fresh": ("reads the intended values", "read the intended values"),
}
_ORDER = (
    _SIGNS["stale"],
    _SIGNS["clobbered"],
    _STATUSES[Status.DISAGREEMENT],
    _SIGNS["error"],
    _STATUSES[Status.ERROR],
    _SIGNS["unknown"],
    _STATUSES[Status.NOT_CHECKED],
    _SIGNS["warning"],
    _SIGNS["latent"],
    _GOOD["nothing"],
    _GOOD["fresh"],
)


def compute_answer(cases: Iterable[tuple[Status, Headline]], noun: str) -> str:
    """Returns the title of the index: how many cases are wrong and in which way, in one sentence such as `2 of 7 cases read
    stale values, 1 could not be decided`.

    Each case counts once, by the worst verdict in the headline of its page. Cases that are wrong, unknown or right by luck
    are always counted, so that no title looks better than its worst page. noun: the word for a case.
    """
    predicates = [
        _STATUSES.get(status) or _SIGNS.get(headline.sign) or _GOOD[headline.sign] for status, headline in cases
    ]
    total, counts = len(predicates), Counter(predicates)
    if not total:
        return "nothing was checked"
    bad = [one for one in _ORDER if counts[one] and one not in _GOOD.values()]
    shown = bad or [one for one in _ORDER if counts[one]]
    (one, many), rest = shown[0], shown[1:]
    number = counts[shown[0]]
    if number == total:
        subject = f"the {noun}" if total == 1 else f"both {noun}s" if total == 2 else f"all {total} {noun}s"
    else:
        subject = f"{number} of {count_of(total, noun)}"
    first = f"{subject} {one if number == 1 else many}"
    return join_words([first, *(f"{counts[way]} {way[0] if counts[way] == 1 else way[1]}" for way in rest)])
