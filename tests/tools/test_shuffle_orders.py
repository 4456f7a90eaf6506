"""A few random orders of small files that change their process; the nightly run takes 200 orders of cases/."""

import random
from pathlib import Path

import pytest

from ligerdiag.toolchains.gpu_targets import load_target
from tools.shuffle_orders import Order, OrderCompiler, draw_order, find_difference

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
    with OrderCompiler(load_target("h100"), tmp_path) as compiler:
        expected = {name: digests for file in files[1:] for name, digests in compiler.compile_alone(file).items()}
        assert len(expected) == 2 * len(files[1:])
        assert all("optimized.hlo.pb" in digests for digests in expected.values())
        orders = [
            Order(files=files[1:], jobs=1, warm=0),
            Order(files=files[:0:-1], jobs=2, warm=1),
            Order(files=files[1:], jobs=1, warm=2, cases=1),
        ]
        for order in orders:
            found = compiler.compile(order)
            assert len(found) == len(order.files) * (order.cases or 2), str(order)
            assert find_difference(expected, found) == (), str(order)


def test_an_order_depends_only_on_its_random_numbers() -> None:
    files = ("a.py", "b.py", "c.py", "d.py", "e.py")
    orders = [draw_order(files, random.Random(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_a_file_that_takes_long_is_drawn_rarely() -> None:
    numbers = random.Random(0)
    orders = [draw_order(("a.py", "b.py", "c.py", "d.py"), numbers, frozenset({"a"})) for _ in range(200)]
    assert 0 < sum("a.py" in order.files for order in orders) < 40
    assert all(2 <= len(set(order.files)) <= 4 for order in orders)


def test_the_differing_file_is_named() -> None:
    expected = {"f:a": {"x": "1", "y": "2"}, "f:b": {"x": "1"}}
    assert find_difference(expected, {"f:a": {"x": "1", "z": "3"}}) == ("f:a/y", "f:a/z")
    assert find_difference(expected, {"f:b": {"x": "1"}}) == ()
    assert find_difference(expected, {"f:c": {"x": "1"}}) == ("f:c/x",)
