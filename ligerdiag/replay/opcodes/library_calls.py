"""`custom-call`: by target. Kernels are not among them, see `machine`; neither are targets that change the meaning of a
shape, such as `SPMDFullToShardShape`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.opcodes.gemm_calls import GEMM_CALLS
from ligerdiag.replay.opcodes.random import compute_threefry
from ligerdiag.replay.opcodes.scope import Evaluate, NotCoveredError, Scope, Value
from ligerdiag.replay.opcodes.sorting_calls import SORTING_CALLS


def evaluate_threefry(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """JAX's threefry2x32 on CUDA. Operands: two words of the key, two of the counter, all u32 of one shape."""
    words: list[Any] = [np.asarray(operand) for operand in operands]
    if len(words) != 4 or any(word.dtype != np.uint32 for word in words):
        raise NotCoveredError(f"custom-call {instruction.proto.custom_call_target} of {len(words)} operands")
    with np.errstate(over="ignore"):
        return compute_threefry((words[2], words[3]), (words[0], words[1]))


def pass_on(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Returns the operands of an annotation, unchanged."""
    if len(operands) == 0:
        raise ArtifactError(f"`{instruction.name}` annotates nothing")
    return operands if is_tuple(instruction.shape) and len(operands) > 1 else operands[0]


def allocate(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Returns a buffer that is not written yet: zeros."""
    return np.zeros(get_dimensions(instruction.shape), get_dtype(instruction.shape))


TARGETS: Mapping[str, Evaluate] = {
    **GEMM_CALLS,
    **SORTING_CALLS,
    "cu_threefry2x32": evaluate_threefry,
    "cu_threefry2x32_ffi": evaluate_threefry,
    "AllocateBuffer": allocate,
    "LayoutConstraint": pass_on,
    "Sharding": pass_on,
    "annotate_device_placement": pass_on,
    "xla.sdy.FuncResultSharding": pass_on,
}


def evaluate_custom_call(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Evaluates a custom call by its target; raises NotCoveredError for an unknown one."""
    target = instruction.proto.custom_call_target
    compute = TARGETS.get(target)
    if compute is None:
        raise NotCoveredError(f"custom-call {target}")
    return compute(instruction, operands, scope)


LIBRARY_CALLS: Mapping[str, Evaluate] = {"custom-call": evaluate_custom_call}
