"""LD014 unknown-effect: the effects of a custom call on its operands are unknown."""

import re
from collections.abc import Iterator, Sequence

from ligerdiag.analysis.context import Context
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.effects.call import carries_kernel, find_aliased
from ligerdiag.effects.declared import NOT_TRUSTED
from ligerdiag.effects.libtriton import NOT_UNDERSTOOD
from ligerdiag.hlo.dataflow import is_custom_partitioning
from ligerdiag.hlo.module import HloInstruction, find_user_line
from ligerdiag.missing_packages import NOT_INSTALLED
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import ALIASED, Reproduction, Rule, RuleKind, make_example
from ligerdiag.text import join_words

UNTIL_THEN = "; until then, outputs that depend on the call count as unknown"
IN_THE_KERNEL = "in the kernel, write only through pointers that are derived from those of its operands"
IN_THE_SHARDS = "call the same kernels, equally often, on the shards as on whole arrays; or declare what they overwrite"
BY_DECLARATION = "declare under `[tool.ligerdiag.effects.{}]` what it overwrites: `writes = []` for nothing"
BY_INSTALLATION = "install the package that the reason names, and inspect the dump again"
OR_ELSEWHERE = ", or inspect it with the Triton version that compiled it"
BY_NUMBER = "name the operands that it overwrites under `[tool.ligerdiag.effects.{}]`: `writes = {}`"
OR_TRUSTED = ', `writes = "aliased"` for only the operands that its outputs alias'

_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)
"""Matches a name that needs no quotes as a key of TOML."""


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each call that accesses operands in an unknown way.

    Operands that an output aliases do not count, because XLA knows of that write.
    """
    unknown_by_call = {w.call.id: w.index for w in context.writes if w.unknown}
    for call, effects in context.calls:
        operands = [
            number
            for number, access in enumerate(effects.operands)
            if access is Access.UNKNOWN and number not in call.operand_output_aliases
        ]
        if not operands:
            continue
        write = unknown_by_call.get(call.id)
        names = tuple(
            name
            for name, output in context.verdicts.outputs.items()
            if any(c.write == write and c.verdict is Verdict.UNKNOWN for c in output.causes)
        )
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"the effect of `{effects.kernel}` on {_name_operands(operands)} is unknown",
            outputs=names,
            source=find_user_line(context.program, call),
            kernel=effects.kernel,
            operand=operands[0],
            instructions=(call.name,),
            evidence=tuple(("reason", reason) for reason in effects.reasons),
            help=_advise(call, effects, is_trusted=find_aliased(call) is not None) + UNTIL_THEN,
        )


def _name_operands(numbers: Sequence[int]) -> str:
    return f"operand{'s' if len(numbers) > 1 else ''} {join_words([str(number) for number in numbers])}"


def _advise(call: HloInstruction, effects: CallEffects, *, is_trusted: bool) -> str:
    name = effects.kernel if _BARE_KEY.fullmatch(effects.kernel) else f'"{effects.kernel}"'
    if any(NOT_INSTALLED in reason for reason in effects.reasons):
        return BY_INSTALLATION
    if carries_kernel(call.proto.custom_call_target) and not any(NOT_TRUSTED in one for one in effects.reasons):
        is_read = not any(NOT_UNDERSTOOD in reason for reason in effects.reasons)
        return IN_THE_KERNEL if is_read else BY_DECLARATION.format(name) + OR_ELSEWHERE
    if is_custom_partitioning(call):
        return IN_THE_SHARDS
    if any(reason.startswith(NOT_TRUSTED) for reason in effects.reasons):
        return BY_NUMBER.format(name, sorted(call.operand_output_aliases))
    return BY_DECLARATION.format(name) + (OR_TRUSTED if is_trusted else "")


FORGED_POINTER = make_example(
    about="The kernel stores through a pointer made from an integer: it could hit anything.",
    code="""\
@triton.jit
def forging_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    forged = x_ptr.to(tl.uint64).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + at, tl.load(x_ptr + at))
    tl.store(forged + at, 0.0)


def step(x):
    h = x + 1
    copy = jt.triton_call(h, kernel=forging_kernel, out_shape=h, grid=h.shape[:1], COLUMNS=h.shape[1])
    return {"copy": copy, "h": h}


CASE = Case(name="forges", function=step, args=(Arg(shape=(8, 32)),))
""",
)

RULE = Rule(
    id="LD014",
    name="unknown-effect",
    severity=Severity.WARNING,
    kind=RuleKind.UNKNOWN_EFFECT,
    summary="it is unknown which operands a kernel or another custom call overwrites",
    what_it_does="""\
Reports every custom call whose payload could not be followed: pointers made from integers or loaded from memory, inline
assembly that names an address, an unknown operation, a payload of another kind, a target without a table entry.""",
    why="""\
Such a call may overwrite any of its operands. Counting it as harmless is the one mistake that this tool must
not make.""",
    what_to_do="""\
Write through pointers that are derived from the operand's own pointer. For a call of a library function, declare what
it overwrites: `writes = "aliased"` under `[tool.ligerdiag.effects.my_target]` trusts the call's own aliases.""",
    limits="""\
Every output that depends on the call, in the program or in the schedule, is unknown.""",
    references=("github.com/pytorch/pytorch/issues/129372 (users ask for a pessimistic mode)",),
    reproduced=(
        Reproduction(
            report="pytorch/pytorch#129372",
            case="unknown_effect[hidden]",
            reproduced=(
                "a kernel that cannot be analysed: every output that depends on it is unknown, the other one is fresh"
            ),
            missing=(
                "a mode that assumes that it writes everything: unknown outputs stay unknown. The thread itself could "
                "not be read"
            ),
        ),
    ),
    bad=(FORGED_POINTER,),
    good=(ALIASED,),
    check=check,
    explains=Verdict.UNKNOWN,
)
