"""A kernel gets one tensor through two arguments that it writes; the compiler gives it two copies, and one write is
lost.

Structure: the kernel stores ones through its first operand, and adds two to what it reads through its second one; both
operands are the same array, and both writes are declared.

The right answer: through one array the second operand sees the ones, so `second` is 3 everywhere. With two declared
writes XLA gives each operand bytes of its own, so the addition does not see the ones: `second` is x + 2, and a part of
each result is lost.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def write_kernel(first_ptr, second_ptr, spare_ptr, other_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(first_ptr + at, 1.0)
    tl.debug_barrier()
    tl.store(second_ptr + at, tl.load(second_ptr + at) + 2.0)


@triton.jit
def write_once_kernel(x_ptr, spare_ptr, SIZE: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, SIZE), 3.0)


def write_twice(x):
    x = jnp.sin(x)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    aliases = {0: 0, 1: 1}
    first, second = jax_triton.triton_call(  # at: call
        x, x, kernel=write_kernel, out_shape=(shape, shape), grid=1, SIZE=x.size, input_output_aliases=aliases
    )
    return {"first": first, "second": second}


def write_once(x):
    (both,) = call_in_place(jnp.sin(x), written=0, kernel=write_once_kernel, grid=1, SIZE=x.size)
    return {"first": both, "second": both}


def write_plainly(x):
    return {"first": jnp.full_like(x, 3.0), "second": jnp.full_like(x, 3.0)}


REPORT = Report(
    link="https://github.com/pytorch/pytorch/issues/196657",
    year=2026,
    versions="PyTorch 2.14",
    kind=Kind.LOST_UPDATE,
    reported="one tensor passed through two mutated arguments is cloned twice, and writes do not meet",
    finds=Wrong(outputs=("first", "second"), at=("call",)),
)
ARGS = (Arg(shape=(256,)),)
BAD = Case(name="pytorch_196657", params=("bad",), function=write_twice, args=ARGS, reference=write_plainly)
CURED = Case(name="pytorch_196657", params=("cured",), function=write_once, args=ARGS, reference=write_plainly)
CASES = (BAD, CURED)
