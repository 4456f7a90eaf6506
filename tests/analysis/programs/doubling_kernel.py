"""The kernel of all programs here: it returns each row's sum and doubles the row in place, behind XLA's back."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case

X, W = Arg(shape=(8, 16)), Arg(shape=(16, 32))
XB, WB = Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16")
H = Arg(shape=(8, 32))


@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)


@triton.jit
def triple_kernel(x_ptr, max_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(max_ptr + row, tl.max(x))
    tl.store(x_ptr + at, 3 * x)


@triton.jit
def declared_kernel(x_ptr, out_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(out_ptr + at, 2 * x)


def double(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=double_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def triple(x):
    maxima = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=triple_kernel, out_shape=maxima, grid=x.shape[:1], COLUMNS=x.shape[1])


def double_declared(x):
    outputs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:1], x.dtype))
    return jt.triton_call(
        x, kernel=declared_kernel, out_shape=outputs, input_output_aliases={0: 0}, grid=x.shape[:1], COLUMNS=x.shape[1]
    )


def logits(x, w):
    """Returns f32 logits made from bf16: if a reader casts back, XLA folds both casts and returns the old value."""
    return (x @ w).astype(jnp.float32)


def miss(h, w):
    """Reads `logits` without seeing the kernel: it gets the bf16 value, which the kernel never touches."""
    return (h.astype(jnp.bfloat16) @ w.T).astype(jnp.float32)


def see(h, sums):
    """Reads so that it sees the kernel: it needs what the kernel returns, and reads the bytes that the kernel wrote."""
    return h * sums[:, None]


class Cases(list[Case]):
    """Collects cases: `@cases.add(X, W)` makes a case of a function."""

    def add(self, *args: Arg, **keywords: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.append(Case(name=function.__name__, function=function, args=args, **keywords))
            return function

        return register
