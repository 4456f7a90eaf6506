"""LD006 undeclared-write: a kernel writes an operand that no output of the call aliases, so XLA does not know of the
write.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.declared import is_declared
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import ALIASED, Reproduction, Rule, RuleKind, make_example, report_write
from ligerdiag.rules.wording import describe_accesses, describe_callers, describe_value, locate_call


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each hidden write."""
    for write in context.writes:
        if write.unknown or write.output is not None:
            continue
        performed = context.optimized_call(write)
        shape = describe_value(write.call.operands[write.operand])
        yield report_write(
            context,
            RULE,
            write,
            f"`{write.kernel}` writes operand {write.operand}, `{shape}`, and no output aliases it",
            instructions=((performed or write.call).name,),
            evidence=(
                *describe_callers(locate_call(context, write)),
                ("kernel", _describe_kernel(context, write)),
                *describe_accesses(context, write),
                *_describe_freshness(context),
            ),
        )


def _describe_freshness(context: Context) -> Iterator[tuple[str, str]]:
    """Yields why the finding counts although every output is fresh, if that is so."""
    verdicts = context.verdicts.outputs.values()
    if verdicts and all(one.verdict is Verdict.FRESH for one in verdicts):
        yield (
            "note",
            "every output is fresh nevertheless: either none reads the operand afterwards, or something else, such as a"
            " barrier, forces the order. XLA still does not know of the write",
        )


def _describe_kernel(context: Context, write: HiddenWrite) -> str:
    """Returns a sentence on what shows that the kernel writes the operand."""
    effects = next((effects for call, effects in context.calls if call is write.call), None)
    if effects is not None and is_declared(effects.operand_uses[write.operand]):
        return effects.operand_uses[write.operand].reason
    return f"the Triton IR of `{write.kernel}` stores through the pointer of that operand"


MATMUL_GRADIENT = make_example(
    about="The kernel doubles its operand, and the call does not declare it.",
    code="""\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sums": sums, "back": h @ w.T}  # h is meant to be doubled by now


CASE = Case(name="matmul", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD006",
    name="undeclared-write",
    severity=Severity.WARNING,
    kind=RuleKind.HIDDEN_WRITE,
    summary="the kernel's IR writes an operand that no output aliases",
    what_it_does="""\
Follows the pointers of every store, atomic and descriptor store in the kernel's Triton IR, which travels in the
compiled program, back to the function's arguments, and compares the result with the call's
`output_to_operand_aliasing`. It trusts nothing that the author declares elsewhere.""",
    why="""\
This is the root of LD001 to LD005. If every output is fresh in spite of it, something else forces the order, such as a
workaround, which may cost precision or fail under sharding.""",
    what_to_do="""\
Declare the write with `ligerdiag.in_place.call_in_place`, and read what it returns instead of the operand.""",
    limits="""\
A masked store counts as a store: the rule does not try to prove that a mask is never true.""",
    references=("github.com/NVIDIA/warp/issues/745", "github.com/SpeedyWeather/SpeedyWeather.jl/pull/985"),
    reproduced=(
        Reproduction(
            report="NVIDIA/warp#745",
            case="accumulated_sum[argument-hidden]",
            reproduced="a kernel adds to an input by atomics, and the call only declares another output: found in its IR",
            missing="Warp and the FFI; the kernel here is Triton's",
        ),
        Reproduction(
            report="SpeedyWeather/SpeedyWeather.jl#985",
            case="sub_views[hidden]",
            reproduced=(
                "calls that overwrite parts of one array, and declare that they do not: found in their IR, and the "
                "gradients are stale"
            ),
            missing=(
                "the NaN, caused by overlapping live buffers: Reactant's calls on the CPU do declare "
                "their alias; here each kernel gets a copy of its slice"
            ),
        ),
    ),
    bad=(MATMUL_GRADIENT,),
    good=(ALIASED,),
    check=check,
)
