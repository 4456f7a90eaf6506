"""Compares `scan` with XLA:CPU: order, direction, and which parameter is the carry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.replay.xla_cpu import compare_text_with_xla_cpu, compare_with_xla_cpu

TEXT = """HloModule m
%step (x: f32[2], carry: f32[2]) -> (f32[2], f32[2]) {
  %x = f32[2] parameter(0)
  %carry = f32[2] parameter(1)
  %difference = f32[2] subtract(%x, %carry)
  ROOT %both = (f32[2], f32[2]) tuple(%difference, %x)
}
ENTRY %main (x: SHAPE, first: f32[2]) -> (SHAPE, f32[2]) {
  %x = SHAPE parameter(0)
  %first = f32[2] parameter(1)
  ROOT %s = (SHAPE, f32[2]) scan(%x, %first), dimensions={AXIS}, num_carries=1, REVERSEto_apply=%step
}"""


@pytest.mark.parametrize("reverse", ["", "is_reverse=true, "])
@pytest.mark.parametrize(("shape", "axis"), [((5, 2), 0), ((2, 5), 1)])
def test_a_step_that_does_not_commute_runs_in_order(shape: tuple[int, int], axis: int, reverse: str) -> None:
    text = TEXT.replace("SHAPE", f"f32[{shape[0]},{shape[1]}]").replace("AXIS", str(axis)).replace("REVERSE", reverse)
    x = np.arange(10, dtype=np.float32).reshape(shape) ** 2
    compare_text_with_xla_cpu(text, x, np.array([100, 200], np.float32))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", [jnp.cumsum, jnp.cumprod, jax.lax.cummax, jax.lax.cummin, jax.lax.cumlogsumexp])
def test_cumulative_functions_equal_xla_s(function: object, axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(7, 9)).astype(np.float32)
    # 9 terms in another order: a few ulp of the largest partial result
    compare_with_xla_cpu(lambda x: function(x, axis=axis), x, rtol=1e-6, by_norm=True)  # type: ignore[operator]
