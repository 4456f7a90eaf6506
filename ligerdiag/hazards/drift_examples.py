"""Examples of LD015: a file as it was when the baseline was recorded, and as it is when it is checked."""

from ligerdiag.hazards.examples import KERNEL
from ligerdiag.hazards.rule import Example

_STEP = """\
def step(chunks, w):
    def body(total, x):
        h = x @ w
        sums = sum_and_double(h)
{barrier}        return total + sums.sum(), h @ w.T  # h is meant to be doubled by now

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {{"total": total, "back": back{more}}}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
"""
_BARRIER = "        h, sums = jax.lax.optimization_barrier((h, sums))\n"

REMOVED_BARRIER = Example(
    about="Somebody took the barrier for superfluous, and the product now reads before the kernel.",
    recorded=KERNEL + _STEP.format(name="released", barrier=_BARRIER, more=""),
    code=KERNEL + _STEP.format(name="released", barrier="", more=""),
)

OTHER_VALUE = Example(
    about="The program has one output more, which has nothing to do with the kernel; around that all is as it was.",
    recorded=KERNEL + _STEP.format(name="unconcerned", barrier=_BARRIER, more=""),
    code=KERNEL + _STEP.format(name="unconcerned", barrier=_BARRIER, more=', "norm": (w * w).sum()'),
)
