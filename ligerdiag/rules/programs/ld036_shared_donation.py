"""LD036 shared-donation: the caller passes one array as several arguments, and an output takes its bytes, so JAX
refuses the call.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.memory.copy_sources import Names
from ligerdiag.memory.donations import DonationClash
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Example, Rule
from ligerdiag.text import join_words

_MOST_NAMED = 4


def check(context: Context) -> Iterator[Finding]:
    """Yields one finding about all donated arrays that the caller passes as several arguments, if there are any."""
    memory = context.memory
    if memory is None or memory.names is None or not memory.clashes:
        return
    first, *others = memory.clashes
    more = ""
    if others:
        more = f"; the same holds for {len(others)} more array{'s' if len(others) > 1 else ''}"
    yield Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"{_describe(first, memory.names)}{more}",
        source=context.arguments_line,
        evidence=tuple(_list_evidence(memory.clashes, memory.names)),
        help="pass a copy of all but one of them: `jnp.copy(x)` for an array, `jax.tree.map(jnp.copy, tree)` for a tree",
    )


def _describe(clash: DonationClash, names: Names) -> str:
    passed = [names.name_argument(number) for number in sorted((clash.number, *clash.others))]
    given = [names.name_argument(number) for number in sorted((clash.number, *clash.taken))]
    if len(given) == len(passed):
        donated = "both are donated" if len(given) == 2 else "all are donated"
    else:
        donated = f"{join_words(given)} {'is' if len(given) == 1 else 'are'} donated"
    return f"{join_words(passed)} are one array, and {donated}: JAX refuses such a call"


def _list_evidence(clashes: tuple[DonationClash, ...], names: Names) -> Iterator[tuple[str, str]]:
    for clash in clashes[:_MOST_NAMED]:
        others = join_words([names.name_argument(number) for number in clash.others])
        yield (
            "bytes",
            f"output {names.name_output(clash.output)} takes those of {names.name_argument(clash.number)}, and {others}"
            f" {'lies' if len(clash.others) == 1 else 'lie'} in the same ones",
        )
    yield "runtime", f"the call ends with `{_find_answer(clashes[0])}`"


def _find_answer(clash: DonationClash) -> str:
    """Returns the words with which XLA's runtime refuses the call. It looks at the arguments in order."""
    given = {clash.number, *clash.taken}
    first, *rest = sorted((clash.number, *clash.others))
    if first not in given:
        return "Attempt to donate a buffer which is also used by the same call to Execute()"
    if rest[0] in given:
        return "Attempt to donate the same buffer twice in Execute()"
    return "Attempt to use a buffer that was previously donated in the same call to Execute()"


_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Case


def step(state, gradient):
    w = state["w"] - 0.1 * gradient
    return {"w": w, "average": 0.99 * state["average"] + 0.01 * w}


W = jnp.ones((256, 256))
GRADIENT = jnp.ones((256, 256))
"""

AVERAGE_IS_THE_WEIGHT = Example(
    about="The average of the weight starts from the weight itself, and `jax.tree.map` of an identity copies no array.",
    code=f"""{_BEFORE}PARAMS = {{"w": W}}
AVERAGES = jax.tree.map(lambda one: one, PARAMS)

CASE = Case(
    name="shared_average",
    function=jax.jit(step, donate_argnums=0),
    args=({{"w": PARAMS["w"], "average": AVERAGES["w"]}}, GRADIENT),
)
""",
)

ONE_ARRAY_TWICE = Example(
    about="The first argument is donated, and the second one is the same array.",
    code="""\
import jax
import jax.numpy as jnp

from ligerdiag import Case


def add(x, y):
    return x + y


X = jnp.ones((256, 256))
CASE = Case(name="add_twice", function=jax.jit(add, donate_argnums=0), args=(X, X))
""",
)

COPIED = Example(
    about="The average starts from a copy of the weight.",
    code=f"""{_BEFORE}
CASE = Case(
    name="copied_average",
    function=jax.jit(step, donate_argnums=0),
    args=({{"w": W, "average": jnp.copy(W)}}, GRADIENT),
)
""",
)

NOT_DONATED = Example(
    about="Nothing is donated: one array may be any number of arguments.",
    code=f"""{_BEFORE}
CASE = Case(name="kept_average", function=step, args=({{"w": W, "average": W}}, GRADIENT))
""",
)

RULE = Rule(
    id="LD036",
    name="shared-donation",
    severity=Severity.ERROR,
    summary="one array is several arguments of a call that gives its bytes away",
    what_it_does="""\
Reports arguments of one call that are the same JAX array, if the compiled module gives the bytes of at least one of them
to an output. Two arguments are the same array if they are one object, or if `jax.device_put` made one from the other
without a copy.""",
    why="""\
After the call a donated array is gone, and during the call an output is written into its bytes. If another argument lies
in the same bytes, the program would read what it has overwritten, or two outputs would be written into one place. JAX's
runtime refuses such a call, on each device, at its first execution; old versions hung. No compiler and no test of shapes
says so, because the compiled program is right: only the arrays of the call are not.""",
    what_to_do="""\
Give each argument an array of its own: `jnp.copy(x)`, or `jax.tree.map(jnp.copy, params)` for a state that starts as a
copy of another one. `jax.tree.map(lambda x: x, params)`, `jnp.asarray`, `x[:]`, `x.astype` to the same dtype and
`jax.device_put` to the same devices copy nothing.""",
    limits="""\
The rule needs the arrays of the call: `ligerdiag.check` with the real state, or a case with JAX arrays. An `Arg`, a
`jax.ShapeDtypeStruct`, a Python number and a NumPy array say nothing: JAX makes an array of its own for each use of a NumPy
array. Nor is there anything to find if no output takes the bytes (LD028), or if the function never reads an argument, which
JAX then leaves out of the call. A variable of NNX that is in a module twice is passed once by `nnx.jit`. On a CPU, JAX
copies what it donates of arrays that share memory by DLPack, so they do not count there. A dump has no arguments.""",
    references=(
        "github.com/jax-ml/jax/issues/9635",
        "github.com/openxla/xla, xla/pjrt/utils.cc (TestBufferDonationClashes)",
    ),
    bad=(AVERAGE_IS_THE_WEIGHT, ONE_ARRAY_TWICE),
    good=(COPIED, NOT_DONATED),
    check=check,
)
