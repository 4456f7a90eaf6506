"""Finds outputs that the program leaves undefined: they hold bytes that no operation wrote, or values that depend on an
order that nothing fixes.
"""

from collections.abc import Collection, Mapping, Sequence

from ligerdiag.model.findings import Finding, Replay, Verdict
from ligerdiag.rules.registry import RULES, check_measured
from ligerdiag.rules.rule import Measured

_LEAVE_UNDEFINED = frozenset(rule.id for rule in RULES if rule.leaves_undefined)


def find_undefined(findings: Sequence[Finding]) -> Mapping[str, Finding]:
    """Returns the outputs whose values the program leaves undefined.

    Maps the name of each output to the first finding that says so. A finding that a suppression allows does not count,
    because whoever wrote the suppression accepts any value.
    """
    found: dict[str, Finding] = {}
    for finding in findings:
        if finding.rule in _LEAVE_UNDEFINED and finding.suppressed is None:
            for name in finding.outputs:
                found.setdefault(name, finding)
    return found


def mark_undefined(
    outputs: Mapping[str, Verdict], findings: Sequence[Finding], unlooked: Collection[str] = ()
) -> Mapping[str, Verdict]:
    """Returns the verdicts, with `unknown` for each output that would count as right but has no defined value.

    unlooked: names of outputs that may hold bytes that nobody has written, if no replay has decided that.
    """
    undefined = {*find_undefined(findings), *unlooked}
    return {
        name: Verdict.UNKNOWN if name in undefined and verdict.is_right else verdict
        for name, verdict in outputs.items()
    }


def compute_replayed_verdicts(
    outputs: Mapping[str, Verdict], findings: tuple[Finding, ...], replay: Replay
) -> Mapping[str, Verdict]:
    """Returns the verdicts that hold after the replay.

    They are those of the analysis, except for the outputs that the replay shows to be undefined.
    outputs, findings: those of the analysis alone. replay: the record of the replay, which may say that none was done.
    """
    measured = Measured(outputs=outputs, findings=findings, replay=replay, device=None)
    return mark_undefined(outputs, check_measured(measured).findings)
