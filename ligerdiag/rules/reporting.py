"""Findings that several rules make alike: about a hidden write, and about a read of what it overwrites."""

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.model.findings import Finding, ReadPlace
from ligerdiag.rules.rule import Rule
from ligerdiag.rules.wording import (
    describe_remedy,
    describe_write,
    locate_call,
    locate_read,
    name_instructions,
    render_at,
)


def report_write(
    context: Context,
    rule: Rule,
    write: HiddenWrite,
    message: str,
    *,
    remedy: str = "",
    outputs: tuple[str, ...] = (),
    instructions: tuple[str, ...] = (),
    evidence: tuple[tuple[str, str], ...] = (),
    reader: ReadPlace | None = None,
) -> Finding:
    """Returns a finding about a hidden write, at the line of its call.

    remedy: by default, to declare the write. evidence: by default, what the call overwrites, and when.
    """
    call = locate_call(context, write)
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        message=message,
        outputs=outputs,
        source=call.line,
        kernel=write.kernel,
        operand=write.operand,
        instructions=instructions,
        evidence=evidence or (describe_write(context, write),),
        help=remedy or describe_remedy(context, write),
        call=call,
        reader=reader,
    )


def report_read(
    context: Context,
    rule: Rule,
    read: ReadFinding,
    message: str,
    sentence: str,
    *,
    remedy: str = "",
    outputs: tuple[str, ...] | None = None,
) -> Finding:
    """Returns a finding about a wrong or lucky read. sentence: how it reads, without the place. outputs: all by default."""
    place = locate_read(context, read)
    sentence += render_at(place.line, in_backward=place.in_backward)
    return report_write(
        context,
        rule,
        read.write,
        message,
        remedy=remedy,
        outputs=read.outputs if outputs is None else outputs,
        instructions=name_instructions(context, read),
        evidence=(describe_write(context, read.write), ("read", sentence)),
        reader=place,
    )
