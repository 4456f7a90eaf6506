"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shapes input float[tokens, hidden] and weight float[hidden]."""

    tokens: int
    hidden: int


SMALL = Shape(32, 64)
"""A shape with so few rows that a kernel can run in an interpreter."""
LLAMA_8B = Shape(16384, 4096)
LLAMA_7B_MLP = Shape(16384, 11008)
"""A row whose length is not a power of two: a third of the block that holds it is empty."""
