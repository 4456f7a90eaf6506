"""The program of `hidden.py` after the cure: nothing is left to fix."""

import jax
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def clip_kernel(x_ptr, count_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(count_ptr + row, tl.sum((x > 1.0).to(tl.int32)))
    tl.store(x_ptr + offsets, tl.minimum(x, 1.0))


def program(x, w):
    y = x @ w
    rows, columns = y.shape
    count, y = jax_triton.triton_call(
        y,
        kernel=clip_kernel,
        out_shape=(jax.ShapeDtypeStruct((rows,), "int32"), y),
        input_output_aliases={0: 1},
        grid=(rows,),
        COLUMNS=columns,
    )
    return {"count": count, "loss": (y * y).mean()}


CASE = Case(name="cured", function=program, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
