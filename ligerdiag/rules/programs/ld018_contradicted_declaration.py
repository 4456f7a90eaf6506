"""LD018 contradicted-declaration: what is declared of a custom call is not so."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.effects.access import Access
from ligerdiag.hlo.module import find_user_line
from ligerdiag.hlo.shape import ShapeIndex, render_index
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Party, Rule, make_example

_WORDS = {
    Access.NONE: "neither read nor written",
    Access.READ: "read only",
    Access.WRITE: "written",
    Access.READ_WRITE: "read and written",
    Access.UNKNOWN: "not known",
}


def check(context: Context) -> Iterator[Finding]:
    """Reports each operand that a declaration is wrong about, and for each alias that is none."""
    yield from _find_contradicted(context)
    yield from _find_invalid_aliases(context)


def _find_invalid_aliases(context: Context) -> Iterator[Finding]:
    """The entries of `output_to_operand_aliasing` that are no alias; one that both programs have, once."""
    seen: set[tuple[str, int, ShapeIndex]] = set()
    for module, calls in ((context.program, context.calls), (context.optimized, context.optimized_calls)):
        kernels = {call.id: (call, effects.kernel) for call, effects in calls}
        for alias in module.invalid_aliases:
            if alias.instruction not in kernels:
                continue
            call, kernel = kernels[alias.instruction]
            if (kernel, alias.operand, alias.output) in seen:
                continue
            seen.add((kernel, alias.operand, alias.output))
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=f"`{kernel}` declares output {render_index(alias.output)} to share the buffer of operand"
                f" {alias.operand}, {'which another declaration names, too' if alias.is_shared else 'which it does not'}",
                source=find_user_line(module, call),
                kernel=kernel,
                operand=alias.operand if alias.operand >= 0 else None,  # a dump may say anything
                instructions=(call.name,),
                evidence=(("declared", alias.reason),),
                help=_ONE_BUFFER if alias.is_shared else _REFUSED,
            )


_ONE_BUFFER = (
    "let each output be the alias of one operand, and each operand that of one output: XLA takes all that are named for one"
    " buffer, without a word (LD024); such an entry is taken for no alias here"
)
_REFUSED = "mend `output_to_operand_aliasing`: such an entry is taken for no alias here"


def _find_contradicted(context: Context) -> Iterator[Finding]:
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


_STEP = """\
def step(x):
    doubled, sums = sum_and_double_declared(x + 1)
    return {"sums": sums, "columns": doubled.sum(0)}


"""

WRONGLY_DECLARED = make_example(
    about="The kernel doubles its operand in place, and is declared to read it only.",
    code="""\
def step(x):
    h = x + 1
    return {"sums": sum_and_double(h), "columns": h.sum(0)}


CASE = Case(name="read_only", function=step, args=(Arg(shape=(8, 32)),), effects={"double_kernel": {"writes": []}})
""",
)

RIGHTLY_DECLARED = make_example(
    about="What is declared is what the kernel does: it overwrites operand 0, and XLA knows of it.",
    declared=True,
    code=_STEP
    + """\
CASE = Case(name="as_declared", function=step, args=(Arg(shape=(8, 32)),), effects={"aliased_kernel": {"writes": [0]}})
""",
)


RULE = Rule(
    id="LD018",
    name="contradicted-declaration",
    severity=Severity.WARNING,
    party=Party.KERNEL,
    summary="what is declared of a custom call is not what it does",
    what_it_does="""\
Compares each declaration, in a case's `effects` or in `[tool.ligerdiag.effects]`, with what the call's own Triton IR or the
table of known targets says of the same operand: a write that is not declared, a declared one that surely does not
happen, a read that is left out of the reads that are named, an operand that the call does not have.

Checks as well what a custom call of a dump itself declares, in `output_to_operand_aliasing`: the output and the operand
have to exist, to be of one element type and of the same dimensions, to be named once, and to stand in the same bytes of the
buffer assignment. An entry that is not so is no alias: a write of that operand is a hidden write.""",
    why="""\
A declaration is believed where nothing can be followed. One that is wrong where it can be checked is outdated or stands
under the wrong name, and may be wrong elsewhere, too. An alias that does not exist would hide a write. XLA refuses an
operand that is not there and one of another shape, so a dump that has such an entry was changed after it was written. Two
operands that are declared to be one output XLA does not refuse: it puts all three into the same bytes.""",
    what_to_do="""\
Mend it, or take it out: a kernel whose IR can be followed needs none.""",
    limits="""\
A declaration of a call whose effects are unknown cannot be checked, and the report names it among its notes.""",
    references=("docs/effects.md: what is followed, and what can be declared",),
    bad=(WRONGLY_DECLARED,),
    good=(RIGHTLY_DECLARED,),
    check=check,
)
