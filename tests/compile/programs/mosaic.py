"""JAX's own Mosaic GPU kernels, which ask the device for its cores and the assembler for its PTX."""

from typing import Any

from ligerdiag import Arg, Case

HALF = "float16"


def multiply(a: Any, b: Any) -> Any:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as library

    tuning = library.TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=2)
    return {"product": library.matmul(a, b, None, tuning), "other": a * 2}


def attend(q: Any, k: Any, v: Any) -> Any:
    from jax.experimental.pallas.ops.gpu import attention_mgpu as library

    tuning = library.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2)
    return {"out": library.attention(q, k, v, tuning)}


def stores(x: Any) -> Any:
    import jax
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def in_place(x_ref: Any, out_ref: Any) -> None:
        value = x_ref[...] + 1
        out_ref[...] = value
        x_ref[...] = value

    h = x * 3
    return {"out": plgpu.kernel(in_place, out_type=jax.ShapeDtypeStruct((128,), "float32"))(h), "read": h * 2}


def copies(x: Any) -> Any:
    """By TMA."""
    import jax
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def in_place(x_ref: Any, out_ref: Any, shared: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(x_ref, shared, barrier)
        plgpu.barrier_wait(barrier)
        shared[...] = shared[...] + 1
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(shared, out_ref)
        plgpu.copy_smem_to_gmem(shared, x_ref)
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM((128,), "float32"), plgpu.Barrier()]
    shape = jax.ShapeDtypeStruct((128,), "float32")
    h = x * 3
    return {"out": plgpu.kernel(in_place, out_type=shape, scratch_types=scratch)(h), "read": h * 2}


FACTORS = (Arg(shape=(256, 128), dtype=HALF), Arg(shape=(128, 256), dtype=HALF))
HEADS = tuple(Arg(shape=(1, 128, heads, 64), dtype=HALF) for heads in (2, 1, 1))
CASES = (
    Case(name="multiply", function=multiply, args=FACTORS),
    Case(name="attend", function=attend, args=HEADS),
    Case(name="stores", function=stores, args=(Arg(shape=(128,)),)),
    Case(name="copies", function=copies, args=(Arg(shape=(128,)),)),
)
