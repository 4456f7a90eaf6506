"""The interface of an opcode: values, and the few questions it may ask about the program around it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ligerdiag.errors import LigerdiagError
from ligerdiag.hlo.module import HloInstruction, HloModule

type Array = np.ndarray[Any, Any]
type Value = Array | tuple["Value", ...]
"""An array in its logical shape (strides do not matter), or a tuple; a token is the empty tuple."""


class NotCoveredError(LigerdiagError):
    """Something that replay does not compute; the message names it, such as `convolution`."""

    exit_code = 3


class Scope(Protocol):
    """The program around an instruction."""

    @property
    def module(self) -> HloModule:
        """The program: an opcode may look at a computation it calls, to see that it is a mere addition."""
        ...

    @property
    def partition(self) -> int:
        """Number of the device that runs the instruction, 0-based."""
        ...

    def call(self, computation: int, arguments: Sequence[Value]) -> Value:
        """Returns the value of the computation with that id, called with these arguments.

        A computation of scalars may be called with arrays of one shape instead: it is evaluated element by element.
        """
        ...


type Evaluate = Callable[[HloInstruction, tuple[Value, ...], Scope], Value]
"""Computes one instruction from its operands' values; never changes them. Raises NotCoveredError."""
