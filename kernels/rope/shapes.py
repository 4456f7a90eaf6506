"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shapes queries float[tokens, heads, size], keys float[tokens, key_heads, size], angles float[tokens, size / 2]."""

    tokens: int
    heads: int
    key_heads: int
    size: int


SMALL = Shape(16, 4, 2, 16)
"""A shape with so few elements that a kernel can run in an interpreter."""
LLAMA_8B = Shape(16384, 32, 8, 128)
LLAMA_8B_ALL_HEADS = Shape(16384, 32, 32, 128)
WIDE = Shape(16384, 86, 86, 128)
"""Rows of 11008 elements."""
