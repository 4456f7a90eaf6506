"""Programs of `python -m tools.fuzz`, reduced: with jax-triton 0.4 and later a gradient is wrong that was called fresh.

`jax.checkpoint` recomputes the forward pass. There JAX keeps the Ref and drops the kernel that overwrites it, so that
it differentiates the second layer at contents that the kernel should have overwritten. The schedule is right about a
program that JAX has changed. Seeds 10000019 and 10000067.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case


@triton.jit
def bend_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))
    tl.store(x_ptr + at, tl.exp(-x * x) + 0.3 * x)


def bend(x: Any, *, is_frozen: bool) -> Any:
    ref = jax.new_ref(x)
    sums = jax.ShapeDtypeStruct((x.shape[0],), x.dtype)
    jax_triton.triton_call(ref, kernel=bend_kernel, out_type=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])
    return jax.freeze(ref) if is_frozen else ref[...]


def bend_in_jnp(x: Any) -> Any:
    return jnp.exp(-x * x) + 0.3 * x


def make_layer(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    layer = jax.custom_vjp(compute)
    layer.defvjp(lambda x: (compute(x), x), lambda x, g: jax.vjp(bend_in_jnp, x)[1](g))
    return layer


def differentiate(compute: Callable[[Any], Any], policy: Any, x: Any) -> dict[str, Any]:
    layer = make_layer(compute)

    def loss(x: Any) -> Any:
        return jnp.sin(layer(layer(x))).sum()

    return {"gradient": jax.grad(jax.checkpoint(loss, policy=policy))(x)}


CASES = tuple(
    Case(
        name="dropped",
        params=(word, policy.__name__ if policy else "none"),
        function=partial(differentiate, partial(bend, is_frozen=word == "frozen"), policy),
        reference=partial(differentiate, bend_in_jnp, None),
        args=(Arg(shape=(8, 32)),),
    )
    for word in ("frozen", "read")
    for policy in (None, jax.checkpoint_policies.nothing_saveable)
)
