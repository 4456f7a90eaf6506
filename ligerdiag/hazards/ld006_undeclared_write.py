"""LD006 undeclared-write: the kernel's IR writes an operand that no output aliases."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.declared import is_declared
from ligerdiag.findings import Finding, Severity
from ligerdiag.hazards.examples import ALIASED, MATMUL_GRADIENT
from ligerdiag.hazards.reports import UNDECLARED_WRITE
from ligerdiag.hazards.rule import Rule
from ligerdiag.hazards.wording import (
    describe_accesses,
    describe_callers,
    describe_remedy,
    describe_value,
    locate_call,
)


def check(context: Context) -> Iterator[Finding]:
    """One finding for each hidden write."""
    for write in context.writes:
        if write.unknown:
            continue
        performed = context.optimized_call(write)
        call = locate_call(context, write)
        value = write.call.operands[write.operand]
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"`{write.kernel}` writes operand {write.operand}, `{describe_value(value)}`, and no output aliases it",
            source=call.line,
            kernel=write.kernel,
            operand=write.operand,
            instructions=(performed.name if performed is not None else write.call.name,),
            evidence=(
                *describe_callers(call),
                ("kernel", _describe_kernel(context, write)),
                *describe_accesses(context, write),
            ),
            help=describe_remedy(context, write),
            call=call,
        )


def _describe_kernel(context: Context, write: HiddenWrite) -> str:
    """Where the write is known from."""
    effects = next((effects for call, effects in context.calls if call is write.call), None)
    if effects is not None and is_declared(effects.operand_uses[write.operand]):
        return effects.operand_uses[write.operand].reason
    return f"the Triton IR of `{write.kernel}` stores through the pointer of that operand"


RULE = Rule(
    id="LD006",
    name="undeclared-write",
    severity=Severity.WARNING,
    summary="the kernel's IR writes an operand that no output aliases",
    what_it_does="""\
Follows the pointers of every store, atomic and descriptor store of the kernel's Triton IR, as it travels in the compiled
program, back to the function's arguments, and compares with the call's `output_to_operand_aliasing`. Nothing that the
program's author declares elsewhere is believed.""",
    why="""\
It is the root of LD001 to LD005. Where every output is fresh in spite of it, the order is forced by something else, such as
a workaround, which may cost precision or fail under sharding.""",
    what_to_do="""\
Declare the write, and read the declared output instead of the operand.""",
    limits="""\
A masked store counts as a store: that a mask is never true is not proved.""",
    references=("github.com/NVIDIA/warp/issues/745", "github.com/SpeedyWeather/SpeedyWeather.jl/pull/985"),
    reproduced=UNDECLARED_WRITE,
    bad=(MATMUL_GRADIENT,),
    good=(ALIASED,),
    check=check,
)
