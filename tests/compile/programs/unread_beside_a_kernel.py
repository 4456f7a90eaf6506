"""A donated argument that the program never reads, beside a kernel of jax-triton."""

import inspect

import jax
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case

X = Arg(shape=(256,))
DONATED = Arg(shape=(256,), donate=True)


@triton.jit
def square_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, N), x * x)


def square(old, x):
    """Returns the squares of `x + 1`, in the words of either generation of jax-triton."""
    word = "out_type" if "out_type" in inspect.signature(jax_triton.triton_call).parameters else "out_shape"
    outputs = {word: jax.ShapeDtypeStruct(x.shape, x.dtype)}
    return jax_triton.triton_call(x + 1, kernel=square_kernel, grid=1, N=256, **outputs)


CASES = (
    Case(name="dropped", function=square, args=(DONATED, X)),
    Case(name="kept", function=square, args=(DONATED, X), keep_unused=True),
)
