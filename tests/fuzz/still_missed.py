"""A program in which a wrong output is still called right; `check` says that verdict and numbers contradict each other."""

from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag.model.case import Arg, Case, Draw
from tests.fuzz.once_missed import SIZE, damp


def convert_twice(x: Any, y: Any) -> dict[str, Any]:
    """The kernel overwrites a conversion in a loop that runs once, and XLA makes that conversion and the one
    behind the loop one value, which `both` adds to itself. It depends on the write either way."""
    narrow = x.astype(jnp.bfloat16)

    def step(state: Any, _: Any) -> Any:
        wide = narrow.astype(jnp.float32)
        total = damp(wide, y).sum()
        return state, (wide, total)

    _, (stacked, totals) = jax.lax.scan(step, jnp.float32(0), jnp.zeros(1))
    return {"both": (stacked.mean(0) + narrow.astype(jnp.float32)) * 0.6, "total": totals.sum()}


CASES = (
    Case(
        name="convert_twice",
        function=convert_twice,
        args=tuple(Arg(shape=(SIZE, SIZE), draw=Draw(seed=seed)) for seed in (1, 2)),
        expected={"both": "stale|clobbered", "total": "fresh"},
    ),
)
