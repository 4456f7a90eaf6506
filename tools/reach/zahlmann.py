"""Drives zahlmann/transformer: the decode step of a whole model in one kernel, with barriers in a workspace that it
gets.
"""

from functools import partial
from typing import Any

from ligerdiag import Arg, Case, Draw

SIZES = {
    "vocab_size": 128,
    "d_model": 64,
    "d_head": 32,
    "n_heads": 2,
    "n_kv_heads": 1,
    "n_layers": 2,
    "d_ff": 64,
    "context_len": 64,
}
LAYER = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 64


def decode(count: int, *arrays: Any) -> dict[str, Any]:
    """Runs several steps in one program, each from the token of the one before."""
    from kernels.multi_sm_decode import multi_sm_decode_nlayer

    names = ("token_emb", "packed_w", "lnf_s", "cos", "sin", "output_proj_padded")
    *weights, token, caches = arrays
    state = {**dict(zip(names, weights, strict=True)), "vocab_pad": 128}
    found: dict[str, Any] = {}
    for number in range(count):
        token, logits, caches = multi_sm_decode_nlayer(state, SIZES, token, 3 + number, caches)
        found[f"logits_{number}"] = logits
    return {**found, "token": token, "caches": caches}


def bf16(*shape: int) -> Arg:
    return Arg(shape=shape, dtype="bfloat16")


ARGS = (
    bf16(128, 64),
    bf16(2 * LAYER),
    bf16(64),
    bf16(64, 32),
    bf16(64, 32),
    bf16(64, 128),
    Arg(shape=(), dtype="int32", draw=Draw(kind="randint", high=128)),
    bf16(2 * 2 * 64 * 32),
)
CASES = tuple(
    Case(name="zahlmann_decode", params=(count,), function=partial(decode, count), args=ARGS) for count in (1, 2)
)
