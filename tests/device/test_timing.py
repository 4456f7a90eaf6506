"""Timed executions: real ones on JAX's CPU, whose durations are ignored."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from ligerdiag.device import device_worker as timing
from ligerdiag.device.device_worker import MOST_RUNS, time_executions


def test_short_executions_are_timed_the_most_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "BUDGET", 1e9)
    arguments = (jnp.arange(8.0),)
    times = time_executions(jax.jit(jnp.sin).lower(*arguments).compile(), arguments, donates=False)
    assert len(times) == MOST_RUNS
    assert all(time > 0 for time in times)


def test_an_execution_that_takes_all_of_the_budget_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "BUDGET", 0.0)
    arguments = (jnp.arange(8.0),)
    assert len(time_executions(jax.jit(jnp.sin).lower(*arguments).compile(), arguments, donates=False)) == 1


def test_each_execution_gets_its_donated_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_over(x: Any, parameters: Any) -> Any:
        """As a program with donated arguments does: on the CPU, JAX itself does not always."""
        total = x.sum() + parameters["w"].sum()
        x.delete()
        parameters["w"].delete()
        return total

    monkeypatch.setattr(timing, "BUDGET", 1e9)
    arguments = (jnp.arange(8.0), {"w": jnp.ones((2, 3))})
    assert len(time_executions(take_over, arguments, donates=True)) == MOST_RUNS
    assert arguments[0].tolist() == list(range(8)), "the copies are given away, not these"
    with pytest.raises(RuntimeError, match="deleted"):
        time_executions(take_over, arguments, donates=False)


def test_outputs_are_waited_for_and_dropped_before_the_next_execution() -> None:
    alive: list[int] = []
    left = 0

    class Result:
        def __init__(self) -> None:
            nonlocal left
            left += 1
            alive.append(left)

        def block_until_ready(self) -> "Result":
            return self

        def __del__(self) -> None:
            nonlocal left
            left -= 1

    time_executions(Result, (), donates=False)
    assert max(alive) == 1
