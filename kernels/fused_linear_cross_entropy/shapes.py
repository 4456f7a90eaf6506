"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shapes input float[batch, context, embedding], weight float[embedding, vocabulary], bias float[vocabulary]."""

    batch: int
    context: int
    vocabulary: int
    embedding: int


SEED_SMALL = Shape(1, 4, 32, 16)
SEED_LARGE = Shape(4, 2048, 50304, 1024)
SHARDED = Shape(8, 64, 4096, 256)
CHUNKED = Shape(2, 48, 128, 32)
"""Three chunks of 32 tokens."""
REMAINDER = Shape(1, 7, 37, 16)
"""7 tokens: in the seed, a chunk of 4 and one of 3; here, chunks of 3 after a first chunk of 1 token."""
