"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shape float[tokens, vocabulary] of student_logits and teacher_logits."""

    tokens: int
    vocabulary: int


SMALL = Shape(32, 64)
"""A shape with so few rows that a kernel can run in an interpreter."""
LLAMA_3 = Shape(4096, 128256)
