"""Functions whose StableHLO tests check, and that StableHLO in each of its forms."""

from io import BytesIO
from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag.compile.lowering.jax_versions import assume_gpu
from tests.device import opcheck_kernels as kernels

X, W = jax.ShapeDtypeStruct((16, 8), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)
V = jax.ShapeDtypeStruct((256,), jnp.float32)

ADD = """module @add {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
CALL = """module @call {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @mystery(%a) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.add %0, %a : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""


def hidden(x: Any, unused: Any, *, w: Any) -> Any:
    """Reads the product after a kernel that doubles it behind XLA's back."""
    del unused
    product = (x @ w).reshape(-1)
    sums = kernels.call(kernels.double_in_place, product)
    return {"sums": sums, "back": product.reshape(16, 16) @ w.T}


def declared(x: Any, w: Any) -> Any:
    """Reads the doubled product from the output with which the kernel declares what it writes."""
    product = (x @ w).reshape(-1)
    sums, doubled = kernels.declared(product)
    return {"sums": sums, "back": doubled.reshape(16, 16) @ w.T}


def double(x: Any) -> Any:
    return x * 2


@jax.custom_vjp
def sum_and_overwrite(x: Any) -> Any:
    """Returns what a kernel sums that doubles its operand behind XLA's back; its gradient reads no operand."""
    return kernels.call(kernels.double_in_place, x)


def _sum_and_overwrite_forward(x: Any) -> Any:
    return sum_and_overwrite(x), None


def _sum_and_overwrite_backward(_: None, gradient: Any) -> Any:
    return (jnp.full(V.shape, 1.0) * gradient.sum(),)


sum_and_overwrite.defvjp(_sum_and_overwrite_forward, _sum_and_overwrite_backward)


def _loss_of_recomputed(x: Any) -> Any:
    """The backward pass recomputes exp and sin from a value that `jax.checkpoint` saved before the kernel overwrote it."""
    value = x * 3
    result = jax.checkpoint(lambda value: jnp.sin(jnp.exp(value)))(value)
    return result.sum() + sum_and_overwrite(value).sum()


def _loss_of_saved(x: Any) -> Any:
    """The derivative of exp is its result, which autodiff saves before the kernel overwrites it."""
    value = jnp.exp(x)
    return (value * 2).sum() + sum_and_overwrite(value).sum()


def _loss_of_scan(x: Any) -> Any:
    """Each iteration saves the result of exp, and stacks it after the kernel has overwritten it."""

    def step(carry: Any, _: None) -> Any:
        value = jnp.exp(carry * 0.1)
        return value + sum_and_overwrite(value).sum(), None

    return jax.lax.scan(step, x, None, length=3)[0].sum()


def _loss_of_square(x: Any) -> Any:
    """Each iteration saves the operand of a square, which the kernel overwrites before the loop stacks it."""

    def step(carry: Any, _: None) -> Any:
        value = carry * 0.1
        return value * value + sum_and_overwrite(value).sum(), None

    return jax.lax.scan(step, x, None, length=3)[0].sum()


def _loss_of_cosine(x: Any) -> Any:
    """The derivative of sin is a cosine, which the forward pass computes before the kernel overwrites its operand."""
    value = x * 3
    return jnp.sin(value).sum() + sum_and_overwrite(value).sum()


def _loss_of_own_rule(x: Any) -> Any:
    """The author's own backward rule reads the overwritten value."""
    return _sum_with_own_rule(x * 3).sum()


@jax.custom_vjp
def _sum_with_own_rule(x: Any) -> Any:
    return kernels.call(kernels.double_in_place, x)


_sum_with_own_rule.defvjp(lambda x: (_sum_with_own_rule(x), x), lambda x, gradient: (x * gradient.sum(),))

recomputed, saved, scanned, stacked, cosine, own_rule = (
    jax.value_and_grad(one)
    for one in (_loss_of_recomputed, _loss_of_saved, _loss_of_scan, _loss_of_square, _loss_of_cosine, _loss_of_own_rule)
)
"""Functions that return a loss and its gradient."""


def lower(function: Any, *args: Any, platforms: tuple[str, ...] = ("cuda",), **keywords: Any) -> Any:
    """Returns the `jax.stages.Lowered` of a function, for GPUs that this machine need not have."""
    with assume_gpu(90):
        return jax.jit(function).trace(*args, **keywords).lower(lowering_platforms=platforms)


def render_bytecode(lowered: Any) -> bytes:
    stream = BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(stream)
    return stream.getvalue()
