"""Named shapes, shared by tests, cases and benchmarks. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """input float[batch, context, embedding], weight float[embedding, vocabulary], bias float[vocabulary]."""

    batch: int
    context: int
    vocabulary: int
    embedding: int


SEED_SMALL = Shape(1, 4, 32, 16)
SEED_LARGE = Shape(4, 2048, 50304, 1024)
SHARDED = Shape(8, 64, 4096, 256)
CHUNKED = Shape(2, 48, 128, 32)
"""Chunks of 32 tokens: three of them."""
REMAINDER = Shape(1, 7, 37, 16)
"""7 tokens: the seed's chunks of 4, one full and one of 3; or chunks of 3, and 1 token before them."""
