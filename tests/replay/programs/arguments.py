"""Arguments of ordinary programs, and a case made of such a program whose reference is its own function."""

from collections.abc import Callable
from typing import Any

from ligerdiag.model.case import Arg, Case, Draw


def draw_normal(*shape: int, seed: int = 0, scale: float = 1.0, donate: bool = False) -> Arg:
    return Arg(shape=shape, draw=Draw(seed=seed, scale=scale), donate=donate)


def draw_ids(*shape: int, high: int, seed: int = 7) -> Arg:
    return Arg(shape=shape, dtype="int32", draw=Draw(kind="randint", seed=seed, low=0, high=high))


def make_case(name: str, function: Callable[..., Any], *args: Arg) -> Case:
    return Case(name=name, function=function, args=args, reference=function)


W, X = draw_normal(16, 8, seed=1, scale=0.3), draw_normal(12, 16, seed=2)
