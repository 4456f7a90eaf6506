"""The examples of the rules: whole case files, each a test and a piece of documentation.

They share one kernel: it returns each row's sum and doubles the row in place.
"""

from ligerdiag.hazards.rule import Example

KERNEL = """\
import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)  # overwrites its operand


def sum_and_double(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=double_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


"""

ALIASED_CALL = """\
@triton.jit
def aliased_kernel(x_ptr, out_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(out_ptr + at, 2 * x)


def sum_and_double_declared(x):
    outputs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:1], x.dtype))
    return jt.triton_call(
        x, kernel=aliased_kernel, out_shape=outputs, input_output_aliases={0: 0}, grid=x.shape[:1], COLUMNS=x.shape[1]
    )


"""


ALIASED = Example(
    about="The doubled rows are a declared output, and that output is what is read.",
    code=KERNEL
    + ALIASED_CALL
    + """\
def step(x, w):
    h = x @ w
    doubled, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": doubled @ w.T}


CASE = Case(name="declared", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)
