import jax
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def add_kernel(x_ptr, sum_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    before = tl.load(sum_ptr + row * COLUMNS + at)
    tl.store(out_ptr + row * COLUMNS + at, before + tl.load(x_ptr + row * COLUMNS + at))


def step(x):
    start = jax.lax.empty(x.shape, x.dtype)
    return {"sums": jt.triton_call(x, start, kernel=add_kernel, out_shape=x, grid=x.shape[:1], COLUMNS=x.shape[1])}


CASE = Case(name="unfilled", function=step, args=(Arg(shape=(8, 32)),))
