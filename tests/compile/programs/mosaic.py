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


FACTORS = (Arg(shape=(256, 128), dtype=HALF), Arg(shape=(128, 256), dtype=HALF))
HEADS = tuple(Arg(shape=(1, 128, heads, 64), dtype=HALF) for heads in (2, 1, 1))
CASES = (
    Case(name="multiply", function=multiply, args=FACTORS),
    Case(name="attend", function=attend, args=HEADS),
    Case(name="declared", function=attend, args=HEADS, effects={"stable": {"writes": []}}),
    Case(name="named", function=attend, args=HEADS, effects={"entry": {"writes": []}}),
)
