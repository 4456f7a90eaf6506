"""Slices whose place is computed: each start index is a scalar operand, moved so that the slice lies inside."""

from collections.abc import Mapping, Sequence

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.opcodes.rounding import get_array
from ligerdiag.replay.opcodes.scope import Array, Evaluate, NotCoveredError, Scope, Value


def _slice(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    operand, *starts = [get_array(instruction, operand) for operand in operands]
    return operand[_compute_window(instruction, operand, starts, tuple(instruction.proto.dynamic_slice_sizes))]


def _update(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    operand, update, *starts = [get_array(instruction, operand) for operand in operands]
    result = operand.copy()
    result[_compute_window(instruction, operand, starts, update.shape)] = update
    return result


def _compute_window(
    instruction: HloInstruction, operand: Array, starts: Sequence[Array], sizes: tuple[int, ...]
) -> tuple[slice, ...]:
    if any(start.ndim for start in starts):
        raise NotCoveredError(f"{instruction.opcode} with start indices that are arrays")
    if not len(starts) == len(sizes) == operand.ndim:
        raise ArtifactError(f"`{instruction.name}` has {len(starts)} start indices for {operand.ndim} dimensions")
    window: list[slice] = []
    for start, size, extent in zip(starts, sizes, operand.shape, strict=True):
        first = min(max(int(start), 0), extent - size)
        window.append(slice(first, first + size))
    return tuple(window)


DYNAMIC: Mapping[str, Evaluate] = {"dynamic-slice": _slice, "dynamic-update-slice": _update}
