"""Two gradients that kernels add to one array in place. Nothing orders the two calls, and XLA runs them in reverse.

One kernel returns a sum of its gradient alone, which no order changes. The sum of the other depends on the array.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case

SIZE = 256


@triton.jit
def add_gradient_kernel(w_ptr, gradient_ptr, sum_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    gradient = tl.load(gradient_ptr + at)
    tl.store(sum_ptr, tl.sum(gradient))
    tl.store(w_ptr + at, tl.load(w_ptr + at) + gradient)


@triton.jit
def add_positive_gradient_kernel(w_ptr, gradient_ptr, sum_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    gradient, w = tl.load(gradient_ptr + at), tl.load(w_ptr + at)
    tl.store(sum_ptr, tl.sum(tl.where(w > 0, gradient, -gradient)))
    tl.store(w_ptr + at, w + gradient)


def make_case(kernel: Any, expected: str) -> Case:
    def program(a: Any, b: Any, w: Any) -> dict[str, Any]:
        total = jnp.sin(w)
        first, second = (
            jax_triton.triton_call(
                total, x, kernel=kernel, out_shape=jax.ShapeDtypeStruct((), jnp.float32), grid=1, SIZE=SIZE
            )
            for x in (a, b)
        )
        return {"first": first, "second": second, "total": total * 3}

    return Case(
        name=kernel.fn.__name__,
        function=program,
        args=(Arg(shape=(SIZE,)),) * 3,
        expected={"first": expected, "second": expected, "total": "stale"},
    )


CASES = (
    make_case(add_gradient_kernel, "fresh"),
    make_case(add_positive_gradient_kernel, "clobbered|stale|latent"),
)
