"""Computes `rng-bit-generator`: Philox4x32-10 and Threefry2x32-20 (Salmon et al., SC 2011), with XLA's layout of
counters.

The state is u64: the key, then the counter. Threefry has u64[2]. Philox has u64[3] with a counter of 128 bits, low word
first, or u64[2], where the key is also the counter's high word. Philox makes four u32 per counter, in the order of the
output; Threefry makes two, which become neighbours along one dimension of the output. Elements of 8 and 16 bits are the
low bits of one u32 each. The default algorithm is Philox, on CPU and GPU.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.ops.dtypes import get_array, get_dimensions, get_dtype
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value

type Words = tuple[Any, ...]
"""A number as arrays of u32, the least significant word first."""

_RNG_DEFAULT, _RNG_THREE_FRY, _RNG_PHILOX = 0, 1, 2
_LOW = np.uint64(0xFFFFFFFF)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _generate(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    state = get_array(instruction, operands[0])
    shape = instruction.shape.tuple_shapes[1]
    dtype, dimensions = get_dtype(shape), get_dimensions(shape)
    algorithm = instruction.proto.rng_algorithm
    if state.dtype != np.uint64 or dtype.kind not in "iu":
        raise NotCoveredError(f"rng-bit-generator of {dtype} with a state of {state.dtype}")
    with np.errstate(over="ignore"):
        if algorithm in (_RNG_DEFAULT, _RNG_PHILOX) and state.shape in ((2,), (3,)):
            new_state, bits = _generate_philox(state, dimensions, dtype.itemsize)
        elif algorithm == _RNG_THREE_FRY and state.shape == (2,):
            new_state, bits = _generate_threefry(state, dimensions, dtype.itemsize)
        else:
            raise NotCoveredError(f"rng-bit-generator, algorithm {algorithm} with a state of shape {state.shape}")
    return new_state, bits.astype(dtype)


def _generate_philox(state: Array, dimensions: tuple[int, ...], itemsize: int) -> tuple[Array, Array]:
    key, low, high = (state[0], state[1], state[2]) if state.shape == (3,) else (state[0], state[1], state[0])
    size = int(np.prod(dimensions, dtype=np.int64))
    blocks = -(-size * max(itemsize, 4) // 16)
    counters = low + np.arange(blocks, dtype=np.uint64)
    upper = high + (counters < low).astype(np.uint64)
    words = np.stack(compute_philox((*_split(counters), *_split(upper)), _split(key)), axis=1).reshape(-1)
    flat: Any = words if itemsize <= 4 else _join(words[0::2], words[1::2])
    after = low + np.uint64(blocks)
    new_state = [key, after, high + np.uint64(after < low)][: len(state)]
    return np.array(new_state, np.uint64), flat[:size].reshape(dimensions)


def compute_philox(counter: Words, key: Words) -> Words:
    """Computes ten rounds of Philox4x32 and returns four words of random bits. counter: four words. key: two words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        low0, high0 = _split(c0.astype(np.uint64) * np.uint64(0xD2511F53))
        low1, high1 = _split(c2.astype(np.uint64) * np.uint64(0xCD9E8D57))
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + np.uint32(0x9E3779B9), k1 + np.uint32(0xBB67AE85)
    return c0, c1, c2, c3


def _generate_threefry(state: Array, dimensions: tuple[int, ...], itemsize: int) -> tuple[Array, Array]:
    key, counter = _split(state[0]), state[1]
    if itemsize == 8:
        size = int(np.prod(dimensions, dtype=np.int64))
        bits = _join(*compute_threefry(_split(counter + np.arange(size, dtype=np.uint64)), key)).reshape(dimensions)
        return np.array([state[0], counter + np.uint64(size)], np.uint64), bits
    axis = _choose_axis(dimensions)
    halves = list(dimensions) or [1]
    halves[axis] = -(-halves[axis] // 2)
    size = int(np.prod(halves, dtype=np.int64))
    first, second = compute_threefry(_split(counter + np.arange(size, dtype=np.uint64)), key)
    pair = np.stack([first.reshape(halves), second.reshape(halves)], axis=axis + 1)
    doubled = pair.reshape(*halves[:axis], 2 * halves[axis], *halves[axis + 1 :])
    extent = dimensions[axis] if dimensions else 1
    bits = doubled[(slice(None),) * axis + (slice(extent),)].reshape(dimensions)
    return np.array([state[0], counter + np.uint64(size)], np.uint64), bits


def compute_threefry(counter: Words, key: Words) -> Words:
    """Computes twenty rounds of Threefry2x32 and returns two words of random bits. counter, key: two words each."""
    keys = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x0, x1 = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(distance)) | (x1 >> np.uint32(32 - distance))) ^ x0
        x0, x1 = x0 + keys[(group + 1) % 3], x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _choose_axis(dimensions: tuple[int, ...]) -> int:
    """Returns the dimension along which Threefry's two words are neighbours: the first one of even size, otherwise the
    largest.
    """
    for axis, extent in enumerate(dimensions):
        if extent % 2 == 0:
            return axis
    return dimensions.index(max(dimensions)) if dimensions else 0


def _split(words: Any) -> Words:
    return (words & _LOW).astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)


def _join(low: Any, high: Any) -> Any:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


RANDOM: Mapping[str, Evaluate] = {"rng-bit-generator": _generate}
