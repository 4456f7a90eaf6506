"""Code that tests/kernels runs in the other process: the scaling kernel."""

from functools import partial
from unittest.mock import patch

import jax
import jax.numpy as jnp
import jax_triton

from kernels.scale.api import scale


def compute_error(shape: tuple[int, ...], dtype: str, mode: str) -> float:
    """Returns the relative error in norm of `values * -1.7`."""
    values = jax.random.normal(jax.random.key(0), shape).astype(dtype)
    wanted = values.astype(jnp.float32) * -1.7
    scaled = scale(values, jnp.float32(-1.7), mode=mode)
    assert scaled.shape == shape
    assert scaled.dtype == dtype
    return float(jnp.linalg.norm(scaled.astype(jnp.float32) - wanted) / jnp.linalg.norm(wanted))


def lower(mode: str, factor: jax.ShapeDtypeStruct | None = None) -> str:
    """Returns the StableHLO of the scaling of 2 x 8 values, f32."""
    arguments = (jax.ShapeDtypeStruct((2, 8), jnp.float32), factor or jax.ShapeDtypeStruct((), jnp.float32))
    with patch.object(jax_triton.triton_lib.triton_kernel_call_lib, "get_compute_capability", lambda device: 90):
        return jax.jit(partial(scale, mode=mode)).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
