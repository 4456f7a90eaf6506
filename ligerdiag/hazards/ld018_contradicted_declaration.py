"""LD018 contradicted-declaration: a custom call does something else than its user declares."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.effects.access import Access
from ligerdiag.findings import Finding, Severity
from ligerdiag.hazards.declared_examples import RIGHTLY_DECLARED, WRONGLY_DECLARED
from ligerdiag.hazards.rule import Rule
from ligerdiag.hlo.source import find_user_line

_WORDS = {
    Access.NONE: "neither read nor written",
    Access.READ: "read only",
    Access.WRITE: "written",
    Access.READ_WRITE: "read and written",
    Access.UNKNOWN: "not known",
}


def check(context: Context) -> Iterator[Finding]:
    """One finding for each operand that a declaration is wrong about."""
    for call, one in context.contradictions:
        exists = one.operand < len(call.operands)
        found = f"is {_WORDS[one.found]}" if exists else f"does not exist: the call has {len(call.operands)}"
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"operand {one.operand} of `{one.kernel}` is declared to be {_WORDS[one.declared]} and {found}",
            source=find_user_line(context.program, call),
            kernel=one.kernel,
            operand=one.operand,
            instructions=(call.name,),
            evidence=(("declared", f"under the name `{one.target}`"),),
            help="mend the declaration: what the call itself says counts, the declaration is not believed there",
        )


RULE = Rule(
    id="LD018",
    name="contradicted-declaration",
    severity=Severity.WARNING,
    summary="what is declared of a custom call is not what it does",
    what_it_does="""\
Compares each declaration, in a case's `effects` or in `[tool.ligerdiag.effects]`, with what the call's own Triton IR or the
table of known targets says of the same operand: a write that is not declared, a declared one that surely does not
happen, a read that is left out of the reads that are named, an operand that the call does not have.""",
    why="""\
A declaration is believed where nothing can be followed. One that is wrong where it can be checked is outdated or stands
under the wrong name, and may be wrong elsewhere, too.""",
    what_to_do="""\
Mend it, or take it out: a kernel whose IR can be followed needs none.""",
    limits="""\
A declaration of a call whose effects are unknown cannot be checked, and the report names it among its notes.""",
    references=("docs/effects.md: what is followed, and what can be declared",),
    bad=(WRONGLY_DECLARED,),
    good=(RIGHTLY_DECLARED,),
    check=check,
)
