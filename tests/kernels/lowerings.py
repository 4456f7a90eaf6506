"""Code that tests/kernels runs in the other process: lowers a kernel for a GPU that this machine does not have."""

import re
from functools import partial
from unittest.mock import patch

import jax
import jax.numpy as jnp
import jax_triton

from kernels.cross_entropy.api import cross_entropy_with_gradient
from kernels.modes import Mode


def lower_cross_entropy(mode: Mode) -> str:
    """Returns the StableHLO of the loss and gradient of 2 x 8 f32 logits, without the kernels' code."""
    logits, targets = jax.ShapeDtypeStruct((2, 8), jnp.float32), jax.ShapeDtypeStruct((2,), jnp.int32)
    function = jax.jit(partial(cross_entropy_with_gradient, mode=mode))
    with patch.object(jax_triton.triton_lib.triton_kernel_call_lib, "get_compute_capability", lambda device: 90):
        lowered = function.trace(logits, targets).lower(lowering_platforms=("cuda",))
    return re.sub(r'(backend_config|opaque) = "[^"]*"', "", lowered.as_text())
