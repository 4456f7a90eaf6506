"""LD029 copied-carry: a loop copies a part of its state in every iteration."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.memory.copy_reason import CopyForm
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.model.memory import CopyCause
from ligerdiag.rules.memory_findings import COLLECTED, group_copies, report_copies
from ligerdiag.rules.rule import Example, Rule, RuleKind

_EXCHANGED = (
    "unroll the loop by the number of elements that change places (`unroll=2`), or select by the iteration's parity"
)
_REBUILT = "try `unroll=2`, which lets XLA alternate between two buffers, or compute the next value in place"
_ALIASED = "alias the loop's state in the call, so that the kernel writes the next value in place"


_BY_FORM = {CopyForm.COLLECTED: COLLECTED, CopyForm.ALIASED_ELSEWHERE: _ALIASED}


def check(context: Context) -> Iterator[Finding]:
    """Yields one finding for each loop that copies parts of its state. The finding is about all of these copies."""
    for group in group_copies(context, (CopyCause.CARRY_EXCHANGED, CopyCause.CARRY_REBUILT)):
        copy, form = group[0].copy, group[0].reason.form
        remedy = _EXCHANGED if copy.cause is CopyCause.CARRY_EXCHANGED else _REBUILT
        if copy.trips is None:
            remedy = f"{remedy}; only a loop with a known number of iterations can be unrolled"
        yield report_copies(context, RULE, group, _BY_FORM.get(form, remedy))


_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""

PING_PONG = Example(
    about="Two arrays change places in each iteration, which takes three copies.",
    code=f"""{_BEFORE}def play(a, b):
    return jax.lax.fori_loop(0, 16, lambda _, ab: (ab[1], ab[0]), (a, b))


ARRAY = Arg(shape=(512, 512), donate=True)
CASE = Case(name="ping_pong", function=play, args=(ARRAY, ARRAY))
""",
)

STENCIL = Example(
    about="The next value needs the neighbours of each element, so it is computed in other bytes.",
    code=f"""{_BEFORE}def smooth(u):
    def sweep(u, _):
        return 0.5 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0)), None

    return jax.lax.scan(sweep, u, None, length=16)[0]


CASE = Case(name="stencil", function=smooth, args=(Arg(shape=(512, 512), donate=True),))
""",
)

IN_PLACE = Example(
    about="Each iteration writes one row of the state.",
    code=f"""{_BEFORE}def fill(cache, rows):
    return jax.lax.fori_loop(0, 16, lambda i, cache: cache.at[i].set(rows[i]), cache)


CASE = Case(name="in_place", function=fill, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(16, 512))))
""",
)

RULE = Rule(
    id="LD029",
    name="copied-carry",
    severity=Severity.WARNING,
    summary="a loop copies a part of its state in every iteration",
    what_it_does="""\
Looks for copies in the body of a `while` (`scan`, `fori_loop`, `while_loop`) that bring the next value of the state to its
place: because the loop returns one element in the position of another one, or because the next value is computed in other
bytes than the old one. The trip count multiplies the bytes, if it is known.""",
    why="""\
The state of a loop has one place. If the body cannot write the next value there, XLA copies it there in every iteration: a
solver of a thousand steps moves its grid a thousand times for nothing.""",
    what_to_do="""\
`unroll=2` often removes the copy: with an even number of steps in one body, two buffers can alternate. A kernel should
alias the state itself. Elements need not change places if the loop selects them by the parity of the iteration.""",
    limits="""\
Copies below 64 KiB do not count. A trip count that depends on data is unknown: the bytes are those of one iteration.""",
    references=("github.com/openxla/xla, xla/service/copy_insertion.cc",),
    bad=(PING_PONG, STENCIL),
    good=(IN_PLACE,),
    check=check,
    kind=RuleKind.COPY,
)
