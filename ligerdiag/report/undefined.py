"""Makes outputs unknown whose value no program defines, whatever the schedule.

They hold what nobody has written, what the order of a grid's programs makes, or one of two values that one Ref should hold.

1. The findings of five rules name such outputs. An allowed finding changes nothing: its author takes the value as it is.
2. Only an output that counts as right becomes unknown: a stale output stays stale.
3. Such an output has a reason: it does not leave a run inconclusive, and its finding counts as it would by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.schedule_view import ScheduleView
from ligerdiag.rules.registry import RULES

_RULES = frozenset(rule.id for rule in RULES if rule.leaves_undefined)


def find_undefined(findings: Sequence[Finding]) -> Mapping[str, Finding]:
    """Returns output name to the first finding that says so, by 1."""
    found: dict[str, Finding] = {}
    for finding in findings:
        if finding.rule in _RULES and finding.suppressed is None:
            for name in finding.outputs:
                found.setdefault(name, finding)
    return found


def doubt_outputs(outputs: Mapping[str, Verdict], findings: Sequence[Finding]) -> Mapping[str, Verdict]:
    """Returns the verdicts, by 2."""
    undefined = find_undefined(findings)
    return {
        name: Verdict.UNKNOWN if name in undefined and verdict.is_right else verdict
        for name, verdict in outputs.items()
    }


def doubt_view(view: ScheduleView | None, findings: Sequence[Finding]) -> ScheduleView | None:
    """Returns what is drawn, with the verdicts of `doubt_outputs`."""
    undefined = find_undefined(findings)
    if view is None or not undefined:
        return view
    outputs = tuple(
        replace(one, verdict=Verdict.UNKNOWN, sentence=f"`{one.name}` is not defined: {undefined[one.name].message}")
        if one.name in undefined and one.verdict.is_right
        else one
        for one in view.outputs
    )
    return replace(view, outputs=outputs)
