"""Named shapes, shared by tests, cases and benchmarks. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """student_logits, teacher_logits float[tokens, vocabulary]."""

    tokens: int
    vocabulary: int


SMALL = Shape(32, 64)
"""Few enough rows to run through an interpreter."""
LLAMA_3 = Shape(4096, 128256)
