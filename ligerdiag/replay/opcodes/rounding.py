"""The dtype that an elementwise opcode computes in, and the one rounding at its end.

Narrow floats compute in f32 and are rounded to the result's dtype once, as XLA:GPU does after it normalized them.
Only the element type of an instruction is looked at: a computation of scalars may be called with whole arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.dtypes import NARROW_FLOATS, get_dtype
from ligerdiag.replay.opcodes.scope import Array, Evaluate, Scope, Value


def elementwise(compute: Callable[..., Any]) -> Evaluate:
    """Returns an opcode from a function of arrays that broadcast; the function sees no narrow floats."""

    def evaluate(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
        arrays = [widen(get_array(instruction, operand)) for operand in operands]
        with np.errstate(all="ignore"):  # division by zero, overflow and NaN are values, not events
            return round_to(compute(*arrays), instruction)

    return evaluate


def get_array(instruction: HloInstruction, operand: Value) -> Array:
    """Returns an operand that has to be an array."""
    if isinstance(operand, tuple):
        raise ArtifactError(f"`{instruction.name}` is a {instruction.opcode} of a tuple")
    return operand


def widen(array: Array) -> Array:
    """Narrow floats as f32, exactly; everything else unchanged."""
    return array.astype(np.float32) if array.dtype in NARROW_FLOATS else array


def round_to(computed: Any, instruction: HloInstruction) -> Array:
    """Returns the computed values in the instruction's own element type."""
    return np.asarray(computed).astype(get_dtype(instruction.shape), copy=False)
