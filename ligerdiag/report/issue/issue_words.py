"""Describes a finding in the terms of XLA, JAX and Triton, and says to whom it should be reported.

A write that the call does not declare is no bug of XLA: XLA may order, merge and copy the reads of a plain operand as it
likes. So a bug that follows from such a write is reported to the author of the code that calls the kernel. Only a wrong
treatment of a declared write, or of a program without a kernel, is reported to XLA.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
_KERNEL_FAILS = "a kernel of case "
"""The start of an error of Triton's."""


class Addressee(StrEnum):
    """The party to whom the bug is reported, because it can fix the bug."""

    XLA = "XLA (openxla/xla)"
    JAX = "JAX (jax-ml/jax)"
    JAX_TRITON = "jax-triton (jax-ml/jax-triton)"
    KERNEL = "the author of the kernel"
    CALLER = "the author of the code that calls the kernel"
    PROGRAM = "the author of the program"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueWords:
    """The title and the first sentences of a bug report. Names in them are in backticks."""

    title: str
    sentences: tuple[str, ...]
    addressee: Addressee
    reason: str
    """One sentence that says why the report goes to that party."""


def describe_subject(subject: IssueSubject) -> IssueWords:
    """Returns the first sentences of a bug report on a finding or on an error of XLA."""
    words = _describe_subject(subject)
    names = tuple(subject.case.outputs)
    return replace(
        words,
        title=_begin_upper(name_outputs(words.title, names)),
        sentences=tuple(_begin_upper(name_outputs(one, names)) for one in words.sentences),
    )


def name_outputs(text: str, names: Sequence[str]) -> str:
    """Returns the text with the word "output" inserted before each output whose name is a number: "output 0".

    The outputs of a function that returns a tuple have such names. names: the names of all outputs.
    """
    numbers = "|".join(f"`{re.escape(name)}`" for name in names if re.match(r"\d+(?:\.|$)", name))
    if not numbers:
        return text
    before = "".join(f"(?<!{word} )" for word in ("output", "outputs", "argument", "operand", "result"))
    found = re.compile(f"{before}({numbers})((?:, (?:{numbers}))*(?: and (?:{numbers}))?)")
    return found.sub(lambda one: f"output{'s' if one[2] else ''} {one[0]}", text)


def _describe_subject(subject: IssueSubject) -> IssueWords:
    case, finding = subject.case, subject.finding
    if finding is None:
        return _describe_error(case)
    rule = get_rule(finding.rule)
    if _is_undeclared(finding, rule):
        return _describe_undeclared(finding, rule, case)
    match rule:
        case Rule(party=Party.XLA):
            declared = "" if finding.call is None else ", and the call declares its write"
            reason = f"XLA alone chose these bytes{declared}."
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
    is_of_kernel = case.error.startswith(_KERNEL_FAILS)
    return IssueWords(
        title=f"compiling for {case.target} ends with an error: {case.error}",
        sentences=(f"The program below does not compile for {case.target}.",),
        addressee=Addressee.KERNEL if is_of_kernel else Addressee.XLA,
        reason=(
            "Triton refuses the kernel, before XLA sees it."
            if is_of_kernel
            else "The error comes out of the compile. If the log names code of a kernel, its author comes first."
        ),
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


_MOVED = (
    "A reader that XLA moves to the other side of the call, or that reads a copy, gets other contents than the program "
    "means."
)
_CONSEQUENCES = {
    RuleKind.DOUBLE_WRITE: (
        "XLA merges and repeats values and calls that it takes for pure; here that changes what is written."
    ),
    RuleKind.CALLER_WRITE: "The bytes belong to the caller or to a constant, so the change outlives the program.",
    RuleKind.RACE: "XLA runs readers of the operand at the same time as the call.",
}


def _describe_undeclared(finding: Finding, rule: Rule, case: CaseReport) -> IssueWords:
    call = finding.call
    assert call is not None
    target = f" (`{call.target}`)" if call.target else ""
    first = (
        f"`{finding.kernel}` stores to operand {finding.operand} of its custom call{target}, and the call does not declare"
        " that: `output_to_operand_aliasing` lacks the operand, and XLA takes it for one that is only read."
    )
    title, second = _describe_consequence(finding, rule, case)
    wrong = [name for name, verdict in case.outputs.items() if verdict.is_wrong]
    more = [] if finding.outputs or not wrong else [f"{_begin_upper(_name(wrong, case))} {_agree(wrong)} wrong."]
    is_said = title.startswith(f": `{finding.kernel}` overwrites ")
    return IssueWords(
        title=title[2:]
        if is_said
        else f"`{finding.kernel}` overwrites operand {finding.operand} without declaring it{title}",
        sentences=(first, second, *more),
        addressee=Addressee.JAX_TRITON if _is_in_jax_triton(call.line) else Addressee.CALLER,
        reason=(
            "XLA may order, copy and merge what it knows as an operand that is only read, so the call has to declare the "
            "write: jax-triton and Pallas have `input_output_aliases` and Refs for that."
        ),
    )


def _describe_consequence(finding: Finding, rule: Rule, case: CaseReport) -> tuple[str, str]:
    """Returns the end of the title, and the sentence on what XLA does because the write is not declared."""
    names = finding.outputs
    outputs, verb = _name(names, case), _agree(names)
    is_certain = finding.severity is Severity.ERROR and names
    match rule.kind:
        case RuleKind.EARLY_READ | RuleKind.COPY_READ if is_certain:
            how = "uses the value before the call"
            if rule.kind is RuleKind.COPY_READ:
                how = "takes the value from other bytes, or computes it where it is used"
            said = f"XLA {how}, so {outputs} {verb} computed from the contents that the kernel replaces."
            return f", and {outputs} {verb} computed from the old contents", said
        case RuleKind.LATE_READ if is_certain:
            need = "needs" if len(names) == 1 else "need"
            said = f"{_begin_upper(outputs)} {need} the old contents, and XLA reads the operand after the call."
            return f", and {outputs} {verb} computed from the new contents", said
        case RuleKind.LUCKY_READ if names:
            said = (
                f"{_begin_upper(outputs)} {verb} right in this schedule, but no dependence forces the order of the call and"
                " the readers: another GPU, version or flag may order them the other way."
            )
            return f", and nothing forces the order that makes {outputs} right", said
        case RuleKind.HIDDEN_WRITE:
            return "", _MOVED
        case kind:
            return f": {finding.message}", _CONSEQUENCES.get(kind, _MOVED)


def _name(names: Sequence[str], case: CaseReport) -> str:
    return describe_names(names, tuple(case.outputs))


def _agree(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _begin_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _find_kernel_author(finding: Finding) -> Addressee:
    lines = [] if finding.call is None else [finding.call.line, *finding.call.stores]
    return Addressee.JAX_TRITON if any(map(_is_in_jax_triton, (*lines, finding.source))) else Addressee.KERNEL


def _is_in_jax_triton(line: SourceLine | None) -> bool:
    return line is not None and "/jax_triton/" in line.file
