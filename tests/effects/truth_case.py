"""A launch whose effects are known from running it: kernel, buffers, scalars, grid, and the expected static answer.

An answer has three letters for each buffer: reads before write (y, n), coverage (c complete, p partial, - none),
neighbours (s shared, d disjoint); `?` if the analysis says UNKNOWN. `interpreted` is false if Triton's interpreter
cannot run the kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

type Fill = Callable[[np.random.Generator, Mapping[str, np.ndarray]], Any]
"""Computes a buffer's initial contents from the buffers before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthCase:
    kernel: Any
    buffers: dict[str, tuple[str, int]]
    """Parameter to Triton's name of the element type and the number of elements."""
    expected: dict[str, str]
    scalars: dict[str, int | float] = field(default_factory=dict[str, int | float])
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    grid: tuple[int, int, int] = (1, 1, 1)
    fill: dict[str, Fill] = field(default_factory=dict[str, Fill])
    interpreted: bool = True


def below(limit: int) -> Fill:
    return lambda chance, _: chance.integers(0, limit, 4096)


def zeros(chance: np.random.Generator, _: Mapping[str, np.ndarray]) -> Any:
    return np.zeros(65536)


def shuffled(count: int) -> Fill:
    return lambda chance, _: chance.permutation(count)


def exactly(*values: int) -> Fill:
    return lambda _, __: np.array(values)


def addresses(name: str, *offsets: int) -> Fill:
    return lambda _, buffers: np.array([buffers[name].ctypes.data + 4 * offset for offset in offsets])


F, H, I, L, B = "fp32", "fp16", "i32", "i64", "i8"
ATTENTION: dict[str, Any] = {"scalars": {"length": 64, "scale": 0.25}, "grid": (4, 2, 1)}
HEADS = (F, 2 * 64 * 16)
READ, MADE = "y-d", "ncd"
