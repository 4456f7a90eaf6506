"""A compiler cannot analyse a kernel, takes it for one without effects, and removes it.

Structure: the kernel writes through an address that it computes from an integer, which no analysis follows; its own
result is not used, and the operand that it changes is.

The right answer: `after` means the operand plus one. The call is removed with its unused result, so `after` is the old
operand; a tool that cannot follow the address still sees that the call is gone.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


@triton.jit
def add_kernel(x_ptr, done_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    address = x_ptr.to(tl.uint64, bitcast=True)
    hidden = address.to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(hidden + at, tl.load(x_ptr + at) + 1.0)
    tl.store(done_ptr, 1.0)


@triton.jit
def add_to_kernel(x_ptr, out_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1.0)


def add_unseen(x):
    x = jnp.sin(x)
    out = jax.ShapeDtypeStruct((), "float32")
    jax_triton.triton_call(x, kernel=add_kernel, out_shape=out, grid=1, SIZE=x.size)  # at: call
    return {"after": x * 2.0}


def add_to_output(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return {"after": jax_triton.triton_call(jnp.sin(x), kernel=add_to_kernel, out_shape=out, grid=1, SIZE=x.size) * 2.0}


REPORT = Report(
    link="https://github.com/ROCm/pytorch/issues/3398",
    year=2026,
    versions="PyTorch 2.11, triton 3.7",
    kind=Kind.MOVED_BY_JAX,
    reported="a kernel whose analysis raises an exception counts as free of effects, and is eliminated",
    finds=Wrong(outputs=("after",), at=("call",)),
)
BAD = Case(name="rocm_pytorch_3398", params=("bad",), function=add_unseen, args=(Arg(shape=(256,)),))
CURED = Case(name="rocm_pytorch_3398", params=("cured",), function=add_to_output, args=(Arg(shape=(256,)),))
CASES = (BAD, CURED)
