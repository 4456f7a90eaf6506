"""How XLA learns, or does not learn, that a kernel overwrites one of its operands.

This file imports no framework, so that a table of cases can name modes without starting one.
"""

from enum import StrEnum


class Mode(StrEnum):
    """How XLA is told about the operand that a kernel overwrites."""

    HIDDEN = "hidden"
    """Nothing: the new contents are the very array that was passed in. Exists to be diagnosed."""

    TRIVIAL = "trivial"
    """Nothing; afterwards the sum of the first output is added to the array and subtracted again. Exists to be
    diagnosed."""

    BARRIER = "barrier"
    """Nothing; afterwards the array and the outputs go through one `optimization_barrier`. Exists to be diagnosed."""

    ALIASED = "aliased"
    """That the operand and one output share their bytes. The one to use."""

    OUT_OF_PLACE = "out_of_place"
    """No declaration is needed: the new contents are an output of their own and the operand is only read."""


UNDECLARED = frozenset({Mode.HIDDEN, Mode.TRIVIAL, Mode.BARRIER})
"""The modes in which the kernel writes bytes that XLA takes for read-only."""
