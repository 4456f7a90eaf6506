"""A donated argument whose output is sharded in another way than the argument: the donation cannot be met.

Structure: two devices; the donated argument is on both as a whole, and the output that should take its bytes is constrained
to halves. In the report XLA then fails with unequal sizes of input and output.

The right answer: the argument has 16 KiB on each device, the output 8 KiB, so no output can take the argument's bytes: the
donation is void, and the reason is the sharding of `x`. The cured twin passes the argument in as halves.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def step(x, y):
    x = x + 1.0  # at: sum
    x = jax.lax.with_sharding_constraint(x, jax.P("x"))  # at: constraint
    return {"x": x, "y": y * 2.0}


MESH = {"x": 2}
Y = Arg(shape=(4096,), partition=("x",))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/25346",
    year=2024,
    versions="jax 0.4.36, two GPUs",
    kind=Kind.VOID_DONATION,
    reported="donation fails if XLA infers another sharding for the output than the argument has",
    finds=Wrong(at=("sum", "constraint")),
)
BAD = Case(name="jax_25346", params=("bad",), function=step, args=(Arg(shape=(4096,), donate=True), Y), mesh=MESH)
CURED = Case(
    name="jax_25346",
    params=("cured",),
    function=step,
    args=(Arg(shape=(4096,), donate=True, partition=("x",)), Y),
    mesh=MESH,
)
CASES = (BAD, CURED)
