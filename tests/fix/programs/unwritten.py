import jax
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def total_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at)))


def step(x):
    cell = jax.ShapeDtypeStruct((1,), x.dtype)
    return {"total": jt.triton_call(x, kernel=total_kernel, out_shape=cell, grid=(8,), BLOCK=x.size // 8)}


CASE = Case(name="sum_onto_anything", function=step, args=(Arg(shape=(256,)),))
