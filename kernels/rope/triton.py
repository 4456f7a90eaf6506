"""The kernel, one program a token, and its launch."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.triton_call import overwriting_call

MAX_BLOCK = 2048
"""Elements of half of the heads that one program turns at a time, at most."""


@triton.jit
def _turn_heads(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    given_ptr,
    destination_ptr,
    cosine,
    sine,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    HEAD_BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
):
    column = tl.arange(0, HALF_BLOCK)[None, :]
    for start in range(0, HEADS, HEAD_BLOCK):
        head = start + tl.arange(0, HEAD_BLOCK)[:, None]
        there = (head < HEADS) & (column < HALF)
        at = head * (2 * HALF) + column
        first = tl.load(given_ptr + at, mask=there, other=0.0).to(tl.float32)
        second = tl.load(given_ptr + at + HALF, mask=there, other=0.0).to(tl.float32)
        tl.store(destination_ptr + at, first * cosine - second * sine, mask=there)
        tl.store(destination_ptr + at + HALF, second * cosine + first * sine, mask=there)


@triton.jit
def rope_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    queries_ptr,
    keys_ptr,
    cosines_ptr,
    sines_ptr,
    token_ptr,
    destination_0_ptr,
    destination_1_ptr,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BACKWARDS: tl.constexpr,
    HEAD_BLOCK: tl.constexpr,
    KEY_HEAD_BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
):
    if destination_0_ptr is None:
        destination_0_ptr = queries_ptr
    if destination_1_ptr is None:
        destination_1_ptr = keys_ptr
    row = tl.program_id(0).to(tl.int64)
    tl.store(token_ptr + row, 0.0)
    column = tl.arange(0, HALF_BLOCK)[None, :]
    cosine = tl.load(cosines_ptr + row * HALF + column, mask=column < HALF, other=0.0).to(tl.float32)
    sine = tl.load(sines_ptr + row * HALF + column, mask=column < HALF, other=0.0).to(tl.float32)
    if BACKWARDS:
        sine = -sine
    query, key = row * HEADS * 2 * HALF, row * KEY_HEADS * 2 * HALF
    _turn_heads(queries_ptr + query, destination_0_ptr + query, cosine, sine, HEADS, HALF, HEAD_BLOCK, HALF_BLOCK)
    _turn_heads(keys_ptr + key, destination_1_ptr + key, cosine, sine, KEY_HEADS, HALF, KEY_HEAD_BLOCK, HALF_BLOCK)


def launch(
    queries: jax.Array, keys: jax.Array, cosines: jax.Array, sines: jax.Array, *, backwards: bool, mode: Mode
) -> tuple[jax.Array, jax.Array]:
    """Returns the turned queries and keys, as the mode gets hold of them; by the negative angle if `backwards`.

    queries: float[tokens, heads, size]; keys: float[tokens, key_heads, size]; cosines, sines: float[tokens, size / 2].
    """
    tokens, heads, size = queries.shape
    key_heads = keys.shape[1]
    half_block = triton.next_power_of_2(size // 2)
    most = max(1, MAX_BLOCK // half_block)
    _, turned = overwriting_call(
        rope_kernel,
        queries,
        keys,
        cosines,
        sines,
        written=(0, 1),
        outputs=(jax.ShapeDtypeStruct((tokens,), jnp.float32),),  # zeros: what `trivial` adds
        grid=(tokens,),
        mode=mode,
        num_warps=16,
        HEADS=heads,
        KEY_HEADS=key_heads,
        HALF=size // 2,
        BACKWARDS=backwards,
        HEAD_BLOCK=min(most, triton.next_power_of_2(heads)),
        KEY_HEAD_BLOCK=min(most, triton.next_power_of_2(key_heads)),
        HALF_BLOCK=half_block,
    )
    return turned[0], turned[1]
