"""Examples of caller-clobbered: whole case files around the kernel of `examples`."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

OVERWRITTEN_ARGUMENT = Example(
    about="The sums are right, and the caller's array is doubled.",
    code=KERNEL
    + """\
def step(x):
    return {"sums": sum_and_double(x)}


CASE = Case(name="argument", function=step, args=(Arg(shape=(8, 32)),))
""",
)

CONSTANT_LOGITS = Example(
    about="The program's own constant is doubled once more by every execution.",
    code=KERNEL
    + """\
def step(x):
    table = jnp.asarray(np.arange(256, dtype=np.float32).reshape(8, 32))
    return {"sums": sum_and_double(table) + x}


CASE = Case(name="constant_table", function=step, args=(Arg(shape=(8,)),))
""".replace("def step", "import numpy as np\n\n\ndef step", 1),
)

DECLARED_ARGUMENT = Example(
    about="With the write declared, the kernel doubles a copy.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x):
    _, sums = sum_and_double_declared(x)
    return {"sums": sums}


CASE = Case(name="declared_argument", function=step, args=(Arg(shape=(8, 32)),))
""",
)

DONATED_ARGUMENT = Example(
    about="The caller gives the array away, and its bytes become those of the doubled rows.",
    code=KERNEL
    + """\
def step(x):
    sums = sum_and_double(x)
    return {"sums": sums, "doubled": x}


CASE = Case(name="donated_argument", function=step, args=(Arg(shape=(8, 32), donate=True),))
""",
)
