"""A kernel that counts in a workspace of zeros, called twice in one program.

`ligerdiag check docs/reports/zahlmann_transformer.py`
The second call is meant to count from zero, too.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def count_kernel(x_ptr, workspace_ptr, out_ptr, SIZE: tl.constexpr):
    """Adds to x what it finds in the workspace, and one to the workspace."""
    place = tl.arange(0, SIZE)
    found = tl.load(workspace_ptr)
    tl.store(out_ptr + place, tl.load(x_ptr + place) + found)
    tl.store(workspace_ptr, found + 1)


@triton.jit
def count_in_output_kernel(x_ptr, out_ptr, workspace_ptr, SIZE: tl.constexpr):
    """The same, the workspace being an output."""
    place = tl.arange(0, SIZE)
    found = tl.load(workspace_ptr)
    tl.store(out_ptr + place, tl.load(x_ptr + place) + found)
    tl.store(workspace_ptr, found + 1)


def count(x: Any) -> Any:
    """x + 0, by a workspace that XLA believes is only read."""
    workspace = jnp.zeros((8,), jnp.float32)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax_triton.triton_call(x, workspace, kernel=count_kernel, out_shape=out, grid=1, SIZE=x.size)


def count_in_output(x: Any) -> Any:
    """x + 0, by a workspace that is an output, which jax-triton sets to zero before the kernel runs."""
    shapes = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((8,), jnp.float32)
    kernel = count_in_output_kernel
    return jax_triton.triton_call(x, kernel=kernel, out_shape=shapes, zeroed_outputs=(1,), grid=1, SIZE=x.size)[0]


def two_steps(x: Any) -> dict[str, Any]:
    """Two steps of a decode loop in one program."""
    first = count(x)
    return {"first": first, "second": count(first)}


def two_steps_in_output(x: Any) -> dict[str, Any]:
    """The same with the mend."""
    first = count_in_output(x)
    return {"first": first, "second": count_in_output(first)}


CASES = (
    Case(name="workspace", function=two_steps, args=(Arg(shape=(8,)),)),
    Case(name="workspace_mended", function=two_steps_in_output, args=(Arg(shape=(8,)),)),
)
