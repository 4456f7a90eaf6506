"""Says in the words of XLA, JAX and Triton what a finding is about, and to whom it should be reported.

A write that the call does not declare is no bug of XLA: XLA may order, merge and copy as it likes whatever it knows only as
an operand. So everything that follows from such a write goes to the author of the code that calls the kernel, and only
what XLA does to a declared write, or to a program without a kernel, goes to XLA.
"""

from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.report import CaseReport
from ligerdiag.report.issue.issue_subject import IssueSubject
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.rule import Party, Rule, RuleKind
from ligerdiag.text import describe_names

_OF_A_WRITE = frozenset(
    {
        RuleKind.EARLY_READ,
        RuleKind.COPY_READ,
        RuleKind.LATE_READ,
        RuleKind.LUCKY_READ,
        RuleKind.HIDDEN_WRITE,
        RuleKind.CALLER_WRITE,
        RuleKind.DOUBLE_WRITE,
        RuleKind.RACE,
    }
)
"""Kinds of rules whose findings are consequences of a write that the call does not declare."""
_MOST_EVIDENCE = 3
_MISSED = (RuleKind.EARLY_READ, RuleKind.COPY_READ)


class Addressee(StrEnum):
    """The party that can mend the bug."""

    XLA = "XLA (openxla/xla)"
    JAX = "JAX (jax-ml/jax)"
    JAX_TRITON = "jax-triton (jax-ml/jax-triton)"
    KERNEL = "the author of the kernel"
    CALLER = "the author of the code that calls the kernel"
    PROGRAM = "the author of the program"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueWords:
    """The first lines of a bug report. Names in them are in backticks."""

    title: str
    sentences: tuple[str, ...]
    addressee: Addressee
    reason: str
    """One sentence on why the report goes to that party."""


def describe_subject(subject: IssueSubject) -> IssueWords:
    """Returns the first lines of a report on a finding, or on an error of XLA."""
    case, finding = subject.case, subject.finding
    if finding is None:
        return _describe_error(case)
    rule = get_rule(finding.rule)
    if _is_undeclared(finding, rule):
        return _describe_undeclared(finding, rule, case)
    match rule:
        case Rule(party=Party.XLA):
            reason = (
                "The call declares the write, or nothing is written behind XLA's back: XLA alone chose these bytes."
            )
            return _describe(finding, rule, Addressee.XLA, reason)
        case Rule(party=Party.JAX) | Rule(kind=RuleKind.MIXED_DONATIONS):
            reason = "JAX passes XLA another program than the one that was written."
            if rule.kind is RuleKind.MIXED_DONATIONS:
                reason = "JAX pairs the donated arguments with the outputs, and no kernel takes part."
            return _describe(finding, rule, Addressee.JAX, reason)
        case Rule(party=Party.KERNEL):
            reason = "The kernel does this under any schedule: neither JAX nor XLA can prevent it."
            return _describe(finding, rule, _find_kernel_author(finding), reason)
        case Rule(kind=RuleKind.COPY):
            reason = (
                "XLA adds the copy. It is a question of time and memory, not of the result, and the program can avoid it"
                + (f": {finding.help}." if finding.help else ".")
            )
            return _describe(finding, rule, Addressee.XLA, reason)
        case _ if finding.kernel:
            reason = "The call, as it is written, allows what JAX and XLA do with it."
            return _describe(finding, rule, Addressee.CALLER, reason)
        case _:
            return _describe(finding, rule, Addressee.PROGRAM, "Neither JAX nor XLA does anything wrong here.")


def _is_undeclared(finding: Finding, rule: Rule) -> bool:
    return rule.kind in _OF_A_WRITE and finding.call is not None and not finding.call.is_declared


def _describe_error(case: CaseReport) -> IssueWords:
    return IssueWords(
        title=f"compiling for {case.target} ends with an error: {case.error}",
        sentences=(f"The program below does not compile for {case.target}.",),
        addressee=Addressee.XLA,
        reason="The error comes out of the compile. If the log below names a kernel's own code, its author comes first.",
    )


def _describe(finding: Finding, rule: Rule, addressee: Addressee, reason: str) -> IssueWords:
    said = [f"{_begin_upper(text)}." for _, text in finding.evidence[:_MOST_EVIDENCE]]
    title = finding.message
    if rule.for_maintainers:
        title, said = rule.for_maintainers, [f"{_begin_upper(finding.message)}.", *said]
    return IssueWords(
        title=title,
        sentences=tuple(said),
        addressee=addressee,
        reason=reason,
    )


def _describe_undeclared(finding: Finding, rule: Rule, case: CaseReport) -> IssueWords:
    call = finding.call
    assert call is not None
    kernel, operand = f"`{finding.kernel}`", finding.operand
    outputs = describe_names(finding.outputs, tuple(case.outputs))
    verb = "is" if len(finding.outputs) == 1 else "are"
    target = f" (`{call.target}`)" if call.target else ""
    first = (
        f"{kernel} stores to operand {operand} of its custom call{target}, and the call does not declare that: "
        "`output_to_operand_aliasing` lacks the operand, and XLA takes it for one that is only read."
    )
    write = f"{kernel} overwrites operand {operand} without declaring it"
    is_test = rule.kind not in (RuleKind.LUCKY_READ, RuleKind.HIDDEN_WRITE) and finding.severity is not Severity.ERROR
    if is_test or not finding.outputs:
        title = f"{write}: {finding.message}" if rule.kind is not RuleKind.HIDDEN_WRITE else write
        second = f"{_begin_upper(finding.message)}." if rule.kind is not RuleKind.HIDDEN_WRITE else _NO_READER
    elif rule.kind in _MISSED:
        title = f"{write}, and {outputs} {verb} computed from the old contents"
        where = "before the call" if rule.kind is RuleKind.EARLY_READ else "from other bytes, or computes it again"
        second = (
            f"XLA reads the value {where}, so {outputs} {verb} computed from the contents that the kernel replaces."
        )
    elif rule.kind is RuleKind.LATE_READ:
        title = f"{write}, and {outputs} {verb} computed from the new contents"
        needs = "needs" if len(finding.outputs) == 1 else "need"
        second = f"{_begin_upper(outputs)} {needs} the old contents, and XLA reads the operand after the call."
    elif rule.kind is RuleKind.LUCKY_READ:
        title = f"{write}, and nothing orders the readers of {outputs} with it"
        second = (
            f"{_begin_upper(outputs)} {verb} right in this schedule, but no dependence forces the order of the call and the "
            "readers: another GPU, version or flag may order them the other way."
        )
    else:
        title = f"{write}: {finding.message}"
        second = f"{_begin_upper(finding.message)}."
    return IssueWords(
        title=title,
        sentences=(first, second),
        addressee=Addressee.JAX_TRITON if _is_in_jax_triton(call.line) else Addressee.CALLER,
        reason=(
            "XLA may order, copy and merge what it knows as an operand that is only read. The call has to declare the "
            f"write{f': {finding.help}' if finding.help else ''}."
        ),
    )


_NO_READER = (
    "Here no output is wrong. A reader that XLA moves to the other side of the call, or that reads a copy, gets other "
    "contents than the program means."
)


def _begin_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _find_kernel_author(finding: Finding) -> Addressee:
    lines = [] if finding.call is None else [finding.call.line, *finding.call.stores]
    return Addressee.JAX_TRITON if any(map(_is_in_jax_triton, (*lines, finding.source))) else Addressee.KERNEL


def _is_in_jax_triton(line: SourceLine | None) -> bool:
    return line is not None and "/jax_triton/" in line.file
