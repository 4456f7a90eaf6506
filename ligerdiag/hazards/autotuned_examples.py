"""The examples of LD010: a kernel with several configurations."""

from ligerdiag.hazards.examples import KERNEL
from ligerdiag.hazards.rule import Example

_CONFIGURATIONS = """\
TWO = [triton.Config({}, num_warps=2), triton.Config({}, num_warps=4)]


"""

_CALL = """\
def step(x, w):
    h = x @ w
    sums = {call}(h)
    return {{"sums": sums}}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
"""

AUTOTUNED = Example(
    about="Two configurations double the same rows, again and again, before the launch that counts.",
    code=KERNEL
    + _CONFIGURATIONS
    + """\
tuned_kernel = triton.autotune(configs=TWO, key=[])(double_kernel)


def sum_and_double_tuned(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=tuned_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


"""
    + _CALL.format(call="sum_and_double_tuned", name="autotuned"),
)

AUTOTUNED_DECLARED = Example(
    about="The same configurations on a declared output: the launcher saves the rows and puts them back.",
    code=KERNEL
    + _CONFIGURATIONS
    + """\
@triton.autotune(configs=TWO, key=[])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(out_ptr + at, 2 * x)


def sum_and_double_tuned(x):
    outputs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:1], x.dtype))
    return jt.triton_call(
        x, kernel=tuned_kernel, out_shape=outputs, input_output_aliases={0: 0}, grid=x.shape[:1], COLUMNS=x.shape[1]
    )[1]


"""
    + _CALL.format(call="sum_and_double_tuned", name="autotuned_declared"),
)

ONE_CONFIGURATION = Example(
    about="Nothing is tried where there is one configuration.",
    code=KERNEL + _CALL.format(call="sum_and_double", name="one_configuration"),
)
