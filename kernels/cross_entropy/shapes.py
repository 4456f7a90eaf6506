"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shapes logits float[batch, context, vocabulary] and targets int[batch, context]."""

    batch: int
    context: int
    vocabulary: int


SEED_SMALL = Shape(3, 4, 8)
SEED_LARGE = Shape(4, 128, 50304)
WIDE = Shape(1, 32, 128)
"""Few enough rows for an interpreter, and wide enough that a sum over a row is rounded."""
