"""Mosaic GPU: JAX's own kernels as they are, and one that overwrites its operand.

Their payload is another one than Triton's, and their stores are TMA copies through descriptors as well as plain ones. The
doubt: whether the write is seen at all, and whether a kernel that writes its outputs alone is left in peace.

- `stores`, `copies`: `kernels/mosaic_scale`, by plain stores and by TMA
- `matmul`, `attention`, `attention_gradient`, `ragged_dot`: `jax.experimental.pallas.ops.gpu`, for Hopper
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

HALF = "float16"
VECTOR = (Arg(shape=(256,)),)


def read_afterwards(way: Any, mode: Mode, x: Any) -> dict[str, Any]:
    """Returns what the kernel gives back, and a product of what it leaves in its operand."""
    from kernels.mosaic_scale.api import double

    doubled, contents = double(x * 3, way=way, mode=mode)
    return {"doubled": doubled, "read": contents * 5}


def read_afterwards_reference(x: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return {"doubled": x * 6, "read": x * 30}


def multiply(a: Any, b: Any) -> dict[str, Any]:
    """Returns a @ b by JAX's kernel, and a value that XLA may run before or after it."""
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as library

    tuning = library.TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=2)
    return {"product": library.matmul(a, b, None, tuning), "other": a * 2}


def multiply_reference(a: Any, b: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return {"product": a @ b, "other": a * 2}


def attend(q: Any, k: Any, v: Any) -> Any:
    """Returns attention by JAX's kernel."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu as library

    return library.attention(q, k, v, library.TuningConfig(**dict.fromkeys(BLOCKS, 64), max_concurrent_steps=2))


BLOCKS = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")


def attend_reference(q: Any, k: Any, v: Any) -> Any:
    """Returns the same in plain jnp: no scale, each head of k and v for a group of q's."""
    import jax.numpy as jnp

    group = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(one, group, axis=2).astype(jnp.float32) for one in (k, v))
    weights = jnp.einsum("bqhd,bkhd->bhqk", q.astype(jnp.float32), k)
    weights = jnp.exp(weights - weights.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).astype(q.dtype)


def give_back(attention: Callable[..., Any], q: Any, k: Any, v: Any) -> dict[str, Any]:
    return {"out": attention(q, k, v)}


def differentiate(attention: Callable[..., Any], q: Any, k: Any, v: Any) -> dict[str, Any]:
    """Returns a loss of the attention and its gradients."""
    import jax

    loss, gradients = jax.value_and_grad(lambda *heads: (attention(*heads).astype("float32") ** 2).sum(), (0, 1, 2))(
        q, k, v
    )
    return {"loss": loss, **dict(zip("qkv", gradients, strict=True))}


def multiply_groups(rows: Any, weights: Any, sizes: Any) -> dict[str, Any]:
    """Returns a ragged dot by JAX's kernel."""
    from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu as library

    words = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 1}
    return {"product": library.ragged_dot(rows, weights, group_sizes=sizes, **words)}


def multiply_groups_reference(rows: Any, weights: Any, sizes: Any) -> dict[str, Any]:
    """Returns the same by `jax.lax`."""
    import jax

    return {"product": jax.lax.ragged_dot(rows, weights, sizes)}


def _make_in_place(way: str, mode: Mode) -> Case:
    is_hidden = mode is Mode.HIDDEN
    return Case(
        name="mosaic",
        params=(way, mode.value),
        function=partial(read_afterwards, way, mode),
        args=VECTOR,
        expected={"doubled": "fresh", "read": "stale"} if is_hidden else "fresh",
        expected_rules=("LD002", "LD006") if is_hidden else (),
        reference=read_afterwards_reference,
        about="a Mosaic GPU kernel leaves twice its operand in the operand",
    )


def _make_library(name: str, function: Any, reference: Any, args: tuple[Arg, ...]) -> Case:
    return Case(
        name="mosaic",
        params=(name,),
        function=function,
        args=args,
        expected="fresh",
        expected_rules=(),
        reference=reference,
        about="JAX's own Mosaic GPU kernel, which writes its outputs alone",
    )


HEADS = tuple(Arg(shape=(1, 128, 2, 64), dtype=HALF, draw=Draw(seed=seed)) for seed in range(3))
CASES = (
    *(_make_in_place(way, mode) for way in ("stores", "copies") for mode in (Mode.HIDDEN, Mode.ALIASED)),
    _make_library(
        "matmul",
        multiply,
        multiply_reference,
        (Arg(shape=(256, 128), dtype=HALF), Arg(shape=(128, 256), dtype=HALF, draw=Draw(seed=1))),
    ),
    _make_library("attention", partial(give_back, attend), partial(give_back, attend_reference), HEADS),
    _make_library(
        "attention_gradient", partial(differentiate, attend), partial(differentiate, attend_reference), HEADS
    ),
    _make_library(
        "ragged_dot",
        multiply_groups,
        multiply_groups_reference,
        (
            Arg(shape=(128, 64), dtype=HALF),
            Arg(shape=(2, 64, 64), dtype=HALF, draw=Draw(seed=1)),
            Arg(shape=(2,), dtype="int32", draw=Draw(kind="randint", seed=2, low=64, high=65)),
        ),
    ),
)
