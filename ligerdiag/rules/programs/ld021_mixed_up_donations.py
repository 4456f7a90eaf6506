"""LD021 mixed-up-donations: XLA puts several donated arguments into one buffer, without any kernel being involved."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import Example, Reproduction, Rule, RuleKind
from ligerdiag.text import join_words


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding about all donated arguments that XLA puts into one buffer, if there are any."""
    found = context.mixed_up
    if found is None:
        return
    numbers = [str(number) for number in sorted(found.parameters)]
    when = "" if found.is_seen else " when XLA compiles on a machine with the GPU"
    shared = f"the donated arguments {join_words(numbers)} share one buffer{when}"
    yield Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"{shared}: a reader of one of them gets the value of another",
        outputs=tuple([name for n, name in enumerate(context.verdicts.outputs) if n in found.outputs]),
        source=find_user_line(context.optimized, found.value),
        instructions=(found.value.name,),
        evidence=(("reason", _SEEN if found.is_seen else _KNOWN),),
        help="do not donate these arguments, or return a separate value for each",
    )


_SEEN = "the buffer assignment puts an entry parameter into the allocation of another"
_KNOWN = (
    "the program returns one value of one element for all of them, and also returns them unchanged; XLA leaves out the"
    " copies that this needs, except in a compile for an absent GPU"
)

_BEFORE = """\
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""
_STATE = "\n\nSTATE = tuple(Arg(shape=(), donate=True) for _ in range(3))\n"

ONE_VALUE_FOR_ALL = Example(
    about="The program returns three metrics and restarts all of them from one value.",
    code=f"""{_BEFORE}def step(metrics, value):
    start = jnp.tanh(value)
    return tuple(start for _ in metrics), metrics
{_STATE}CASE = Case(name="new_first", function=step, args=(STATE, Arg(shape=())))
""",
)

STATE_FIRST = Example(
    about="The state comes first among the outputs, so XLA puts these into the arguments' buffers.",
    code=f"""{_BEFORE}def step(metrics, value):
    start = jnp.tanh(value)
    return metrics, tuple(start for _ in metrics)
{_STATE}CASE = Case(name="old_first", function=step, args=(STATE, Arg(shape=())))
""",
)

RULE = Rule(
    id="LD021",
    name="mixed-up-donations",
    severity=Severity.ERROR,
    kind=RuleKind.MIXED_DONATIONS,
    for_maintainers="donated arguments share one buffer, and an output gets the value of another argument",
    summary="donated arguments share one buffer, and outputs are wrong without any kernel",
    what_it_does="""\
Reports donated arguments that share a buffer in XLA's buffer assignment, as a compile on the machine with the GPU
produces it. A compile for an absent GPU never shows that; there the rule reports the programs for which XLA is known to
do it.""",
    why="""\
XLA lets an output use the bytes of a donated argument, and copies what would be lost. If one value is returned for
several arguments, XLA omits copies that it needs, and the program reads one argument instead of another. Nothing fails,
and the numbers are wrong: two of the six in the first example, on an H200.""",
    what_to_do="""\
Return the old state before the new one, give each argument a value of its own, or do not donate arguments of one
element: copying them costs nothing.""",
    limits="""\
The known pattern comes from jaxlib 0.11.2 on an H200: a computed value of one element, three or more donated arguments,
and two of them returned unchanged. The other forms that were tried were right and are not reported. Other versions may
differ.""",
    references=("github.com/jax-ml/jax/issues/39625",),
    reproduced=(
        Reproduction(
            report="jax-ml/jax#39625",
            case="donated_outputs[donated-last]",
            reproduced=(
                "the program and, on an H200, its two wrong numbers; `inspect` finds the shared buffer in that dump"
            ),
            missing="the same compile for an absent GPU: XLA makes all copies, and its numbers are right",
        ),
    ),
    bad=(ONE_VALUE_FOR_ALL,),
    good=(STATE_FIRST,),
    check=check,
    explains=Verdict.UNKNOWN,
)
