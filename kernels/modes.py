"""Defines the modes in which a program calls a kernel that overwrites an operand: what the program declares to XLA."""

from enum import StrEnum


class Mode(StrEnum):
    """A way to call a kernel that overwrites an operand. The mode decides how the program declares the write to XLA, and
    which array has the new contents afterwards.
    """

    HIDDEN = "hidden"
    """Declares nothing; the new contents are in the array that was passed in. Only for tests of ligerdiag."""

    TRIVIAL = "trivial"
    """Declares nothing; then adds the sum of the first output to the array and subtracts it again. Only for tests of
    ligerdiag.
    """

    BARRIER = "barrier"
    """Declares nothing; then passes the array and the outputs through one `optimization_barrier`. Only for tests of
    ligerdiag.
    """

    ALIASED = "aliased"
    """Declares that the operand and one output share their bytes, and returns that output. The mode to use."""

    OUT_OF_PLACE = "out_of_place"
    """Needs no declaration: the new contents are an output with its own bytes, and the kernel only reads the operand."""


UNDECLARED = frozenset({Mode.HIDDEN, Mode.TRIVIAL, Mode.BARRIER})
"""The modes in which the kernel overwrites an operand without declaring it to XLA."""
