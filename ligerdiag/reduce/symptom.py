"""Defines the symptom that a reduction keeps: a finding, an error of XLA, a disagreement, or verdicts that differ between
two toolchains.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.bisect.trials import Outcome, has_disagreement
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Finding, Replay, Severity, Verdict
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.rule import RuleKind

_ABOUT_COPIES = frozenset(("LD027", "LD029", "LD030", "LD031", "LD032"))


class SymptomKind(StrEnum):
    """The kind of symptom that a reduction keeps, such as a finding or a crash."""

    FINDING = "finding"
    ERROR = "error"
    """XLA or its worker fails."""
    DISAGREEMENT = "disagreement"
    """The verdicts and the replayed numbers contradict each other."""
    TOOLCHAINS = "toolchains"
    """Two toolchains give one output different verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """The property of the program that every step of a reduction keeps, such as a finding."""

    kind: SymptomKind
    rule: str = ""
    kernel: str = ""
    operand: int | None = None
    cause: str = ""
    """For a finding about a copy: the text of the remedy, which identifies the cause of the copy."""
    error: str = ""
    """The error without names of cases, places, numbers and addresses."""
    verdicts: tuple[str, str] = ("", "")
    """The verdicts of the two toolchains on one output."""
    errors: tuple[str, ...] = ()
    """Ids of the rules with an error about the user's program. A candidate with an error of any other rule shows another
    symptom.
    """
    is_computed: bool = False
    """Whether the program computes the overwritten operand. A candidate in which the operand is an argument of the program
    shows another symptom.
    """
    needs_numbers: bool = False
    """Whether at least one output must also have wrong numbers in the replay."""
    message: str = ""
    """The message of the original finding or error, in one line for the user."""

    @property
    def is_lucky(self) -> bool:
        """Returns whether the symptom is only a read that is right by luck: no output has a wrong number."""
        return bool(self.rule) and get_rule(self.rule).kind is RuleKind.LUCKY_READ

    def describe(self) -> str:
        """Returns a short description of the symptom, such as "LD001 on operand 0 of `cross_entropy_kernel`"."""
        match self.kind:
            case SymptomKind.FINDING:
                place = f" on operand {self.operand} of `{self.kernel}`" if self.kernel else ""
                return f"{self.rule}{place}"
            case SymptomKind.ERROR:
                return f"the error `{self.message}`"
            case SymptomKind.DISAGREEMENT:
                return "the verdicts and the replayed numbers disagree"
            case SymptomKind.TOOLCHAINS:
                return (
                    f"an output is {self.verdicts[0]} with the first toolchain and {self.verdicts[1]} with the second"
                )


def shows(symptom: Symptom, outcomes: Sequence[Outcome], replay: Replay | None) -> bool:
    """Returns whether a program shows the symptom.

    outcomes: the compiles of the program, one for each toolchain. replay: the replay of the first compile; None if the
    symptom does not need numbers.
    """
    first = outcomes[0]
    match symptom.kind:
        case SymptomKind.ERROR:
            return first.exit_code == 3 and _strip(first.error) == symptom.error
        case SymptomKind.TOOLCHAINS:
            return symptom.verdicts in list_differences(outcomes)
        case SymptomKind.DISAGREEMENT:
            return not first.error and replay is not None and has_disagreement(first, replay)
        case SymptomKind.FINDING:
            if not symptom.needs_numbers:
                return has_finding(symptom, first.findings)
            wrong = [one for one in first.findings if _matches(symptom, one) and _has_wrong_numbers(one, first, replay)]
            return bool(wrong) and has_finding(symptom, first.findings)


def has_finding(symptom: Symptom, findings: Sequence[Finding]) -> bool:
    """Returns whether the findings include the finding of the symptom and no new kind of error.

    An error is of a new kind if its rule reported no error about the original program.
    """
    return set(_list_errors(findings)) <= set(symptom.errors) and any(_matches(symptom, one) for one in findings)


def _list_errors(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(sorted({one.rule for one in findings if one.severity is Severity.ERROR}))


def _matches(symptom: Symptom, finding: Finding) -> bool:
    place = (finding.rule, finding.kernel, finding.operand)
    if place != (symptom.rule, symptom.kernel, symptom.operand):
        return False
    return finding.rule not in _ABOUT_COPIES or finding.help == symptom.cause


def _has_wrong_numbers(finding: Finding, outcome: Outcome, replay: Replay | None) -> bool:
    names = finding.outputs or tuple(outcome.outputs)
    return replay is not None and any(
        name in replay.outputs and replay.outputs[name].attribution.is_wrong for name in names
    )


def list_differences(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Returns the pairs of verdicts on one output that differ between two compiles of a program.

    Pairs with a wrong verdict come first.
    """
    if len(outcomes) < 2 or any(one.error for one in outcomes):
        return []
    first, second = outcomes[0].outputs, outcomes[1].outputs
    pairs = [(verdict.value, second[name].value) for name, verdict in first.items() if name in second]
    different = [pair for pair in pairs if pair[0] != pair[1]]
    return sorted(different, key=lambda pair: not any(Verdict(one).is_wrong for one in pair))


def _strip(error: str) -> str:
    """Returns an error without what differs from one compile to the next."""
    text = re.sub(r"\S+\.py:\d+", "", re.sub(r"`[^`]*`", "``", error))
    return re.sub(r"0x[0-9a-f]+|\d+", "0", text)


def choose_symptom(
    outcomes: Sequence[Outcome], replay: Replay | None, *, rule: str = "", needs_numbers: bool = False
) -> Symptom:
    """Returns the symptom of the user's program that a reduction has to keep.

    It is an error, a difference between two toolchains, a disagreement, or else the most severe finding. rule: the id or
    name of the rule whose finding to keep; empty for the most severe finding.

    Raises InputError if the program has none of these.
    """
    first = outcomes[0]
    if first.exit_code == 2:
        raise InputError(f"`{first.trial.case.id}` cannot be analysed: {first.error}")
    if first.error:
        return Symptom(kind=SymptomKind.ERROR, error=_strip(first.error), message=first.error)
    if len(outcomes) > 1:
        differences = list_differences(outcomes)
        if not differences:
            raise InputError(
                f"the two toolchains give `{first.trial.case.id}` the same verdicts, so there is nothing to reduce"
            )
        return Symptom(kind=SymptomKind.TOOLCHAINS, verdicts=differences[0])
    if not rule and replay is not None and has_disagreement(first, replay):
        return Symptom(kind=SymptomKind.DISAGREEMENT)
    return choose_finding(
        first.findings, first.outputs, name=first.trial.case.id, rule=rule, needs_numbers=needs_numbers
    )


def choose_finding(
    findings: Sequence[Finding],
    outputs: Mapping[str, Verdict],
    *,
    name: str,
    rule: str = "",
    needs_numbers: bool = False,
) -> Symptom:
    """Returns the most severe finding as a symptom; with `rule`, the most severe one of this rule.

    name: the name of the case or module. needs_numbers: as in `Symptom`. Raises InputError if there is no finding. With
    `needs_numbers`, also raises InputError if the finding is about outputs that are right by luck.
    """
    wanted = get_rule(rule).id if rule else ""
    chosen = [one for one in findings if not wanted or one.rule == wanted]
    if not chosen:
        named = f" of {wanted}" if wanted else ""
        raise InputError(f"`{name}` has no finding{named}, so there is nothing to reduce")
    ranked = sorted(chosen, key=lambda one: (-one.severity.weight, one.rule))
    found = next((one for one in ranked if one.severity is ranked[0].severity and _is_wrong(one, outputs)), ranked[0])
    symptom = Symptom(
        kind=SymptomKind.FINDING,
        rule=found.rule,
        kernel=found.kernel,
        operand=found.operand,
        cause=found.help if found.rule in _ABOUT_COPIES else "",
        errors=_list_errors(findings),
        needs_numbers=needs_numbers,
        message=found.message,
    )
    if needs_numbers and symptom.is_lucky:
        raise InputError(
            f"`--numbers` needs a wrong number, but {found.rule} is about outputs that are right by luck in this schedule:"
            " leave it out"
        )
    return symptom


def _is_wrong(finding: Finding, outputs: Mapping[str, Verdict]) -> bool:
    return any(outputs[name].is_wrong for name in finding.outputs if name in outputs)
