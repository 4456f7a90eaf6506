"""The Triton kernel, a few heads for each program, and its launch."""

import jax
import jax.numpy as jnp
import triton
import triton.language as tl

from kernels.modes import Mode
from kernels.triton_call import overwriting_call

MAX_BLOCK = 2048
"""Largest number of elements of half heads that one program rotates."""


@triton.jit
def _turn_heads(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    given_ptr,
    destination_ptr,
    cosines_ptr,
    sines_ptr,
    block,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BACKWARDS: tl.constexpr,
    BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
):
    head = block * BLOCK + tl.arange(0, BLOCK)[:, None]  # of all tokens, one after another
    column = tl.arange(0, HALF_BLOCK)[None, :]
    there = (head < TOKENS * HEADS) & (column < HALF)
    angle = head // HEADS * HALF + column
    cosine = tl.load(cosines_ptr + angle, mask=there, other=0.0).to(tl.float32)
    sine = tl.load(sines_ptr + angle, mask=there, other=0.0).to(tl.float32)
    if BACKWARDS:
        sine = -sine
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
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BACKWARDS: tl.constexpr,
    BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
):
    if destination_0_ptr is None:
        destination_0_ptr = queries_ptr
    if destination_1_ptr is None:
        destination_1_ptr = keys_ptr
    program = tl.program_id(0).to(tl.int64)
    tl.store(token_ptr + program, 0.0)
    blocks: tl.constexpr = (TOKENS * HEADS + BLOCK - 1) // BLOCK
    if program < blocks:
        _turn_heads(
            queries_ptr, destination_0_ptr, cosines_ptr, sines_ptr, program,
            TOKENS, HEADS, HALF, BACKWARDS, BLOCK, HALF_BLOCK,
        )  # fmt: skip
    else:
        _turn_heads(
            keys_ptr, destination_1_ptr, cosines_ptr, sines_ptr, program - blocks,
            TOKENS, KEY_HEADS, HALF, BACKWARDS, BLOCK, HALF_BLOCK,
        )  # fmt: skip


def launch(
    queries: jax.Array, keys: jax.Array, cosines: jax.Array, sines: jax.Array, *, backwards: bool, mode: Mode
) -> tuple[jax.Array, jax.Array]:
    """Returns the rotated queries and keys: the arrays that have the new contents of `queries` and `keys` in this mode (see
    `kernels.modes.Mode`). Rotates by the negative angles if `backwards`.

    queries: float[tokens, heads, size]; keys: float[tokens, key_heads, size]; cosines, sines: float[tokens, size / 2].
    """
    tokens, heads, size = queries.shape
    key_heads = keys.shape[1]
    half_block = triton.next_power_of_2(size // 2)
    block = min(max(1, MAX_BLOCK // half_block), triton.next_power_of_2(tokens * max(heads, key_heads)))
    programs = triton.cdiv(tokens * heads, block) + triton.cdiv(tokens * key_heads, block)
    _, turned = overwriting_call(
        rope_kernel,
        queries,
        keys,
        cosines,
        sines,
        written=(0, 1),
        outputs=(jax.ShapeDtypeStruct((programs,), jnp.float32),),  # zeros: what `trivial` adds
        grid=(programs,),
        mode=mode,
        num_warps=16,
        TOKENS=tokens,
        HEADS=heads,
        KEY_HEADS=key_heads,
        HALF=size // 2,
        BACKWARDS=backwards,
        BLOCK=block,
        HALF_BLOCK=half_block,
    )
    return turned[0], turned[1]
