"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shape float[tokens, hidden] of gate and value."""

    tokens: int
    hidden: int


SMALL = Shape(32, 64)
"""A shape with so few elements that a kernel can run in an interpreter."""
LLAMA_8B = Shape(16384, 4096)
LLAMA_7B_MLP = Shape(16384, 11008)
