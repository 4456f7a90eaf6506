"""LD018 contradicted-declaration: a custom call does something else to its operands than its declared effects say."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.effects.access import Access
from ligerdiag.hlo.module import find_user_line
from ligerdiag.hlo.shape import ShapeIndex, render_index
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Party, Rule, RuleKind, make_example
from ligerdiag.text import count_of, join_words

_WORDS = {
    Access.NONE: "neither read nor written",
    Access.READ: "read only",
    Access.WRITE: "written",
    Access.READ_WRITE: "read and written",
    Access.UNKNOWN: "unknown",
}


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each operand whose declared effect is wrong, and for each declared alias that does not hold.

    If the kernel writes an operand that has no alias, each aliased operand that the kernel never writes has a finding,
    too.
    """
    yield from _find_contradicted(context)
    yield from _find_invalid_aliases(context)
    yield from _find_aliases_of_others(context)


def _find_invalid_aliases(context: Context) -> Iterator[Finding]:
    """Yields a finding for each entry of `output_to_operand_aliasing` that is no valid alias; an entry in both the
    program and the schedule counts once.
    """
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
                message=f"`{kernel}` declares that output {render_index(alias.output)} aliases operand {alias.operand},"
                f" {'and another alias names the same buffer' if alias.is_shared else 'but this does not hold'}",
                source=find_user_line(module, call),
                kernel=kernel,
                operand=alias.operand if alias.operand >= 0 else None,  # a dump may hold any number
                instructions=(call.name,),
                evidence=(("declared", alias.reason),),
                help=_ONE_BUFFER if alias.is_shared else _REFUSED,
            )


_ONE_BUFFER = (
    "let each output alias one operand, and each operand one output: XLA silently puts all that are named into one"
    " buffer (LD024), and ligerdiag ignores such an entry"
)
_REFUSED = "fix `output_to_operand_aliasing`: ligerdiag ignores such an entry"


def _find_contradicted(context: Context) -> Iterator[Finding]:
    for call, one in context.contradictions:
        exists = one.operand < len(call.operands)
        found = (
            f"is {_WORDS[one.found]}"
            if exists
            else f"does not exist: the call has {count_of(len(call.operands), 'operand')}"
        )
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"operand {one.operand} of `{one.kernel}` is declared {_WORDS[one.declared]} but {found}",
            source=find_user_line(context.program, call),
            kernel=one.kernel,
            operand=one.operand,
            instructions=(call.name,),
            evidence=(("declared", f"in the effects that are declared for `{one.target}`"),),
            help="fix the declaration: ligerdiag ignores it, and uses the effects that the call itself states",
        )


def _find_aliases_of_others(context: Context) -> Iterator[Finding]:
    """Yields a finding for each operand that an output aliases although the kernel surely never writes it, neither through
    its pointer nor through that of the output, if the kernel writes an operand that no output aliases.
    """
    for call, effects in context.calls:
        aliased = call.aliasing_outputs
        written = [
            number
            for number, access in enumerate(effects.operands)
            if access in (Access.WRITE, Access.READ_WRITE) and number not in aliased
        ]
        for operand, output in aliased.items() if written else ():
            if effects.operands[operand].cover(effects.outputs[output]).writes:
                continue
            others = join_words([f"operand {number}" for number in written])
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=f"output {output} of `{effects.kernel}` aliases operand {operand}, which the kernel never writes;"
                f" it writes {others} instead",
                source=find_user_line(context.program, call),
                kernel=effects.kernel,
                operand=operand,
                instructions=(call.name,),
                evidence=(("declared", f"output {output} is operand {operand} with new contents"),),
                help=f"let the output alias {others}, because XLA does not know that the kernel writes there",
            )


_STEP = """\
def step(x):
    doubled, sums = sum_and_double_declared(x + 1)
    return {"sums": sums, "columns": doubled.sum(0)}


"""

WRONGLY_DECLARED = make_example(
    about="The kernel doubles its operand in place, and the declaration says that it only reads it.",
    code="""\
def step(x):
    h = x + 1
    return {"sums": sum_and_double(h), "columns": h.sum(0)}


CASE = Case(name="read_only", function=step, args=(Arg(shape=(8, 32)),), effects={"double_kernel": {"writes": []}})
""",
)

OTHER_DECLARED = make_example(
    about="The kernel doubles operand 0 in place, and the call declares that it overwrites operand 1.",
    code="""\
@triton.jit
def other_kernel(x_ptr, y_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x + tl.load(y_ptr + at)))
    tl.store(x_ptr + at, 2 * x)


def step(x):
    h, y = x + 1, x * 3
    sums = jax.ShapeDtypeStruct((h.shape[0],), h.dtype)
    sums, y = call_in_place(h, y, kernel=other_kernel, written=1, outputs=(sums,), grid=(8,), COLUMNS=32)
    return {"sums": sums, "rows": y, "columns": h.sum(0)}


CASE = Case(name="other_declared", function=step, args=(Arg(shape=(8, 32)),))
""",
)

RIGHTLY_DECLARED = make_example(
    about="The declaration matches the kernel: it overwrites operand 0, and XLA knows it.",
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
    kind=RuleKind.CONTRADICTION,
    party=Party.KERNEL,
    summary="the declared effects of a custom call are not its real ones",
    what_it_does="""\
Compares each declaration, in a case's `effects` or in `[tool.ligerdiag.effects]`, with what the call's own Triton IR or
the table of known targets says about the same operand. Reports a write that is not declared, a declared write that
surely does not happen, a read that the named reads omit, and an operand that the call does not have.

Also checks what a custom call of a dump declares in `output_to_operand_aliasing`: the output and the operand must
exist, have one element type and the same dimensions, be named once, and share bytes in the buffer assignment. ligerdiag
ignores any other entry, so that a write of that operand is a hidden write.

Reports an alias of an operand that the kernel never writes, if the kernel writes an operand that no output aliases: the
call declares the wrong one.""",
    why="""\
ligerdiag believes a declaration if it cannot follow the call. A declaration that is wrong where it can be
checked is outdated or under the wrong name, and may be wrong elsewhere, too. An alias that does not exist would
hide a write. XLA refuses an alias of a missing operand or of another shape, so a dump with such an entry was
changed after it was written. XLA does not refuse two operands that are declared to alias one output: it puts
all three into the same bytes.""",
    what_to_do="""\
Fix the declaration or remove it: a kernel whose IR can be followed needs none.""",
    limits="""\
A declaration for a call whose effects are unknown cannot be checked; the report names it in its notes.""",
    references=("docs/effects.md: what is followed, and what can be declared",),
    bad=(WRONGLY_DECLARED, OTHER_DECLARED),
    good=(RIGHTLY_DECLARED,),
    check=check,
)
