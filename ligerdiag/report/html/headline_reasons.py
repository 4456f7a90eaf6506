"""The reasons for the outputs' verdicts, in two sentences about one kernel: in plain words, and with the
instruction."""

import re

from ligerdiag.findings import VERDICT_ORDER, Verdict
from ligerdiag.report.allowed import list_counted
from ligerdiag.report.html.finding_article import list_worst_first
from ligerdiag.report.html.subject import Subject
from ligerdiag.report.model import CaseReport
from ligerdiag.schedule_view import Access, OutputView, Place, ReadKind, ScheduleView
from ligerdiag.words import join_words

MAX_NAMES = 3
"""Outputs that are named; more are counted."""
NO_KERNEL = "no kernel of this program overwrites an operand behind XLA's back"
PLAIN = {
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


def compute_plain(case: CaseReport, worst: Verdict, subject: Subject) -> str:
    """Of the subject's kernel."""
    view = case.view
    if worst is Verdict.FRESH and view is not None and not view.buffers:
        return NO_KERNEL
    access = None if view is None or worst is not Verdict.STALE else _find_stale(view, subject)
    kernel = f"`{subject.kernel}`" if subject.kernel else "a kernel"
    if access is not None:
        return _STALE[access.place].format(kernel=kernel)
    return PLAIN.get(worst, _UNTOLD).format(kernel=kernel)


def _find_stale(view: ScheduleView, subject: Subject) -> Access | None:
    """Returns the stale read of the subject's buffer that its finding is about, or the first that makes an output
    stale."""
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
    """Returns the sentence of an output that the subject makes wrong, and for which others it holds; else a finding's
    message."""
    finding = subject.finding
    if case.view is not None and VERDICT_ORDER.index(worst) > 0:
        said = [o for o in case.view.outputs if o.verdict is worst and o.sentence and _is_about(o, case.view, subject)]
        known = [output for output in said if output.path or output.missing] or said
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
    """Returns the instruction that the sentence in plain words is about; empty where it is about none."""
    access = _find_stale(view, subject)
    return next((step.name for step in view.steps if access is not None and step.id == access.step), "")


def _is_about(output: OutputView, view: ScheduleView, subject: Subject) -> bool:
    """Returns whether the sentence is about the buffer that the subject overwrites, and its finding reaches the
    output."""
    if subject.finding is not None and output.name not in subject.finding.outputs:
        return False
    if subject.buffer is None:
        return not subject.kernel or f"`{subject.kernel}`" in output.sentence
    if len(view.buffers) == 1:
        return True
    return view.buffers[subject.buffer].value.partition("{")[0] in re.findall(r"%[\w.\-]+", output.sentence)


def _tail(output: OutputView) -> str:
    return output.sentence.removeprefix(f"`{output.name}`")
