"""Random bits equal those of XLA:CPU bit for bit, and so does the state after them."""

from typing import Any

import numpy as np
import pytest
from jax import lax, random

from ligerdiag.replay.ops.random_bits import compute_philox, compute_threefry
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text

STATES = [("rng_default", 2), ("rng_default", 3), ("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3)]
SHAPES = [(), (5,), (3, 4), (7, 3, 5), (3, 0)]
NIGHTLY = [pytest.param(shape, marks=pytest.mark.nightly) for shape in [(1,), (8,), (3, 5), (2, 1, 3), (0,)]]
STATE = np.array([0x123456789ABCDEF0, 0x0FEDCBA987654321, 0xDEADBEEF12345678], np.uint64)


def _render_module(algorithm: str, words: int, dtype: str, shape: tuple[int, ...]) -> str:
    result = f"(u64[{words}], {dtype}[{','.join(map(str, shape))}])"
    return f"""HloModule m
    ENTRY e {{
      state = u64[{words}] parameter(0)
      ROOT r = {result} rng-bit-generator(state), algorithm={algorithm}
    }}"""


@pytest.mark.parametrize("shape", [*SHAPES, *NIGHTLY], ids=str)
@pytest.mark.parametrize("dtype", ["u8", "u16", "u32", "u64"])
@pytest.mark.parametrize(("algorithm", "words"), STATES)
def test_bits_and_state_equal_xla_s(algorithm: str, words: int, dtype: str, shape: tuple[int, ...]) -> None:
    compare_text_with_xla_cpu(_render_module(algorithm, words, dtype, shape), STATE[:words])


@pytest.mark.parametrize(("algorithm", "words"), [("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3)])
def test_an_overflowing_counter_carries_like_xla_s(algorithm: str, words: int) -> None:
    state = np.array([3, 2**64 - 2, 2**64 - 1][:words], np.uint64)
    compare_text_with_xla_cpu(_render_module(algorithm, words, "u32", (6, 5)), state)


@pytest.mark.parametrize("algorithm", list(lax.RandomAlgorithm), ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_jax_s_lowering_gives_jax_s_bits(algorithm: Any, dtype: str) -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    compare_with_xla_cpu(lambda k: lax.rng_bit_generator(k, (5, 6), dtype, algorithm), key, x64=True)


def test_dropout_with_a_typed_key_equals_jax_s() -> None:
    key = random.key_data(random.key(7))
    compare_with_xla_cpu(lambda k: random.bernoulli(random.wrap_key_data(k), 0.3, (32, 9)), np.asarray(key))


def test_the_paper_s_known_answers_are_reproduced() -> None:
    zero, ones = np.uint32(0), np.uint32(0xFFFFFFFF)
    with np.errstate(over="ignore"):
        assert [int(w) for w in compute_threefry((zero, zero), (zero, zero))] == [0x6B200159, 0x99BA4EFE]
        assert [int(w) for w in compute_threefry((ones, ones), (ones, ones))] == [0x1CB996FC, 0xBB002BE7]
        words = compute_philox((zero,) * 4, (zero,) * 2)
    assert [int(w) for w in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_the_legacy_generator_is_not_covered() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[] constant(0)
      b = f32[] constant(1)
      ROOT r = f32[4] rng(a, b), distribution=rng_uniform
    }"""
    with pytest.raises(NotCoveredError, match="rng"):
        evaluate_module(parse_text(text), [])


def test_a_generator_of_floats_is_not_covered() -> None:
    with pytest.raises(NotCoveredError, match="float32"):
        evaluate_module(parse_text(_render_module("rng_philox", 2, "f32", (4,))), [STATE[:2]])
