"""Examples of double-write: whole case files around the kernel of `examples`."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

TWO_ROWS = Example(
    about="Each call makes rows of its own of the values; XLA makes them one, and the second kernel gets doubled rows.",
    code=KERNEL
    + """\
@triton.jit
def negate_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, -x)


def sum_and_negate(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=negate_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def step(x, w):
    h = x @ w
    one = sum_and_double(h.reshape(-1, 32))
    two = sum_and_negate(h.reshape(-1, 32))
    return {"one": one, "two": two}


CASE = Case(name="two_rows", function=step, args=(Arg(shape=(2, 4, 16)), Arg(shape=(16, 32))))
""",
)

TWICE_ON_ONE_VALUE = Example(
    about="The rows are to be doubled twice; XLA takes the second call for the first.",
    code=KERNEL
    + """\
def step(x, w):
    h = x @ w
    one = sum_and_double(h)
    two = sum_and_double(h)
    return {"one": one, "two": two}


CASE = Case(name="twice", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

TWO_DECLARED_ROWS = Example(
    about="The doubled rows are an output of the first call, and the second call gets rows that nobody has overwritten.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x, w):
    h = x @ w
    doubled, one = sum_and_double_declared(h.reshape(-1, 32))
    again, two = sum_and_double_declared(doubled)
    _, three = sum_and_double_declared(h.reshape(-1, 32) + 1)
    return {"one": one, "two": two, "three": three, "again": again}


CASE = Case(name="two_declared_rows", function=step, args=(Arg(shape=(2, 4, 16)), Arg(shape=(16, 32))))
""",
)

MEANT_TWICE = Example(
    about="Two kernels on one value, the second after the first by its operands, as the author wrote it.",
    code=KERNEL
    + """\
@triton.jit
def shift_kernel(x_ptr, by_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at) + tl.load(by_ptr + row)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, x)


def sum_and_shift(x, by):
    return jt.triton_call(x, by, kernel=shift_kernel, out_shape=by, grid=x.shape[:1], COLUMNS=x.shape[1])


def step(x, w):
    h = x @ w
    return {"shifted": sum_and_shift(h, sum_and_double(h))}


CASE = Case(name="meant_twice", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)
