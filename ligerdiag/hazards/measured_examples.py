"""Examples of the rules that look at numbers: whole case files around the kernel of `examples`."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

_REVERSAL = """\
@triton.jit
def reverse_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    tl.store(out_ptr + row * COLUMNS + column, tl.load(x_ptr + (ROWS - 1 - row) * COLUMNS + column))


def reverse(x, **aliases):
    rows, columns = x.shape
    return jt.triton_call(x, kernel=reverse_kernel, out_shape=x, grid=(rows,), ROWS=rows, COLUMNS=columns, **aliases)


"""

REVERSED_IN_PLACE = Example(
    about="Rows in reverse, in place: the last rows are read when the first ones stand in them already.",
    code=KERNEL
    + _REVERSAL
    + """\
def step(x):
    return {"reversed": reverse(x + 1, input_output_aliases={0: 0})}


CASE = Case(name="reversed_in_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)

REVERSED_OUT_OF_PLACE = Example(
    about="The same kernel with bytes of its own for the output.",
    code=KERNEL
    + _REVERSAL
    + """\
def step(x):
    return {"reversed": reverse(x + 1)}


CASE = Case(name="reversed_out_of_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)

LOSSY_SUM = Example(
    about="A large sum orders the reader after the kernel, and leaves little of what it reads.",
    code=KERNEL
    + """\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    large = 1e5 * jnp.abs(sums).sum()
    h = h + large
    h = h - large
    return {"sums": sums, "back": h @ w.T}


def reference(x, w):
    h = x @ w
    return {"sums": h.sum(1), "back": 2 * h @ w.T}


CASE = Case(name="lossy", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))), reference=reference)
""",
)

HALF_WRITTEN = Example(
    about="The grid covers half of the output's rows.",
    code=KERNEL
    + """\
@triton.jit
def copy_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


def step(x):
    copy = jt.triton_call(x, kernel=copy_kernel, out_shape=x, grid=(x.shape[0] // 2,), COLUMNS=x.shape[1])
    return {"copy": copy}


CASE = Case(name="half_written", function=step, args=(Arg(shape=(8, 32)),))
""",
)

REFERENCE_OF_ANOTHER = Example(
    about="The author means the rows from before the kernel; as written, the product reads the doubled ones.",
    code=KERNEL
    + """\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sums": sums, "back": h @ w.T}


def reference(x, w):
    h = x @ w
    return {"sums": h.sum(1), "back": h @ w.T}


CASE = Case(name="meant_before", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))), reference=reference)
""",
)

SAME_AS_REFERENCE = Example(
    about="With the write declared, `h` is what it was before the kernel.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x, w):
    h = x @ w
    _, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": h @ w.T}


def reference(x, w):
    h = x @ w
    return {"sums": h.sum(1), "back": h @ w.T}


CASE = Case(name="kept_before", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))), reference=reference)
""",
)

RACING_ROWS = Example(
    about="Thousands of programs add to one number by an atomic; the order of the additions is another one in each run.",
    code=KERNEL
    + """\
@triton.jit
def total_kernel(x_ptr, zero_ptr, total_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + at)))


def step(x):
    total = jt.triton_call(
        x,
        jnp.zeros(()),
        kernel=total_kernel,
        out_shape=jax.ShapeDtypeStruct((), x.dtype),
        input_output_aliases={1: 0},
        grid=x.shape[:1],
        COLUMNS=x.shape[1],
    )
    return {"total": total}


CASE = Case(name="atomic_total", function=step, args=(Arg(shape=(4096, 32)),))
""",
)
