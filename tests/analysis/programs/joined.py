"""Kernels whose operands XLA computes together: as slices of one product, over one halo of two shards, by one gather.

Each operand has its own bytes when its kernel overwrites it.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case

ROWS, WIDTH, COLUMNS = 8, 16, 32
PARTITIONS = {"": ((), ()), "-rows": (("x", None), (None, "x")), "-width": ((None, "x"), ("x", None))}


@triton.jit
def scale_kernel(x_ptr, sum_ptr, FACTOR: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + offsets, FACTOR * x)


@triton.jit
def swiglu_backward_kernel(dc_ptr, a_ptr, b_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    dc, a, b = tl.load(dc_ptr + offsets), tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)
    s = tl.sigmoid(a)
    tl.store(sum_ptr + row, tl.sum(a * s * b))
    tl.store(a_ptr + offsets, dc * (s + a * s * (1.0 - s)) * b)
    tl.store(b_ptr + offsets, dc * a * s)


def launch(kernel, *operands, **constants):
    """Returns the sums of the rows; hidden writes overwrite operands of the kernel."""
    rows, columns = operands[-1].shape
    out = jax.ShapeDtypeStruct((rows,), "float32")
    return jax_triton.triton_call(*operands, kernel=kernel, out_shape=out, grid=(rows,), COLUMNS=columns, **constants)


def swiglu(x, w, dc):
    """One kernel overwrites two operands."""
    a, b = x @ w, x @ (w * 0.5)
    sums = launch(swiglu_backward_kernel, dc, a, b)
    return {"loss": sums.sum(), "a": a @ w.T, "b": b @ w.T}


def two_halves(x, w):
    """Gradient accumulation over the halves of a batch."""
    one, other = x[: ROWS // 2] @ w, x[ROWS // 2 :] @ w
    sums = launch(scale_kernel, one, FACTOR=2.0), launch(scale_kernel, other, FACTOR=2.0)
    return {"loss": sums[0].sum() + sums[1].sum(), "gradient": (one + other) @ w.T}


def second_head(x, w):
    """A second head on the same features."""
    one, other = x @ w, x @ (2 * w)
    sums = launch(scale_kernel, one, FACTOR=2.0), launch(scale_kernel, other, FACTOR=2.0)
    return {"loss": sums[0].sum() + sums[1].sum(), "gradient": one @ w.T + other @ w.T}


def one_norm(x, w):
    """The norm is wrong as soon as one of the two gradients is."""
    one, other = x @ w, x @ (w + 1.0)
    sums = launch(scale_kernel, one, FACTOR=2.0), launch(scale_kernel, other, FACTOR=0.5)
    gradients = one @ w.T, other @ w.T
    norm = jnp.sqrt(jnp.sum(gradients[0] ** 2) + jnp.sum(gradients[1] ** 2))
    return {"loss": sums[0].sum() + sums[1].sum(), "norm": norm}


CASES = tuple(
    Case(
        name=f"{function.__name__}{name}",
        function=function,
        args=(Arg(shape=(ROWS, WIDTH), partition=x), Arg(shape=(WIDTH, COLUMNS), partition=w))
        + ((Arg(shape=(ROWS, COLUMNS)),) if function is swiglu else ()),
        mesh={"x": 2} if name else {},
    )
    for function in (swiglu, two_halves, second_head, one_norm)
    for name, (x, w) in PARTITIONS.items()
)
