"""Named shapes, shared by tests, cases and benchmarks. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """logits float[batch, context, vocabulary], targets int[batch, context]."""

    batch: int
    context: int
    vocabulary: int


SEED_SMALL = Shape(3, 4, 8)
SEED_LARGE = Shape(4, 128, 50304)
WIDE = Shape(1, 32, 128)
"""Few enough rows to run through an interpreter, wide enough that a sum over a row rounds."""
