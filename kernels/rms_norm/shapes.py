"""Named shapes, shared by tests, cases and benchmarks. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """input float[tokens, hidden], weight float[hidden]."""

    tokens: int
    hidden: int


SMALL = Shape(32, 64)
"""Few enough rows to run through an interpreter."""
LLAMA_8B = Shape(16384, 4096)
LLAMA_7B_MLP = Shape(16384, 11008)
"""No power of two: a third of the block that holds a row is empty."""
