"""Kernels turned into Triton IR by Triton itself, and into payloads by jax-triton itself; neither needs a GPU."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.effects.payload import parse_string_attributes


def lower_payload(function: Callable[..., Any], *specs: Any) -> bytes:
    """Returns the backend config of the only custom call that `function` lowers to."""
    import re

    import jax

    text = jax.jit(function).trace(*specs).lower(lowering_platforms=("cuda",)).as_text()
    (config,) = re.findall(r'backend_config = ("(?:[^"\\]|\\.)+")', text)
    return parse_string_attributes(b"{config = " + config.encode() + b"}")["config"]


@pytest.fixture(scope="session")
def payload() -> bytes:
    """A real `triton_kernel_call` with one operand, which it overwrites, and one output."""
    import jax
    import jax.numpy as jnp
    import jax_triton

    from tests.effects import ttir_kernels

    spec = jax.ShapeDtypeStruct((64,), jnp.float32)
    return lower_payload(
        lambda x: jax_triton.triton_call(
            x, 1, 3, kernel=ttir_kernels.scalars, out_shape=spec, grid=(2, 3), compute_capability=90
        ),
        spec,
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache directory that does not exist yet."""
    return tmp_path / "cache" / "effects"
