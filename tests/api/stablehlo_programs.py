"""Functions whose StableHLO tests check, and that StableHLO in each of its forms."""

from io import BytesIO
from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag.compile.lowering.jax_versions import assume_gpu
from tests.device import opcheck_kernels as kernels

X, W = jax.ShapeDtypeStruct((16, 8), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)

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


def lower(function: Any, *args: Any, platforms: tuple[str, ...] = ("cuda",), **keywords: Any) -> Any:
    """Returns the `jax.stages.Lowered` of a function, for GPUs that this machine need not have."""
    with assume_gpu(90):
        return jax.jit(function).trace(*args, **keywords).lower(lowering_platforms=platforms)


def render_bytecode(lowered: Any) -> bytes:
    stream = BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(stream)
    return stream.getvalue()
