"""Renders a report in a form that editors and `grep` read, one line for each finding that counts; also counts the
findings by rule. A finding counts if no suppression allows it and the case does not expect it.

    train.py:41: error LD002 stale-copy: `bias` does not see what `ce_kernel` writes [step]

Each trouble of a case (it could not be analysed, it contradicts its expectation, an output is unknown) has a line, too. So
if nothing is printed, nothing is wrong or unknown.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ligerdiag.model.findings import VERDICT_ORDER, Finding, Verdict
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.causes import compute_causes
from ligerdiag.report.status import list_unexcused
from ligerdiag.report.terminal.diagnostics import list_troubles
from ligerdiag.rules.registry import get_rule
from ligerdiag.source_text import compute_place
from ligerdiag.text import FEW, compute_printable, compute_without_commands, count_of, describe_names


def render_concise(report: CheckReport) -> str:
    """Returns one line for each finding that counts and one for each trouble, in the order of the cases, with a final
    newline.
    """
    several = len(report.targets) > 1
    lines = [line for case in report.cases for line in _list_lines(case, several=several)]
    return "".join(f"{compute_without_commands(compute_printable(line))}\n" for line in lines)


def render_reason(case: CaseReport) -> str:
    """Returns one line about the most severe problem of a case.

    An example is `LD001: output `loss` is stale (kernel `clip_kernel`, operand 0)`. The line begins with the rule of a
    finding. For a case without findings that count, the line is the message of the first trouble, without a rule. Empty
    if the case has no trouble either.
    """
    causes = _list_causes(case)
    lines = [_name_cause(one, case) for one in sorted(causes, key=lambda one: -one.severity.weight)]
    lines += [trouble.message for trouble in list_troubles(case) if not causes]
    more = f", and {count_of(len(lines) - 1, 'more finding')}" if len(causes) > 1 else ""
    return compute_printable(f"{lines[0]}{more}") if lines else ""


def rank_reason(case: CaseReport) -> tuple[int, int]:
    """Returns a sort key for a case: the severity of the problem that `render_reason` names, then the worst verdict.

    A worse case has a larger key.
    """
    severities = [one.severity for one in _list_causes(case) or list_troubles(case)]
    verdict = max(map(VERDICT_ORDER.index, case.outputs.values()), default=0)
    return max((one.weight for one in severities), default=-1), verdict


def _list_causes(case: CaseReport) -> Sequence[Finding]:
    return compute_causes(list_unexcused(case), tuple(case.outputs), case.source_roots)


def _name_cause(cause: Finding, case: CaseReport) -> str:
    verdicts = [case.outputs[name] for name in cause.outputs if name in case.outputs]
    worst = max(verdicts, key=VERDICT_ORDER.index, default=Verdict.FRESH)
    if worst is Verdict.FRESH:
        return f"{cause.rule}: {cause.message}"
    names = [name for name in cause.outputs if case.outputs.get(name) is worst]
    several = len(names) > 1
    noun = "" if len(names) > FEW else "outputs " if several else "output "
    operand = "" if cause.operand is None else f", operand {cause.operand}"
    place = f" (kernel `{cause.kernel}`{operand})" if cause.kernel else ""
    subject = f"{noun}{describe_names(names, tuple(case.outputs))}"
    return f"{cause.rule}: {subject} {'are' if several else 'is'} {worst.value}{place}"


def render_statistics(report: CheckReport) -> str:
    """Returns a line for each rule with findings that count, the most frequent rule first, with a final newline.

    A line has the number of findings, the rule's id and name, and the severity.
    """
    counts = Counter((one.rule, one.severity) for case in report.cases for one in list_unexcused(case))
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0][0], -item[0][1].weight))
    width = max((len(str(number)) for _, number in rows), default=1)
    lines = [f"{number:>{width}}  {rule}  {get_rule(rule).name}  {severity.value}" for (rule, severity), number in rows]
    return "".join(f"{line}\n" for line in (*lines, *([] if lines else ["no finding"])))


def _list_lines(case: CaseReport, *, several: bool) -> Iterator[str]:
    name = f"{case.id} on {case.target}" if several else case.id
    for finding in _list_causes(case):
        place = compute_place(finding.source) if finding.source is not None else "-"
        rule = get_rule(finding.rule)
        origin = "" if finding.follows_from is None else f" (follows from {finding.follows_from.rule})"
        yield f"{place}: {finding.severity.value} {rule.id} {rule.name}: {finding.message}{origin} [{name}]"
    for trouble in list_troubles(case):
        yield f"-: {trouble.severity.value} {trouble.kind.value}: {trouble.message} [{name}]"
