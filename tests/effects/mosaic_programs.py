"""Programs with Mosaic GPU kernels by name, and the accesses of each kernel to its operands and outputs, derived by
hand.

Pallas's own kernels read all their operands. An output that represents a Ref (the last ones) has no pointer of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from ligerdiag.effects.access import Access

READ, WRITE, BOTH, NONE = Access.READ, Access.WRITE, Access.READ_WRITE, Access.NONE
VECTOR = jax.ShapeDtypeStruct((128,), jnp.float32)
SEMANTICS = {"lane": plgpu.LoweringSemantics.Lane, "warpgroup": plgpu.LoweringSemantics.Warpgroup}
HALF = jnp.float16


@dataclass(frozen=True, slots=True, kw_only=True)
class MosaicProgram:
    """A function, the shapes of its arguments, and for each kernel its name and its accesses to operands and outputs."""

    function: Callable[..., Any]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    kernels: tuple[tuple[str, tuple[Access, ...], tuple[Access, ...]], ...]


def make_half(*shape: int) -> jax.ShapeDtypeStruct:
    """Returns `f16[shape]`."""
    return jax.ShapeDtypeStruct(shape, HALF)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Loads by TMA, stores by TMA."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu

    return attention_mgpu.attention(
        q, k, v, attention_mgpu.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2)
    )


def attention_gradients(q: Any, k: Any, v: Any) -> Any:
    """The forward kernel with its residual, then one for the gradients of k and v, and one for that of q."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu

    config = attention_mgpu.TuningConfig(
        block_q=64,
        block_kv=64,
        max_concurrent_steps=2,
        block_q_dkv=64,
        block_kv_dkv=64,
        block_q_dq=64,
        block_kv_dq=64,
    )

    def loss(*arrays: Any) -> Any:
        result: Any = attention_mgpu.attention(*arrays, config)
        return (result.astype("float32") ** 2).sum()

    return jax.grad(loss, argnums=(0, 1, 2))(q, k, v)


def ragged(left: Any, right: Any, sizes: Any) -> Any:
    """Loads group sizes directly, and stores rows by `cp.async.bulk.global` in inline assembly."""
    from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu

    return ragged_dot_mgpu.ragged_dot(
        left, right, group_sizes=sizes, block_m=64, block_n=64, block_k=64, max_concurrent_steps=2, grid_block_n=1
    )


def in_place(semantics: str, x: Any) -> Any:
    """Stores to its input directly."""

    def add_one(x_ref: Any, o_ref: Any) -> None:
        value = x_ref[...]
        o_ref[...] = value * 2
        x_ref[...] = value + 1

    return _launch(add_one, semantics)(x)


def write_only(semantics: str, x: Any, y: Any) -> Any:
    """Reads one input, overwrites the other without reading it, and does not write the one it reads."""

    def overwrite(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        value = x_ref[...]
        o_ref[...] = value * 2
        y_ref[...] = value

    return _launch(overwrite, semantics)(x, y)


def in_loop(semantics: str, x: Any, y: Any) -> Any:
    """Stores to the first of two inputs in a loop, and reads the second."""

    def loop(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = y_ref[...]

        @pl.loop(0, 4)
        def _(step: Any) -> None:
            x_ref[...] = y_ref[...] + step.astype("float32")

    return _launch(loop, semantics)(x, y)


def by_tma(semantics: str, x: Any, y: Any) -> Any:
    """Stores to its first input by TMA, and loads the second by TMA."""

    def store(x_ref: Any, y_ref: Any, o_ref: Any, shared: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(y_ref, shared, barrier)
        plgpu.barrier_wait(barrier)
        shared[...] = shared[...] + 1
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(shared, o_ref)
        plgpu.copy_smem_to_gmem(shared, x_ref)
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM((128,), jnp.float32), plgpu.Barrier()]
    return _launch(store, semantics, scratch_types=scratch)(x, y)


def by_ref(semantics: str, x: Any, y: Any) -> Any:
    """Updates a Ref: the operand is written, and the output that represents it has no pointer."""

    def update(x_ref: Any, r_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2
        r_ref[...] = r_ref[...] + 1

    ref = jax.new_ref(y * 1.0)
    return _launch(update, semantics)(x * 3, ref), ref[...]


def _launch(kernel: Any, semantics: str, **options: Any) -> Any:
    parameters = plgpu.CompilerParams(lowering_semantics=SEMANTICS[semantics])
    return plgpu.kernel(kernel, out_type=VECTOR, compiler_params=parameters, **options)


OWN = {
    "in_place": (in_place, 1, ("add_one", (BOTH,), (WRITE,))),
    "write_only": (write_only, 2, ("overwrite", (READ, WRITE), (WRITE,))),
    "in_loop": (in_loop, 2, ("loop", (WRITE, READ), (WRITE,))),
    "by_tma": (by_tma, 2, ("store", (WRITE, READ), (WRITE,))),
    "by_ref": (by_ref, 2, ("update", (READ, BOTH), (WRITE, NONE))),
}
"""Function, number of vectors it takes, and its only kernel, the same in both lowering semantics."""

PALLAS = {
    "attention": MosaicProgram(
        function=attention,
        specs=(make_half(1, 128, 2, 64), make_half(1, 128, 1, 64), make_half(1, 128, 1, 64)),
        kernels=(("entry", (READ,) * 3, (WRITE,)),),
    ),
    "attention_gradients": MosaicProgram(
        function=attention_gradients,
        specs=(make_half(1, 128, 2, 64),) * 3,
        kernels=(
            ("entry", (READ,) * 3, (WRITE, WRITE)),
            ("anonymous", (READ,) * 6, (WRITE,)),
            ("anonymous", (READ,) * 6, (WRITE, WRITE)),
        ),
    ),
    "ragged_dot": MosaicProgram(
        function=ragged,
        specs=(make_half(128, 64), make_half(2, 64, 64), jax.ShapeDtypeStruct((2,), jnp.int32)),
        kernels=(("body", (READ,) * 3, (WRITE,)),),
    ),
}
"""JAX's own operations, unchanged."""
