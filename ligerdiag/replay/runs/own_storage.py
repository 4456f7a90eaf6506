"""Memory of one device in which every value has bytes of its own, but for what only names it (see `hlo.shared_storage`)."""

from collections.abc import Mapping
from typing import override

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, compute_byte_size, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.memory import DeviceMemory, view_bytes

type Leaves = Mapping[ShapeIndex, Array]
"""Leaf of a value to its bytes."""
_ALIGNMENT = 64


class OwnStorage(DeviceMemory):
    """Bytes of one device, by the instruction that defines or names them."""

    def __init__(self) -> None:
        self._leaves: dict[int, dict[ShapeIndex, Array]] = {}

    def clear(self) -> None:
        """Forgets everything."""
        self._leaves.clear()

    def take(self, instruction: HloInstruction) -> Leaves:
        """Returns the bytes of each leaf. Raises ArtifactError when nothing stands there."""
        found = self._leaves.get(instruction.id)
        if found is None:
            raise ArtifactError(f"nothing stands where `{instruction.name}` is read")
        return found

    def give(self, instruction: HloInstruction, leaves: Leaves) -> None:
        """Makes the instruction name these bytes."""
        self._leaves[instruction.id] = dict(leaves)

    def name(self, instruction: HloInstruction, index: ShapeIndex, bytes_: Array) -> None:
        """Makes one leaf of the instruction name these bytes."""
        self._leaves.setdefault(instruction.id, {})[index] = bytes_

    def find(self, instruction: HloInstruction, index: ShapeIndex) -> Array | None:
        """Returns the bytes of one leaf; None where there are none, as for a token."""
        return self._leaves.get(instruction.id, {}).get(index)

    def define(self, instruction: HloInstruction) -> None:
        """Gives each leaf new bytes, which hold no number."""
        shapes = iterate_leaf_shapes(instruction.shape)
        self._leaves[instruction.id] = {
            index: allocate(shape) for index, shape in shapes if shape.element_type != TOKEN
        }

    def drop(self, number: int) -> None:
        """Forgets what the instruction of this id defines or names."""
        self._leaves.pop(number, None)

    @override
    def view(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """See `DeviceMemory.view`."""
        found = self.find(instruction, index)
        if found is None:
            raise ArtifactError(f"nothing stands where `{instruction.name}`{list(index) or ''} is read")
        return view_bytes(instruction, shape, found, 0, found.nbytes)

    @override
    def view_flat(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """See `DeviceMemory.view_flat`."""
        view = self.view(instruction, index, shape)
        found = self.find(instruction, index)
        assert found is not None
        return np.ndarray((view.size,), view.dtype, found, 0)

    @override
    def write(self, instruction: HloInstruction, value: Value, index: ShapeIndex = ()) -> None:
        """Stores the value, or its part for `index`, in new bytes."""
        for leaf, shape in iterate_leaf_shapes(instruction.shape):
            if leaf[: len(index)] == index and shape.element_type != TOKEN:
                self.name(instruction, leaf, allocate(shape))
        DeviceMemory.write(self, instruction, value, index)


def allocate(shape: ShapeProto) -> Array:
    """Returns new bytes for one array, all bits set. Raises NotCoveredError for packed elements.

    They begin at a multiple of 64: a library that computes in blocks rounds the same way then each time.
    """
    size = compute_byte_size(shape)
    if size is None:
        raise NotCoveredError("values whose size in bytes is not known")
    whole = np.full(size + _ALIGNMENT, 0xFF, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    return whole[start : start + size]


def copy_bytes(bytes_: Array) -> Array:
    """Returns a copy that begins at a multiple of 64."""
    whole = np.empty(bytes_.nbytes + _ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    found = whole[start : start + bytes_.nbytes]
    found[...] = bytes_
    return found
