"""LD030 copying-branch: a branch of a conditional copies its operand, although the branch only returns it unchanged."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.model.memory import CopyCause
from ligerdiag.rules.memory_findings import group_copies, report_copies
from ligerdiag.rules.rule import Example, Rule, RuleKind

_UNCHANGED = (
    "compute the result in place in all branches, or replace the conditional by `jnp.where`; XLA does not make the copy"
    " after the conditional if the operand is not donated, and perhaps, before jax 0.11, if the first branch returns it"
)
_EXCHANGED = "choose element by element with `jnp.where(p, b, a)`, or exchange the arrays outside of the program"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each conditional that causes copies, in its branches or after them."""
    for group in group_copies(context, (CopyCause.BRANCH_UNCHANGED, CopyCause.BRANCH_EXCHANGED)):
        is_exchanged = group[0].copy.cause is CopyCause.BRANCH_EXCHANGED
        yield report_copies(context, RULE, group, _EXCHANGED if is_exchanged else _UNCHANGED)


_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""

NOTHING_TO_DO = Example(
    about="One branch multiplies; the other one returns its operand, and has to copy it to the bytes of the product.",
    code=f"""{_BEFORE}def step(p, x, w):
    return jax.lax.cond(p, lambda x: x @ w, lambda x: x, x)


CASE = Case(
    name="skipped",
    function=step,
    args=(Arg(shape=(), dtype="bool"), Arg(shape=(1024, 1024), donate=True), Arg(shape=(1024, 1024))),
)
""",
)

EXCHANGED = Example(
    about="One branch exchanges two arrays: both branches copy.",
    code=f"""{_BEFORE}def step(p, a, b):
    return jax.lax.cond(p, lambda a, b: (b, a), lambda a, b: (a, b), a, b)


ARRAY = Arg(shape=(512, 512), donate=True)
CASE = Case(name="exchanged", function=step, args=(Arg(shape=(), dtype="bool"), ARRAY, ARRAY))
""",
)

IN_PLACE = Example(
    about="The branch that does something writes in place, so the other one has nothing to copy.",
    code=f"""{_BEFORE}def step(p, x):
    return jax.lax.cond(p, lambda x: x.at[0].set(1.0), lambda x: x, x)


CASE = Case(name="write", function=step, args=(Arg(shape=(), dtype="bool"), Arg(shape=(512, 512), donate=True)))
""",
)

RULE = Rule(
    id="LD030",
    name="copying-branch",
    severity=Severity.WARNING,
    summary="a branch of a conditional that should change nothing copies its operand",
    what_it_does="""\
Looks for copies in the branches of a `conditional` (`lax.cond`, `lax.switch`) from an operand to a result, or from a value
that the branch computes to the bytes of an operand that another branch returns, and for the copies of its results.""",
    why="""\
All branches put a result into the same bytes. If one branch computes it in bytes of its own, a branch that returns its
operand has to copy it there, and both may be copied once more to where a donated argument or a loop's state is. So the
branch that does nothing, which is often the usual one, moves the whole array twice.""",
    what_to_do="""\
Write in place in the branch that does something, choose with `jnp.where`, or leave the array out of the conditional and
return only what changes.""",
    limits="""\
Copies below 64 KiB do not count. Before jax 0.11 XLA copied more: compare the toolchains.""",
    references=("github.com/openxla/xla, xla/service/copy_insertion.cc", "github.com/jax-ml/jax/issues/39449"),
    bad=(NOTHING_TO_DO, EXCHANGED),
    good=(IN_PLACE,),
    check=check,
    kind=RuleKind.COPY,
)
