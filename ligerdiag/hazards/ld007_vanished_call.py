"""LD007 vanished-call: a kernel that is called for its effect is not in the compiled program."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.vanished import DroppedBy
from ligerdiag.findings import Finding, Severity
from ligerdiag.hazards.examples import ALIASED, NO_OUTPUTS
from ligerdiag.hazards.reports import VANISHED_CALL
from ligerdiag.hazards.rule import Rule
from ligerdiag.hazards.vanished_examples import REPLACED_FUNCTION, UNUSED_RESULT, UNUSED_SUM


def check(context: Context) -> Iterator[Finding]:
    """One finding for each call that is not run."""
    for call in context.vanished:
        if call.write in context.matching.merged:
            continue  # it runs, as one with its twin: LD008
        if call.dropped_by is DroppedBy.XLA:
            reason = "XLA found no use for its outputs and removed it"
        elif call.outputs == 0:
            reason = "it has no outputs, and JAX drops such a call before XLA sees it"
        else:
            reason = "nothing uses its outputs, and JAX drops such a call before XLA sees it"
        message = f"`{call.kernel}` is called for its effect and is not in the compiled program"
        if call.unknown:
            message = f"`{call.kernel}` is not in the compiled program, and what it overwrites could not be told"
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=message,
            source=call.source,
            kernel=call.kernel,
            evidence=(("call", reason),),
            help="give the call an output that aliases what it writes, and use that output",
        )


RULE = Rule(
    id="LD007",
    name="vanished-call",
    severity=Severity.ERROR,
    summary="a kernel called for its effect is missing from the compiled program",
    what_it_does="""\
Compares the kernel calls of the traced jaxpr with those of the module that JAX lowered, and these with the optimized
module. A call is reported when it has no outputs at all, or when it overwrites an operand that none of its outputs stands
for and something may read one of its operands later. What a `custom_vjp` or `custom_jvp` asks for whose rule takes its place
was never to run.""",
    why="""\
JAX and XLA remove what nobody uses. A kernel whose only purpose is to scale a gradient in place is, to them, a call that
does nothing: the gradient stays unscaled, silently.""",
    what_to_do="""\
Return what the kernel writes as an output, aliased to the operand, and use that output.""",
    limits="""\
Calls are told apart by kernel name and source line: of several calls on one line in one function, one that is dropped can
hide behind one that is kept.""",
    references=(
        "github.com/jax-ml/jax/issues/3829",
        "github.com/jax-ml/jax/issues/11620",
        "github.com/NVIDIA/warp/pull/1240",
    ),
    reproduced=VANISHED_CALL,
    bad=(NO_OUTPUTS, UNUSED_SUM),
    good=(ALIASED, UNUSED_RESULT, REPLACED_FUNCTION),
    check=check,
)
