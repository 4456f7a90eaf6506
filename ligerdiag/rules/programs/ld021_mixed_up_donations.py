"""LD021 mixed-up-donations: XLA gives donated arguments one buffer, and no kernel is to blame."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import Example, Reproduction, Rule
from ligerdiag.text import join_words


def check(context: Context) -> Iterator[Finding]:
    """Reports the arguments, once for a module."""
    found = context.mixed_up
    if found is None:
        return
    numbers = [str(number) for number in sorted(found.parameters)]
    when = "" if found.is_seen else " when XLA compiles on the machine with the GPU"
    yield Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"the donated arguments {join_words(numbers)} get one buffer{when}: who reads one gets another one",
        outputs=tuple([name for n, name in enumerate(context.verdicts.outputs) if n in found.outputs]),
        source=find_user_line(context.optimized, found.value),
        instructions=(found.value.name,),
        evidence=(("reason", _SEEN if found.is_seen else _KNOWN),),
        help="do not donate these arguments, or return a value of its own in the place of each",
    )


_SEEN = "the buffer assignment has an entry parameter in another one's allocation"
_KNOWN = (
    "one value of one element is returned in the place of all of them, and they are returned as they are, too; compiled for"
    " a GPU that is not there, XLA still makes the copies that this needs"
)

_BEFORE = """\
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""
_STATE = "\n\nSTATE = tuple(Arg(shape=(), donate=True) for _ in range(3))\n"

ONE_VALUE_FOR_ALL = Example(
    about="Three metrics are handed out, and one value starts all of them anew.",
    code=f"""{_BEFORE}def step(metrics, value):
    start = jnp.tanh(value)
    return tuple(start for _ in metrics), metrics
{_STATE}CASE = Case(name="new_first", function=step, args=(STATE, Arg(shape=())))
""",
)

STATE_FIRST = Example(
    about="The state comes first among the outputs: XLA takes these for the ones that stand in the arguments' place.",
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
    summary="donated arguments that get one buffer from XLA: outputs are wrong without any kernel",
    what_it_does="""\
Reports donated arguments that share a buffer in XLA's buffer assignment, as a compile on the machine with the GPU leaves
it. A compile for a GPU that is not there never shows that: there the rule reports the programs in which XLA is known
to do it.""",
    why="""\
XLA lets an output stand in the bytes of a donated argument and copies what would be lost. Where one value stands in the
place of several arguments, it leaves out copies that it needs, and the program reads one argument where it means another.
Nothing fails, and the numbers are wrong: of the six in the first example two, on an H200.""",
    what_to_do="""\
Return the old state before the new one, give each argument a value of its own, or do not donate arguments of one element: a
copy of them costs nothing.""",
    limits="""\
What XLA is known to do was seen with jaxlib 0.11.2 on an H200: it takes a computed value of one element, three donated
arguments or more, and two of them returned as they are. The other forms that were tried were right there and are not
reported. Other versions may differ.""",
    references=("github.com/jax-ml/jax/issues/39625",),
    reproduced=(
        Reproduction(
            report="jax-ml/jax#39625",
            case="donated_outputs[donated-last]",
            reproduced=(
                "the program, and on an H200 its two wrong numbers: `inspect` finds the shared buffer in that run's dump"
            ),
            missing="the same compile for a GPU that is not there: XLA makes all copies, and its numbers are right",
        ),
    ),
    bad=(ONE_VALUE_FOR_ALL,),
    good=(STATE_FIRST,),
    check=check,
    explains=Verdict.UNKNOWN,
)
