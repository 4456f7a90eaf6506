"""Unusual programs: no operation left, no block launched, library calls, and declarations under other names."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case
from tests.compile.programs import mosaic_forms

SIZE = 256
BLOCK = 64


@triton.jit
def increment_kernel(x_ptr, o_ptr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i) + 1)


def constant(x: Any) -> dict[str, Any]:
    return {"z": jnp.zeros((4,))}


def identity(x: Any) -> dict[str, Any]:
    return {"z": x}


def launch(grid: int, x: Any) -> dict[str, Any]:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return {"o": jax_triton.triton_call(x, kernel=increment_kernel, out_shape=shape, grid=grid, N=BLOCK)}


def aliased_and_read(x: Any) -> dict[str, Any]:
    h = x * 3
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return {"y": jax.ffi.ffi_call("somebody_s_in_place", shape, input_output_aliases={0: 0})(h), "h": h + 1}


def libraries(x: Any) -> dict[str, Any]:
    a = x @ x.T + jnp.eye(16)
    return {
        "chol": jnp.linalg.cholesky(a),
        "eig": jnp.linalg.eigh(a)[0],
        "qr": jnp.linalg.qr(a)[0],
        "svd": jnp.linalg.svd(a)[1],
        "solve": jnp.linalg.solve(a, x),
        "sort": jnp.sort(x, axis=0),
        "topk": jax.lax.top_k(x, 4)[0],
        "fft": jnp.fft.fft(x).real,
        "rng": jax.random.normal(jax.random.key(0), x.shape) + x,
    }


NAMES = ("parts_by_tma", "mosaic_gpu_v2", "stable")
"""The kernel's own name, its target, and the namespace of Mosaic's operations, which names no kernel."""
IN_PLACE = next(case for case in mosaic_forms.CASES if case.name == "parts_by_tma")
FOUR, SQUARE = (Arg(shape=(4,)),), (Arg(shape=(16, 16)),)
GRIDS = (0, 3, 4)
CASES = (
    Case(name="constant", function=constant, args=FOUR),
    Case(name="identity", function=identity, args=FOUR),
    Case(name="donated", function=identity, args=(Arg(shape=(4,), donate=True),)),
    Case(name="aliased_and_read", function=aliased_and_read, args=SQUARE),
    Case(name="libraries", function=libraries, args=SQUARE),
    *(replace(IN_PLACE, name="declared_clean", params=(name,), effects={name: {"writes": []}}) for name in NAMES),
    *(Case(name="grid", params=(n,), function=partial(launch, n), args=(Arg(shape=(SIZE,)),)) for n in GRIDS),
)
