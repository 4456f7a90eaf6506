"""The examples of LD018: kernels with a declaration."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

_STEP = """\
def step(x):
    doubled, sums = sum_and_double_declared(x + 1)
    return {"sums": sums, "columns": doubled.sum(0)}


"""

WRONGLY_DECLARED = Example(
    about="The kernel doubles its operand in place, and is declared to read it only.",
    code=KERNEL
    + """\
def step(x):
    h = x + 1
    return {"sums": sum_and_double(h), "columns": h.sum(0)}


CASE = Case(name="read_only", function=step, args=(Arg(shape=(8, 32)),), effects={"double_kernel": {"writes": []}})
""",
)

RIGHTLY_DECLARED = Example(
    about="What is declared is what the kernel does: it reads its operand, and the alias is XLA's own affair.",
    code=KERNEL
    + ALIASED_CALL
    + _STEP
    + """\
CASE = Case(name="as_declared", function=step, args=(Arg(shape=(8, 32)),), effects={"aliased_kernel": {"writes": []}})
""",
)
