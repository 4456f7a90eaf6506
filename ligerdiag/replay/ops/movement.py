"""Computes constants, device ids, and opcodes that move values without changing them.

Results may be views of operands, because no value is ever changed in place. A layout says where elements lie in memory,
not which elements they are: only `bitcast`, which keeps bytes and not elements, depends on it. A missing layout is
row-major. A computation of scalars may be called with whole arrays; in it, an opcode that only passes on a scalar (such
as `reshape` to another scalar) returns the array unchanged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import DTYPE_NAMES, is_tuple
from ligerdiag.hlo.xla_pb2 import LiteralProto, ShapeProto
from ligerdiag.replay.ops.dtypes import get_array, get_dimensions, get_dtype
from ligerdiag.replay.ops.scope import Array, Evaluate, NotCoveredError, Scope, Value

_BYTES = frozenset({"u8", "s8", "u16", "s16", "f16", "bf16"})
_FIELD = {"pred": "preds"}


def parse_literal(literal: LiteralProto) -> Value:
    """Returns a literal's value as an array of the literal's shape, in row-major order. Raises ArtifactError if the
    data does not fill the shape.
    """
    if is_tuple(literal.shape):
        return tuple([parse_literal(child) for child in literal.tuple_literals])
    name = DTYPE_NAMES.get(literal.shape.element_type, "")
    dtype, dimensions = get_dtype(literal.shape), get_dimensions(literal.shape)
    data: Any = getattr(literal, _FIELD.get(name, f"{name}s"), None)
    if data is None:
        raise NotCoveredError(f"constant of element type {name}")
    flat: Array
    if name in _BYTES or name.startswith("f8"):
        flat = np.frombuffer(data, dtype)
    elif name in ("c64", "c128"):
        flat = np.array(data, np.float32 if name == "c64" else np.float64).view(dtype)
    else:
        flat = np.array(data, dtype)
    if flat.size != math.prod(dimensions):
        raise ArtifactError(f"expected {math.prod(dimensions)} elements in a constant but got {flat.size}")
    return order_elements(flat, literal.shape, dimensions)


def order_elements(flat: Array, shape: ShapeProto, dimensions: tuple[int, ...]) -> Array:
    """Reorders the elements of a literal from the order of its layout into row-major order.

    flat: the elements in the order of the literal's layout. shape: the literal's shape, with its layout. dimensions:
    the dimensions of the result.
    """
    major_to_minor = list(reversed(shape.layout.minor_to_major))
    if len(major_to_minor) != len(dimensions):
        return flat.reshape(dimensions)
    stored = flat.reshape([dimensions[d] for d in major_to_minor])
    return stored.transpose(np.argsort(major_to_minor)) if dimensions else stored.reshape(())


def _get_partition(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return np.array(scope.partition, np.uint32)


def _get_replica(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return np.array(0, np.uint32)  # JAX partitions programs, it never replicates them


IDENTITY: Mapping[str, Evaluate] = {"partition-id": _get_partition, "replica-id": _get_replica}


def _dynamic_slice(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    operand, *starts = [get_array(instruction, operand) for operand in operands]
    return operand[_compute_window(instruction, operand, starts, tuple(instruction.proto.dynamic_slice_sizes))]


def _dynamic_update(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    operand, update, *starts = [get_array(instruction, operand) for operand in operands]
    result = operand.copy()
    result[_compute_window(instruction, operand, starts, update.shape)] = update
    return result


def _compute_window(
    instruction: HloInstruction, operand: Array, starts: Sequence[Array], sizes: tuple[int, ...]
) -> tuple[slice, ...]:
    if any(start.ndim for start in starts):
        raise NotCoveredError(f"{instruction.opcode} with arrays instead of scalars as start indices")
    if not len(starts) == len(sizes) == operand.ndim:
        raise ArtifactError(
            f"`{instruction.name}` has {len(starts)} start indices and {len(sizes)} slice sizes"
            f" for an operand of {operand.ndim} dimensions"
        )
    window: list[slice] = []
    for start, size, extent in zip(starts, sizes, operand.shape, strict=True):
        first = min(max(int(start), 0), extent - size)
        window.append(slice(first, first + size))
    return tuple(window)


DYNAMIC: Mapping[str, Evaluate] = {"dynamic-slice": _dynamic_slice, "dynamic-update-slice": _dynamic_update}


@lru_cache(maxsize=64)  # a loop's body loads its constants in each iteration
def load_constant(instruction: HloInstruction) -> Value:
    """Returns the value of a `constant`, read-only. Raises NotCoveredError or ArtifactError if its literal cannot be
    read.
    """
    if not instruction.proto.HasField("literal"):
        raise NotCoveredError("a constant whose values the HLO text leaves out")
    value = parse_literal(instruction.proto.literal)
    if not isinstance(value, tuple):
        value.flags.writeable = False
    return value


def _constant(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return load_constant(instruction)


def _iota(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    dimensions = get_dimensions(instruction.shape)
    along = instruction.proto.dimensions[0]
    numbers = np.arange(dimensions[along]).astype(get_dtype(instruction.shape))
    column = [-1 if number == along else 1 for number in range(len(dimensions))]
    return np.broadcast_to(numbers.reshape(column), dimensions)


def _copy(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    return operands[0]


def _moving(move: Callable[[HloInstruction, tuple[Array, ...]], Any]) -> Evaluate:
    """Turns a function that needs arrays of the shapes that the module declares into an `Evaluate`, a function that
    computes an instruction.

    If a computation of scalars is called with whole arrays, the given function is not used: an opcode with one operand
    returns the operand's array, any other one raises NotCoveredError.
    """

    def evaluate(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
        arrays = tuple([get_array(instruction, operand) for operand in operands])
        lifted = any(
            array.ndim != len(operand.shape.dimensions)
            for array, operand in zip(arrays, instruction.operands, strict=True)
        )
        if not lifted:
            return move(instruction, arrays)
        dtype = get_dtype(instruction.shape)
        if len(arrays) != 1 or instruction.shape.dimensions or arrays[0].dtype.itemsize != dtype.itemsize:
            raise NotCoveredError(f"{instruction.opcode} in a scalar computation that runs on whole arrays")
        return arrays[0].view(dtype)

    return evaluate


def _broadcast(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    (operand,) = operands
    targets, dimensions = tuple(instruction.proto.dimensions), get_dimensions(instruction.shape)
    ordered = operand.transpose(np.argsort(targets)) if targets else operand
    spread = [dimensions[number] if number in targets else 1 for number in range(len(dimensions))]
    return np.broadcast_to(ordered.reshape(spread), dimensions)


def _reshape(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    return operands[0].reshape(get_dimensions(instruction.shape))


def _bitcast(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    (operand,) = operands
    stored = operand.transpose(get_major_to_minor(instruction.operands[0].shape))
    dimensions, order = get_dimensions(instruction.shape), get_major_to_minor(instruction.shape)
    dtype = get_dtype(instruction.shape)
    if operand.dtype != dtype:
        stored = np.ascontiguousarray(stored).reshape(-1).view(dtype)
    return stored.reshape([dimensions[d] for d in order]).transpose(np.argsort(order) if order else None)


def get_major_to_minor(shape: ShapeProto) -> list[int]:
    """Returns an array's dimensions in the order of its layout, outermost in memory first. An array without a layout is
    row-major.
    """
    order = list(reversed(shape.layout.minor_to_major))
    return order if len(order) == len(shape.dimensions) else list(range(len(shape.dimensions)))


def _transpose(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    return operands[0].transpose(tuple(instruction.proto.dimensions))


def _slice(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    ranges = instruction.proto.slice_dimensions
    if len(ranges) != operands[0].ndim:
        raise ArtifactError(f"`{instruction.name}` has {len(ranges)} slice ranges for {operands[0].ndim} dimensions")
    return operands[0][tuple([slice(r.start, r.limit, r.stride) for r in ranges])]


def _pad(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    operand, padding = operands
    result = np.full(get_dimensions(instruction.shape), padding, operand.dtype)
    into: list[slice] = []
    taken: list[slice] = []
    for edge, extent, size in zip(
        instruction.proto.padding_config.dimensions, operand.shape, result.shape, strict=True
    ):
        low, step = edge.edge_padding_low, edge.interior_padding + 1
        first = max(0, -(low // step))  # smallest i with low + i * step >= 0
        end = max(first, min(extent, (size - 1 - low) // step + 1))  # one past the last i that lies inside
        taken.append(slice(first, end))
        into.append(slice(low + first * step, low + (end - 1) * step + 1, step) if end > first else slice(0, 0))
    result[tuple(into)] = operand[tuple(taken)]
    return result


def _concatenate(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    return np.concatenate(operands, axis=instruction.proto.dimensions[0])


def _reverse(instruction: HloInstruction, operands: tuple[Array, ...]) -> Any:
    return np.flip(operands[0], tuple(instruction.proto.dimensions))


MOVEMENT: Mapping[str, Evaluate] = {
    "bitcast": _moving(_bitcast),
    "broadcast": _moving(_broadcast),
    "concatenate": _moving(_concatenate),
    "constant": _constant,
    "copy": _copy,
    "iota": _iota,
    "pad": _moving(_pad),
    "reshape": _moving(_reshape),
    "reverse": _moving(_reverse),
    "slice": _moving(_slice),
    "transpose": _moving(_transpose),
}
