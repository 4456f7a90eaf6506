"""Compares folds over windows with XLA:CPU."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from ligerdiag.replay.ops import reductions
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu, evaluate_module, parse_text


def draw_array(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(np.float32)


@st.composite
def draw_windows(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    rank = draw(st.integers(1, 3))
    each = lambda low, high: tuple(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))  # noqa: E731
    shape = each(1, 6)
    padding = tuple(zip(each(0, 3), each(0, 3), strict=True))
    window = {
        "window_dimensions": each(1, 3),
        "window_strides": each(1, 3),
        "padding": padding,
        "base_dilation": each(1, 2),
        "window_dilation": each(1, 2),
    }
    return shape, window


@settings(max_examples=40, deadline=None)
@given(draw_windows(), st.sampled_from(["add", "max", "pair"]))
def test_any_window_gives_xla_s_result(case: Any, kind: str) -> None:
    shape, window = case
    x = draw_array(shape)
    if kind == "pair":  # the larger one and its companion

        def choose(p: Any, q: Any) -> Any:
            first = p[0] >= q[0]
            return lax.select(first, p[0], q[0]), lax.select(first, p[1], q[1])

        inits = (np.float32(-99), np.float32(-1))
        compare_with_xla_cpu(lambda x, y: lax.reduce_window((x, y), inits, choose, **window), x, draw_array(shape, 1))
        return
    combine, init = (lax.add, np.float32(3)) if kind == "add" else (lax.max, np.float32(-7))
    compare_with_xla_cpu(lambda x: lax.reduce_window(x, init, combine, **window), x)


@pytest.mark.parametrize("cumulate", [lax.cumsum, lax.cummax, lax.cummin, lax.cumprod, lax.cumlogsumexp])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_folds_run_along_any_dimension_from_either_end(cumulate: Any, reverse: bool, axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(9, 12)).astype(np.float32)
    # a dozen additions or products in f32 on XLA's side
    compare_with_xla_cpu(lambda x: cumulate(x, axis=axis, reverse=reverse), x, rtol=1e-6, by_norm=True)


RUNNING = """HloModule m
f {{ a = f32[] parameter(0)
b = f32[] parameter(1)
{reducer} }}
ENTRY e {{ x = f32[13] parameter(0)
i = f32[] constant({init})
ROOT r = f32[13] reduce-window(x, i), window={{size=13 pad={pad}}}, to_apply=f }}"""
ADD = "ROOT r = f32[] add(a, b)"
ROOT_OF_SQUARES = "c = f32[] multiply(a, a)\nd = f32[] multiply(b, b)\ns = f32[] add(c, d)\nROOT r = f32[] sqrt(s)"


@pytest.mark.parametrize("pad", ["12_0", "0_12"])
@pytest.mark.parametrize("reducer", [ADD, ROOT_OF_SQUARES])
@pytest.mark.parametrize("init", [0, 2])
def test_a_window_as_long_as_the_dimension_is_a_running_fold(pad: str, reducer: str, init: int) -> None:
    x = np.abs(draw_array((13,)))
    compare_text_with_xla_cpu(RUNNING.format(pad=pad, reducer=reducer, init=init), x, rtol=1e-5)


def test_a_running_fold_does_not_visit_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "iterate_window", None)
    x = np.ones(13, np.float32)
    module = parse_text(RUNNING.format(pad="12_0", reducer=ADD, init=0))
    np.testing.assert_array_equal(np.asarray(evaluate_module(module, (x,))), np.arange(1, 14))


def test_a_running_sum_in_bf16_is_rounded_only_where_it_is_read() -> None:
    text = RUNNING.replace("f32", "bf16").format(pad="12_0", reducer=ADD.replace("f32", "bf16"), init=0)
    x = jnp.concatenate([jnp.full(1, 256.0), jnp.ones(12)]).astype(jnp.bfloat16)
    found = np.asarray(evaluate_module(parse_text(text), (x,))).astype(np.float32)
    np.testing.assert_array_equal(found[-1], 268)


def test_negative_padding_crops() -> None:
    text = """HloModule m
f { a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[9] parameter(0)
i = f32[] constant(0)
ROOT r = f32[6] reduce-window(x, i), window={size=2 pad=-1_-1}, to_apply=f }"""
    compare_text_with_xla_cpu(text, draw_array((9,)))


def test_a_reversed_window_is_not_covered() -> None:
    module = parse_text(RUNNING.format(pad="12_0", reducer=ADD, init=0).replace("pad=12_0", "pad=12_0 rhs_reversal=1"))
    with pytest.raises(NotCoveredError, match="reversed window"):
        evaluate_module(module, (np.ones(13, np.float32),))


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_the_gradient_of_max_pooling_goes_to_the_first_largest_element(padding: str) -> None:
    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (3, 2), (2, 2), padding)

    x = np.random.default_rng(0).integers(0, 3, (9, 8)).astype(np.float32)  # full of ties
    compare_with_xla_cpu(jax.grad(lambda x: jnp.sum(pool(x) * jnp.arange(pool(x).size).reshape(pool(x).shape))), x)


def test_overlapping_windows_accumulate_their_updates() -> None:
    text = """HloModule m
g { a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT r = pred[] compare(a, b), direction=GE }
f { a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[6,7] parameter(0)
s = f32[5,6] parameter(1)
i = f32[] constant(1)
ROOT r = f32[6,7] select-and-scatter(x, s, i), window={size=3x3 pad=1_0x1_0}, select=g, scatter=f }"""
    # all negative: nothing is chosen just because a window starts from zero
    compare_text_with_xla_cpu(text, draw_array((6, 7)) - 60, draw_array((5, 6), 1))
