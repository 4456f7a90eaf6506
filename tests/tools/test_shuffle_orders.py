"""A few random orders of small files that do things to their process; the nightly size is 200 of cases/."""

import random
from pathlib import Path

import pytest

from tools.shuffle_orders import Order, compile_in_order, draw_order, find_difference

HEAD = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from ligerdiag import Arg, Case

def f(n, x):
    return jnp.sin(x) * n + np.arange(4.0)

CASES = tuple(
    Case(name="{}", function=lambda x, n=n: f(n, x), args=(Arg(shape=(4,)),), params=(n,)) for n in (1, 2)
)
print("imported", file=sys.stderr)
"""
TAILS = {
    "plain": "",
    "setting": "jax.config.update('jax_enable_x64', True)",
    "rebinding": "jnp.sin = jnp.cos",
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    for name, tail in TAILS.items():
        (tmp_path / f"{name}.py").write_text(f"{HEAD.format(name)}\n{tail}\n")
    return tuple(str(tmp_path / f"{name}.py") for name in TAILS)


def test_any_order_gives_the_same_bytes(files: tuple[str, ...], tmp_path: Path) -> None:
    expected = compile_in_order(Order(files=files, jobs=1, warm=0), "h100", tmp_path / "first")
    assert len([name for name in expected if name.endswith("/optimized.hlo.pb")]) == 2 * len(files)
    orders = [Order(files=files[::-1], jobs=1, warm=1), Order(files=files[1:] + files[:1], jobs=2, warm=0)]
    for number, order in enumerate(orders):
        found = compile_in_order(order, "h100", tmp_path / f"cache-{number}")
        assert find_difference(expected, found) == (), str(order)


def test_an_order_is_drawn_from_its_numbers_alone() -> None:
    files = ("a.py", "b.py", "c.py")
    orders = [draw_order(files, random.Random(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert sorted(orders[2].files) == list(files)


def test_what_differs_is_named() -> None:
    assert find_difference({"a": "1", "b": "2"}, {"a": "1", "c": "3"}) == ("b", "c")
