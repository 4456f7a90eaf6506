"""Lists the possible causes of a disagreement: a contradiction between the verdict, the replay and a device about an output.

The verdict trusts four parties:

- JAX, to pass to XLA the program that was traced;
- XLA, to keep values apart that are alive at the same time;
- the kernel, to do to its operands what its IR and its declaration say, whatever the order of its programs and the old
  contents of memory;
- ligerdiag itself.

Rules look for mistakes of the first three (`Rule.party`), and their findings decide:

- A party is *shown* to be the cause if one of its rules has a finding of severity error about the output and no
suppression allows that finding.
  The finding then explains the difference, the case is judged by the finding, and there is no contradiction.
- A party is a *possible* cause if one of its rules has any other finding about the output, has a finding that names no
output, or raised an exception.
- A party is *ruled out* if all of its rules ran and found nothing about the output.

A bug of ligerdiag is possible as long as no other cause is shown; if every other party is ruled out, only that bug is
left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ligerdiag.model.findings import Finding, Severity
from ligerdiag.model.report import Disagreement
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Party
from ligerdiag.text import join_words

_ASKED = (Party.JAX, Party.XLA, Party.KERNEL)
NOTHING_LEFT = (
    "only a bug in ligerdiag is left: trust neither answer about this output, and report the bug with this text"
)
SOMETHING_LEFT = (
    "trust neither answer about this output: one of the remaining causes applies, and nothing here says which"
)


class CauseStanding(StrEnum):
    """Whether a party is shown, possible or ruled out as the cause of a disagreement; defined at the top of this module."""

    SHOWN = "shown"
    POSSIBLE = "possible"
    RULED_OUT = "ruled out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleCause:
    """A party (JAX, XLA, the kernel or ligerdiag) that may have caused a disagreement.

    `standing` says whether the findings show it to be the cause, leave that possible, or rule it out.
    """

    party: Party
    standing: CauseStanding
    evidence: str
    """A phrase that gives the reason why this party may be, or cannot be, the cause."""
    rules: tuple[str, ...] = ()
    """Ids of the rules whose findings show that this party is the cause."""

    @property
    def line(self) -> tuple[str, str]:
        """Returns the party as a (label, sentence) pair for the evidence of a disagreement."""
        return self.party.value, f"{self.standing.value}: {self.evidence}"


def list_possible_causes(
    output: str, findings: Sequence[Finding], failed: Iterable[str] = ()
) -> tuple[PossibleCause, ...]:
    """Returns the standing of JAX, of XLA and of the kernel, in this order, as the cause of a disagreement.

    Each is shown to be the cause, is a possible cause, or is ruled out. If none is shown, ligerdiag itself follows as a
    possible cause.

    output: name of the output about which verdict and numbers differ. failed: ids of the rules that raised an exception.
    """
    found = [_judge(party, output, findings, frozenset(failed)) for party in _ASKED]
    left = [one.party.value for one in found if one.standing is not CauseStanding.RULED_OUT]
    if any(one.standing is CauseStanding.SHOWN for one in found):
        return tuple(found)
    evidence = f"{join_words(left, 'or')} may be wrong as well" if left else "all others are ruled out"
    return (*found, PossibleCause(party=Party.OURS, standing=CauseStanding.POSSIBLE, evidence=evidence))


def _judge(party: Party, output: str, findings: Sequence[Finding], failed: frozenset[str]) -> PossibleCause:
    rules = {rule.id: rule.name for rule in RULES if rule.party is party}
    about = [one for one in findings if one.rule in rules]
    errors = [one for one in about if one.severity is Severity.ERROR and one.suppressed is None]
    reaching = list(dict.fromkeys(one.rule for one in errors if output in one.outputs))
    if reaching:
        evidence = f"{join_words(_name(reaching, rules))} {'reports' if len(reaching) == 1 else 'report'} `{output}`"
        return PossibleCause(party=party, standing=CauseStanding.SHOWN, evidence=evidence, rules=tuple(reaching))
    open_ = list(dict.fromkeys(one.rule for one in about if not one.outputs or output in one.outputs))
    if open_:
        found = "has a finding that may reach" if len(open_) == 1 else "have findings that may reach"
        evidence = f"{join_words(_name(open_, rules))} {found} `{output}`"
        return PossibleCause(party=party, standing=CauseStanding.POSSIBLE, evidence=evidence)
    broken = [rule for rule in rules if rule in failed]
    if broken or not rules:
        evidence = f"{join_words(_name(broken, rules))} failed" if broken else "no rule looks for its mistakes"
        return PossibleCause(party=party, standing=CauseStanding.POSSIBLE, evidence=evidence)
    evidence = f"{join_words(list(rules))} {'finds' if len(rules) == 1 else 'find'} nothing about `{output}`"
    return PossibleCause(party=party, standing=CauseStanding.RULED_OUT, evidence=evidence)


def _name(ids: Iterable[str], names: dict[str, str]) -> list[str]:
    return [f"{one} {names[one]}" for one in ids]


def explain_difference(one: Disagreement, causes: Sequence[PossibleCause]) -> Disagreement:
    """Returns the disagreement with the possible causes added to its evidence, and a help text.

    If all parties but ligerdiag are ruled out, the help says to report a bug of ligerdiag.
    """
    left = [
        cause for cause in causes if cause.party is not Party.OURS and cause.standing is not CauseStanding.RULED_OUT
    ]
    evidence = (*one.evidence, *(cause.line for cause in causes))
    return replace(one, evidence=evidence, help=SOMETHING_LEFT if left else NOTHING_LEFT)


def find_shown(causes: Iterable[PossibleCause]) -> tuple[str, ...]:
    """Returns the ids of the rules whose findings show a cause; empty if no cause is shown."""
    return tuple(dict.fromkeys(rule for cause in causes for rule in cause.rules))


def note_differences(
    findings: Sequence[Finding], explained: Sequence[tuple[Disagreement, tuple[str, ...]]]
) -> tuple[Finding, ...]:
    """Returns the findings, each with a note on every disagreement that it explains.

    explained: each disagreement with the ids of the rules whose findings explain it.
    """
    noted: list[Finding] = []
    for finding in findings:
        messages = [one.message for one, rules in explained if finding.rule in rules and one.output in finding.outputs]
        notes = [("note", f"this is why {message}") for message in dict.fromkeys(messages)]
        noted.append(replace(finding, evidence=(*finding.evidence, *notes)) if notes else finding)
    return tuple(noted)
