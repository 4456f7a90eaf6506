"""What a reader takes away in ten seconds: which outputs are wrong, why in words without HLO, and the place."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.findings import VERDICT_ORDER, Verdict
from ligerdiag.report.html.finding_article import list_worst_first
from ligerdiag.report.html.marks import compute_worst_verdict
from ligerdiag.report.model import CaseReport, Status
from ligerdiag.report.summary import DISAGREEMENT_HELP
from ligerdiag.schedule_view import Access, OutputView, Place, ReadKind
from ligerdiag.words import count_of, join_words

MAX_NAMES = 3
"""Outputs that are named; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Three lines, and the sign beside them; names stand in backticks."""

    sign: str
    """Name of a verdict, or `error`, `nothing`."""
    count: str
    """Such as `1 of 4 outputs is wrong (stale): bias`; without backticks."""
    plain: str
    """Why, for who has never seen HLO."""
    detail: str = ""
    """Which instruction; empty where nothing is known."""


_ONE = {
    Verdict.FRESH: "is fresh",
    Verdict.LATENT: "is right by luck",
    Verdict.UNKNOWN: "could not be decided",
    Verdict.CLOBBERED: "is wrong (clobbered)",
    Verdict.STALE: "is wrong (stale)",
}
_MANY = {verdict: saying.replace("is ", "are ") for verdict, saying in _ONE.items()}
_NO_LUCK = (Verdict.CLOBBERED, Verdict.UNKNOWN)
"""Verdicts that are said beside a worse one."""
_PLAIN = {
    Verdict.FRESH: "{kernel} overwrites memory behind XLA's back; every output is computed from what it should be, "
    "and dependences force the order that makes it so",
    Verdict.LATENT: "{kernel} overwrites memory behind XLA's back; this schedule happens to read it afterwards, and "
    "nothing forces it to: another compiler, GPU or flag may turn the order round",
    Verdict.UNKNOWN: "this is no all-clear: whether what is read is what is meant could not be told",
    Verdict.CLOBBERED: "{kernel} overwrites memory behind XLA's back, and the value that stood there before, which is "
    "needed afterwards, is gone",
}
_STALE = {
    Place.SAME_BYTES: "{kernel} overwrites its operand behind XLA's back, and XLA reads it too early: before the "
    "kernel's result is there",
    Place.COPY: "{kernel} overwrites its operand behind XLA's back, and XLA reads another copy, which still holds the "
    "old contents",
    Place.COMPUTED_ANEW: "{kernel} overwrites its operand behind XLA's back, and XLA does not read it but computes the "
    "old contents again",
}
_UNTOLD = "{kernel} overwrites its operand behind XLA's back, and its result is missed"


def compute_headline(case: CaseReport) -> Headline:
    """Never says that all is well where something is unknown."""
    if case.status is Status.ERROR:
        return Headline(sign="error", count="could not analyse", plain=case.error)
    if case.status is Status.NOT_CHECKED:
        return Headline(sign="unknown", count="not checked", plain=case.error)
    worst = compute_worst_verdict(case.outputs.values())
    if case.status is Status.DISAGREEMENT and case.disagreements:
        count = "the schedule and the numbers cannot both be right"
        return Headline(sign="unknown", count=count, plain=case.disagreements[0].message, detail=DISAGREEMENT_HELP)
    if worst is None or case.status is Status.NOTHING:
        plain = "no kernel of this program overwrites an operand behind XLA's back, as far as it was followed"
        return Headline(sign="nothing", count="nothing to check", plain=plain)
    count, sign = _compute_count(case, worst), worst.value
    detail = _compute_detail(case, worst)
    if worst in (Verdict.FRESH, Verdict.LATENT) and case.status is Status.INCONCLUSIVE:
        return Headline(sign="unknown", count=f"inconclusive: {count}", plain=_PLAIN[Verdict.UNKNOWN], detail=detail)
    return Headline(sign=sign, count=count, plain=_compute_plain(case, worst), detail=detail)


def _compute_count(case: CaseReport, worst: Verdict) -> str:
    names = [name for name, verdict in case.outputs.items() if verdict is worst]
    total, sayings = len(case.outputs), _ONE if len(names) == 1 else _MANY
    if len(names) == total:
        all_of_them = {1: "the output", 2: "both outputs"}.get(total, f"all {total} outputs")
        return f"{all_of_them} {sayings[worst]}"
    named = f": {join_words(names)}" if len(names) <= MAX_NAMES else ""
    others = Counter(verdict for verdict in case.outputs.values() if verdict is not worst)
    too = [f"{others[v]} {(_ONE if others[v] == 1 else _MANY)[v]}" for v in _NO_LUCK if others[v]]
    return "; ".join((f"{len(names)} of {count_of(total, 'output')} {sayings[worst]}{named}", *too))


def _compute_plain(case: CaseReport, worst: Verdict) -> str:
    """By the first hidden write that the worst outputs have to do with."""
    view = case.view
    kernels = () if view is None else tuple(f"`{buffer.kernel}`" for buffer in view.buffers)
    if worst is Verdict.FRESH and view is not None and not view.buffers:
        return "no kernel of this program overwrites an operand behind XLA's back"
    access = None
    if view is not None and worst is Verdict.STALE:
        access = _find_stale(view.accesses, [o for o in view.outputs if o.verdict is worst])
    if access is not None:
        return _STALE[access.place].format(kernel=kernels[access.buffer])
    return _PLAIN.get(worst, _UNTOLD).format(kernel=kernels[0] if kernels else "a kernel")


def _find_stale(accesses: Sequence[Access], outputs: Sequence[OutputView]) -> Access | None:
    """Of the first output that has one: the output that the third line is about."""
    for output in outputs:
        for access in accesses:
            if access.read is ReadKind.STALE and output.name in access.outputs:
                return access
    return None


def _compute_detail(case: CaseReport, worst: Verdict) -> str:
    """The sentence of the first of the worst outputs, and for whom else it holds; else a finding's message."""
    if case.view is not None and VERDICT_ORDER.index(worst) > 0:
        said = [o for o in case.view.outputs if o.verdict is worst and o.sentence]
        known = [output for output in said if output.path or output.missing] or said
        if known:
            first = known[0]
            same = [o.name for o in known[1:] if _tail(o) == _tail(first)]
            too = f"; the same holds for {join_words([f'`{name}`' for name in same])}" if same else ""
            return f"{first.sentence}{too}"
    reached = {name for name, verdict in case.outputs.items() if verdict is worst}
    findings = list_worst_first(case.findings)
    return next(
        (f.message for f in findings if reached.intersection(f.outputs)), findings[0].message if findings else ""
    )


def _tail(output: OutputView) -> str:
    return output.sentence.removeprefix(f"`{output.name}`")
