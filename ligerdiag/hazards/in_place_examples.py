"""The examples of LD011 in which nothing is said to XLA, or all is well."""

from ligerdiag.hazards.examples import KERNEL
from ligerdiag.hazards.rule import Example

NEIGHBOURS_BEHIND_XLA = Example(
    about="Each element becomes the mean of its neighbours, in place; at the edges of a block others write those.",
    code=KERNEL
    + """\
@triton.jit
def smooth_kernel(x_ptr, sum_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + at - 1, mask=at > 0, other=0.0)
    right = tl.load(x_ptr + at + 1, mask=at < N - 1, other=0.0)
    tl.store(x_ptr + at, (left + right) / 2)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(left))


def step(x):
    sums = jax.ShapeDtypeStruct((4,), x.dtype)
    return {"sums": jt.triton_call(x + 1, kernel=smooth_kernel, out_shape=sums, grid=(4,), N=x.size, BLOCK=x.size // 4)}


CASE = Case(name="smoothed_in_place", function=step, args=(Arg(shape=(256,)),))
""",
)

SCALED_IN_PLACE = Example(
    about="Input and output share bytes, and each program reads what it overwrites, and only that.",
    code=KERNEL
    + """\
@triton.jit
def scale_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x / tl.sum(x * x))


def step(x):
    rows, columns = x.shape
    scaled = jt.triton_call(
        x + 1, kernel=scale_kernel, out_shape=x, input_output_aliases={0: 0}, grid=(rows,), COLUMNS=columns
    )
    return {"scaled": scaled}


CASE = Case(name="scaled_in_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)
