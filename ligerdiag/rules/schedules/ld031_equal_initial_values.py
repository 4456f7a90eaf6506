"""LD031 equal-initial-values: XLA computes two equal values only once, and then copies the value for each operation that
overwrites it.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.model.memory import CopyCause
from ligerdiag.rules.memory_findings import group_copies, report_copies
from ligerdiag.rules.rule import Example, Rule, RuleKind

_AUTHORS = (
    "make each of them by `jnp.zeros` or another constant, which XLA writes twice instead of copying, or keep both in one"
    " array"
)
_MADE_BY_JAX = (
    "these are the empty results of a scan, or of its derivative: let the scan return one array instead of several of the"
    " same shape, or carry the results in its state"
)


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each value that XLA computes once and then copies for several writers.

    The finding is only a note if JAX made the value, and no line of the program did.
    """
    for group in group_copies(context, (CopyCause.EQUAL_VALUES,)):
        is_authors = bool(group[0].reason.blamed[0].op_name)
        remedy = _AUTHORS if is_authors else _MADE_BY_JAX
        yield report_copies(context, RULE, group, remedy, severity=None if is_authors else Severity.NOTE)


_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""

EQUAL = Example(
    about="Both buffers start from a number that the program computes, so XLA makes one array of it and copies that.",
    code=f"""{_BEFORE}def decode(q):
    zero = q[0, 0] * 0
    k, v = jnp.full((1024, 512), zero), jnp.full((1024, 512), zero)

    def step(i, carry):
        k, v = carry
        return k.at[i].set(q[0]), v.at[i].set(2 * q[1])

    return jax.lax.fori_loop(0, 16, step, (k, v))


CASE = Case(name="equal", function=decode, args=(Arg(shape=(4, 512)),))
""",
)

ZEROS = Example(
    about="Both buffers are constant zeros, which XLA writes twice.",
    code=f"""{_BEFORE}def decode(q):
    k, v = jnp.zeros((1024, 512)), jnp.zeros((1024, 512))

    def step(i, carry):
        k, v = carry
        return k.at[i].set(q[0]), v.at[i].set(2 * q[1])

    return jax.lax.fori_loop(0, 16, step, (k, v))


CASE = Case(name="zeros", function=decode, args=(Arg(shape=(4, 512)),))
""",
)

RULE = Rule(
    id="LD031",
    name="equal-initial-values",
    severity=Severity.WARNING,
    summary="two equal values are computed only once, and copied for each operation that overwrites one of them",
    what_it_does="""\
Looks for copies of a value that is cheap to compute, such as a broadcast number, from which several operations in place
start: loops, updates, aliased calls.""",
    why="""\
XLA's common subexpression elimination sees two equal values and keeps one. Operations in place then need one each, so XLA
copies what it has just merged; in a loop it does so in every iteration. If a kernel hides its write, the merged value is
worse than slow: both kernels write into the same array (LD008).""",
    what_to_do="""\
Start from constants (`jnp.zeros`), which XLA writes twice; keep both arrays in one; or let the kernel write an output
instead of an array of zeros.""",
    limits="""\
Copies below 64 KiB do not count. Where the value is expensive and the program itself starts both from it, the copy is
needed, and is in the report alone.""",
    references=("github.com/openxla/xla, xla/service/hlo_cse.cc",),
    bad=(EQUAL,),
    good=(ZEROS,),
    check=check,
    kind=RuleKind.COPY,
)
