"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The shapes student_input float[tokens, hidden], teacher_input float[tokens, teacher_hidden], weights [..,
    vocabulary].
    """

    tokens: int
    hidden: int
    teacher_hidden: int
    vocabulary: int


SMALL = Shape(32, 16, 24, 64)
LLAMA_3 = Shape(4096, 2048, 4096, 128256)
"""Llama 3.2 1B as the student of Llama 3.1 8B."""
