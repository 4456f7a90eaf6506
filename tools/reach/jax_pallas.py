"""Drives the kernels of JAX itself: `jax.experimental.pallas.ops.gpu`, for Triton and for Mosaic GPU."""

from functools import partial
from typing import Any

from ligerdiag import Arg, Case, Draw

HALF, BATCH, LENGTH, HEADS, WIDTH = "float16", 2, 128, 2, 64
HEAD = (Arg(shape=(BATCH, LENGTH, HEADS, WIDTH), dtype=HALF),) * 3
ROWS = (Arg(shape=(2, 32, 256)), Arg(shape=(256,)), Arg(shape=(256,)))


def attend(gradient: bool, q: Any, k: Any, v: Any) -> dict[str, Any]:
    import jax
    from jax.experimental.pallas.ops.gpu import attention

    def apply(q: Any, k: Any, v: Any) -> Any:
        sizes = attention.BlockSizes(
            block_q=64, block_k=64, block_q_dkv=32, block_kv_dkv=32, block_q_dq=32, block_kv_dq=32
        )
        return attention.mha(q, k, v, None, WIDTH**-0.5, block_sizes=sizes)

    if not gradient:
        return {"out": apply(q, k, v)}
    return dict(
        zip("qkv", jax.grad(lambda *a: apply(*a).astype("float32").sum(), argnums=(0, 1, 2))(q, k, v), strict=True)
    )


def normalise(name: str, gradient: bool, *arrays: Any) -> dict[str, Any]:
    import importlib

    import jax

    apply = getattr(importlib.import_module(f"jax.experimental.pallas.ops.gpu.{name}"), name)
    if not gradient:
        return {"out": apply(*arrays)}
    found = jax.grad(lambda *a: (apply(*a) ** 2).sum(), argnums=(0, 1, 2))(*arrays)
    return dict(zip(("x", "weight", "bias"), found, strict=True))


def soften(x: Any) -> dict[str, Any]:
    from jax.experimental.pallas.ops.gpu.softmax import softmax

    return {"out": softmax(x)}


def decode(name: str, q: Any, k: Any, v: Any) -> dict[str, Any]:
    from jax.experimental.pallas.ops.gpu import decode_attention

    return {"out": getattr(decode_attention, name)(q, k, v, k_splits=2, block_k=64)}


def decode_pages(q: Any, k: Any, v: Any, tables: Any, lengths: Any) -> dict[str, Any]:
    from jax.experimental.pallas.ops.gpu.paged_attention import paged_attention

    return {"out": paged_attention(q, k, v, tables, lengths, k_splits=2, pages_per_compute_block=2)}


def multiply(a: Any, b: Any) -> dict[str, Any]:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as library

    return {"out": library.matmul(a, b, None, library.TuningConfig(128, 128, 64, 2))}


def multiply_groups(a: Any, b: Any, sizes: Any) -> dict[str, Any]:
    from jax.experimental.pallas.ops.gpu.ragged_dot_mgpu import ragged_dot

    blocks = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 2}
    return {"out": ragged_dot(a, b, group_sizes=sizes, **blocks)}


def multiply_transposed_groups(a: Any, b: Any, sizes: Any) -> dict[str, Any]:
    from jax.experimental.pallas.ops.gpu.transposed_ragged_dot_mgpu import transposed_ragged_dot

    blocks = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 2}
    return {"out": transposed_ragged_dot(a, b, group_sizes=sizes, **blocks)}


def attend_on_hopper(gradient: bool, q: Any, k: Any, v: Any) -> dict[str, Any]:
    import jax
    from jax.experimental.pallas.ops.gpu import attention_mgpu as library

    blocks = (
        "block_q",
        "block_kv",
        *(("block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq") if gradient else ()),
    )
    tuning = library.TuningConfig(**dict.fromkeys(blocks, 64), max_concurrent_steps=2)
    if not gradient:
        return {"out": library.attention(q, k, v, tuning)}
    found = jax.grad(lambda *a: library.attention(*a, tuning).astype("float32").sum(), argnums=(0, 1, 2))(q, k, v)
    return dict(zip("qkv", found, strict=True))


SQUARE = Arg(shape=(256, 256), dtype=HALF)
SIZES = Arg(shape=(2,), dtype="int32", draw=Draw(kind="randint", low=128, high=129))
QUERY = Arg(shape=(BATCH, 16, WIDTH), dtype=HALF)
KEYS = Arg(shape=(BATCH, 256, WIDTH), dtype=HALF)
GROUPED = Arg(shape=(BATCH, 256, 2, WIDTH), dtype=HALF)
PAGES = Arg(shape=(2, 16, 16, WIDTH), dtype=HALF)
CASES = (
    *(Case(name="pallas_mha", params=(g,), function=partial(attend, g), args=HEAD) for g in (False, True)),
    *(
        Case(name=f"pallas_{name}", params=(g,), function=partial(normalise, name, g), args=ROWS)
        for name in ("layer_norm", "rms_norm")
        for g in (False, True)
    ),
    Case(name="pallas_softmax", function=soften, args=(Arg(shape=(64, 256)),)),
    Case(name="pallas_mqa", function=partial(decode, "mqa"), args=(QUERY, KEYS, KEYS)),
    Case(name="pallas_gqa", function=partial(decode, "gqa"), args=(QUERY, GROUPED, GROUPED)),
    Case(
        name="pallas_paged_attention",
        function=decode_pages,
        args=(
            QUERY,
            PAGES,
            PAGES,
            Arg(shape=(BATCH, 8), dtype="int32", draw=Draw(kind="randint", high=16)),
            Arg(shape=(BATCH,), dtype="int32", draw=Draw(kind="randint", low=64, high=128)),
        ),
    ),
    Case(name="mosaic_matmul", function=multiply, args=(SQUARE, SQUARE)),
    Case(
        name="mosaic_ragged_dot", function=multiply_groups, args=(SQUARE, Arg(shape=(2, 256, 128), dtype=HALF), SIZES)
    ),
    Case(name="mosaic_transposed_ragged_dot", function=multiply_transposed_groups, args=(SQUARE, SQUARE, SIZES)),
    *(
        Case(name="mosaic_attention", params=(g,), function=partial(attend_on_hopper, g), args=HEAD)
        for g in (False, True)
    ),
)
