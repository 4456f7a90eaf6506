"""Computes the results of collectives from the operands of all devices, which run in lockstep.

Devices are ordered by their place in the group (see `shards.compute_groups`), not by device number. A reduction folds
from the first device of a group to the last in the operand's own dtype: each step is one call of the reducer and rounds
as the reducer does. HLO defines it so, and NCCL does so, too: at each hop it adds two narrow floats in f32 and stores
the narrow sum. Another order of hops differs by rounding only. A collective of several operands is computed separately
for each operand, except for all-to-all, whose operands are the pieces. A device that receives nothing from a
collective-permute or -broadcast gets zeros. The start of an asynchronous pair computes the result: the value of
all-reduce-start is the result itself; that of all-gather-start and collective-permute-start is (operands, results,
contexts) with contexts of zeros.

Not covered: ragged-all-to-all, a collective-permute of slices in place, several replicas. Source:
docs/operation_semantics of openxla/xla.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.ops.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.ops.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.shards import Groups, compute_groups, names_partitions

type Call = Callable[[int, Sequence[Value]], Value]
type Column = list[Array]
"""One operand or result of a collective, device by device."""

COLLECTIVES = having(Trait.REPLAYED)

_OPERANDS_FIRST = having(Trait.STARTS_WITH_OPERANDS)


def exchange(instruction: HloInstruction, operands: Sequence[tuple[Value, ...]], call: Call) -> list[Value]:
    """Returns the result of a collective on each device. `operands[d]` are the operand values of device d, which stay
    unchanged.

    call: evaluates the reducer (computation id, arguments) element by element.

    Raises:
        NotCoveredError: for an opcode outside of COLLECTIVES, or a variant of a collective that this file does not cover.
        ArtifactError: if the groups do not fit the devices, or the operands do not fit the groups.
    """
    if instruction.opcode not in COLLECTIVES:
        raise NotCoveredError(instruction.opcode)
    columns = _transpose(instruction, operands)
    opcode = instruction.opcode.removesuffix("-start")
    if opcode == "collective-permute":
        results = [_permute(instruction, column) for column in columns]
    else:
        groups = compute_groups(instruction, len(operands))
        match opcode:
            case "all-reduce":
                results = [_reduce(instruction, column, groups, call) for column in columns]
            case "reduce-scatter":
                reduced = [_reduce(instruction, column, groups, call) for column in columns]
                results = [_scatter(instruction, column, groups) for column in reduced]
            case "all-gather":
                results = [_gather(instruction, column, groups) for column in columns]
            case "all-to-all":
                results = _swap(instruction, columns, groups)
            case _:
                results = [_broadcast(column, groups) for column in columns]
    return [
        _shape_result(instruction, operands[device], [column[device] for column in results])
        for device in range(len(operands))
    ]


def _transpose(instruction: HloInstruction, operands: Sequence[tuple[Value, ...]]) -> list[Column]:
    """Returns, for each operand of a collective, its value on each device. Raises NotCoveredError for tuples."""
    columns: list[Column] = []
    for number in range(len(instruction.operands)):
        column = [values[number] for values in operands]
        if any(isinstance(value, tuple) for value in column):
            raise NotCoveredError(f"{instruction.opcode} with a tuple as operand")
        columns.append(cast(Column, column))
    if not columns:
        raise ArtifactError(f"`{instruction.name}` ({instruction.opcode}) has no operands")
    return columns


def _shape_result(instruction: HloInstruction, operands: tuple[Value, ...], results: list[Array]) -> Value:
    """Returns the results of one device in the instruction's shape: an array, a tuple, or (operands, results,
    contexts).
    """
    shape = instruction.shape
    if instruction.opcode not in _OPERANDS_FIRST:
        return tuple(results) if is_tuple(shape) else results[0]
    if not is_tuple(shape) or len(shape.tuple_shapes) < 2:
        raise ArtifactError(f"the shape of `{instruction.name}` is not a tuple of operands and results")
    first, second, *contexts = shape.tuple_shapes
    return (
        tuple(operands) if is_tuple(first) else operands[0],
        tuple(results) if is_tuple(second) else results[0],
        *[_make_zeros(context) for context in contexts],
    )


def _make_zeros(shape: ShapeProto) -> Array:
    return np.zeros(get_dimensions(shape), get_dtype(shape))


def _reduce(instruction: HloInstruction, column: Column, groups: Groups, call: Call) -> Column:
    """Reduces an operand over each group of devices. The devices of a group share one array, because nothing changes
    values in place.
    """
    if len(instruction.called_computations) != 1:
        raise ArtifactError(
            f"`{instruction.name}` calls {len(instruction.called_computations)} computations, but a reduction needs "
            "exactly one"
        )
    results = list(column)
    for group in groups:
        total: Value = column[group[0]]
        for device in group[1:]:
            total = call(instruction.called_computations[0], (total, column[device]))
        for device in group:
            results[device] = np.asarray(total)
    return results


def _scatter(instruction: HloInstruction, column: Column, groups: Groups) -> Column:
    results = list(column)
    for group in groups:
        pieces = _split(instruction, column[group[0]], len(group))
        for device, piece in zip(group, pieces, strict=True):
            results[device] = piece
    return results


def _gather(instruction: HloInstruction, column: Column, groups: Groups) -> Column:
    results = list(column)
    for group in groups:
        gathered = np.concatenate([column[device] for device in group], _get_dimension(instruction, column[0]))
        for device in group:
            results[device] = gathered
    return results


def _swap(instruction: HloInstruction, columns: list[Column], groups: Groups) -> list[Column]:
    """Computes all-to-all. An array is split and joined along one dimension; in a tuple, element i of the result comes
    from device i of the group.
    """
    results = [list(column) for column in columns]
    for group in groups:
        if is_tuple(instruction.shape):
            if len(columns) != len(group):
                raise ArtifactError(
                    f"`{instruction.name}` needs one operand for each of {len(group)} devices but has {len(columns)}"
                )
            sent = [[column[device] for column in columns] for device in group]
        else:
            sent = [_split(instruction, columns[0][device], len(group)) for device in group]
        for place, device in enumerate(group):
            received = [pieces[place] for pieces in sent]
            if is_tuple(instruction.shape):
                for result, piece in zip(results, received, strict=True):
                    result[device] = piece
            else:
                results[0][device] = np.concatenate(received, _get_dimension(instruction, columns[0][device]))
    return results


def _permute(instruction: HloInstruction, column: Column) -> Column:
    proto = instruction.proto
    if proto.dynamic_slice_sizes:
        raise NotCoveredError("collective-permute of slices in place")
    pairs = [(pair.source, pair.target) for pair in proto.source_target_pairs]
    if not names_partitions(instruction):
        # the pairs name replicas; the only replica sends to itself or not at all
        if any(source or target for source, target in pairs):
            raise NotCoveredError("collectives among replicas")
        pairs = [(device, device) for device in range(len(column)) if pairs]
    results: Column = [np.zeros_like(value) for value in column]
    targets = [target for _, target in pairs]
    if len(set(targets)) != len(targets):
        raise ArtifactError(f"`{instruction.name}` sends twice to the same device")
    for source, target in pairs:
        if max(source, target) >= len(column):
            raise NotCoveredError(
                f"a collective that names device {max(source, target)} in a program for devices 0 to {len(column) - 1}"
            )
        results[target] = column[source]
    return results


def _broadcast(column: Column, groups: Groups) -> Column:
    results: Column = [np.zeros_like(value) for value in column]
    for group in groups:
        for device in group:
            results[device] = column[group[0]]
    return results


def _split(instruction: HloInstruction, value: Array, pieces: int) -> list[Array]:
    dimension = _get_dimension(instruction, value)
    if value.shape[dimension] % pieces:
        raise ArtifactError(
            f"`{instruction.name}` cannot split {value.shape[dimension]} elements into {pieces} equal parts"
        )
    return np.split(value, pieces, dimension)


def _get_dimension(instruction: HloInstruction, value: Array) -> int:
    """Returns the one dimension along which a collective gathers, scatters or splits. Raises ArtifactError if there is
    not exactly one, or if the operand `value` does not have it.
    """
    dimensions = instruction.proto.dimensions
    if len(dimensions) != 1 or not 0 <= dimensions[0] < value.ndim:
        raise ArtifactError(
            f"`{instruction.name}` names the dimensions {list(dimensions)}, but needs exactly one of an array of rank "
            f"{value.ndim}"
        )
    return dimensions[0]
