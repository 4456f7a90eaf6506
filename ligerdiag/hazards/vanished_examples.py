"""Examples of vanished-call: whole case files around the kernel of `examples`."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

UNUSED_SUM = Example(
    about="The call is made for the doubled rows; its sums are not used, and JAX drops it.",
    code=KERNEL
    + """\
def step(x):
    h = x + 1
    sum_and_double(h)
    return {"doubled": h}


CASE = Case(name="unused_sum", function=step, args=(Arg(shape=(8, 32)),))
""",
)

UNUSED_RESULT = Example(
    about="The kernel overwrites nothing that it is given: where its result is not used, nothing is lost.",
    code=KERNEL
    + """\
@triton.jit
def sum_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(sum_ptr + row, tl.sum(tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS))))


def step(x):
    h = x + 1
    sums = jax.ShapeDtypeStruct(h.shape[:1], h.dtype)
    jt.triton_call(h, kernel=sum_kernel, out_shape=sums, grid=h.shape[:1], COLUMNS=h.shape[1])
    return {"h": h}


CASE = Case(name="unused_result", function=step, args=(Arg(shape=(8, 32)),))
""",
)

REPLACED_FUNCTION = Example(
    about="In the body of a map JAX traces the function and then puts its rule in its place: that calls the kernel, too.",
    code=KERNEL
    + ALIASED_CALL
    + """\
@jax.custom_vjp
def squares(x):
    return sum_and_double_declared(x)[1].sum()


def forward(x):
    doubled, sums = sum_and_double_declared(x)
    return sums.sum(), doubled


squares.defvjp(forward, lambda doubled, g: (g * doubled,))


def step(chunks, w):
    def loss(w):
        return jax.lax.map(lambda x: squares(x @ w), chunks).sum()

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


CASE = Case(name="replaced", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)
