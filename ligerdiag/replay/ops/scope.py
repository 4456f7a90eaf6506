"""Defines the types of replay's values, the cells that store them in program order, and the interface that opcodes get.

A cell is the storage of one array, for values that a kernel may overwrite. Each array of a value is in one cell. Inside
of a shard_map it may be in one cell per device (`Spread`). Such a cell may hold one device's part of an array from
outside of the shard_map (`Shard`). An array is never overwritten in place: a write gives its cell another array, so
arrays can be shared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ligerdiag.errors import ArtifactError, LigerdiagError
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto

type Array = np.ndarray[Any, Any]
type Value = Array | tuple["Value", ...]
"""An array in its logical shape, with any strides, or a tuple of values; a token is the empty tuple."""


class NotCoveredError(LigerdiagError):
    """Raised for an operation that replay does not compute. The message names the operation, such as `convolution`."""

    exit_code = 3


class Scope(Protocol):
    """Gives the function that computes an opcode access to its module, its device, and the computations that it calls."""

    @property
    def module(self) -> HloModule:
        """Returns the module, so that an opcode can recognise a computation that it calls, such as an addition."""
        ...

    @property
    def partition(self) -> int:
        """Returns the number of the device that runs the instruction, 0-based."""
        ...

    @property
    def multiply(self) -> "Multiply":
        """Returns the function that computes float[batch, m, k] x float[batch, k, n] in a dtype that BLAS supports."""
        ...

    def call(self, computation: int, arguments: Sequence[Value]) -> Value:
        """Returns the value of the computation with the id `computation`, called with these arguments.

        If a computation of scalars is called with arrays of one shape, it computes element by element.
        """
        ...


type Multiply = Callable[[Array, Array, np.dtype[Any]], Array]
"""A function that returns the product of two stacks of matrices, computed in that dtype; callers do not modify the
product.
"""

type OnValue = Callable[[HloInstruction, Value, int], None]
"""A function to which a run passes each value as soon as it is computed: the instruction, its value, and the number of
the device (0 if all devices share the value). A later instruction may overwrite the value.
"""

type Evaluate = Callable[[HloInstruction, tuple[Value, ...], Scope], Value]
"""A function that computes one instruction from its operands' values and does not change them. Raises NotCoveredError.
"""


@dataclass(slots=True, eq=False)
class Cell:
    """Storage of one array in a run of the program as written, in program order."""

    array: Array

    def overwrite(self, array: Array) -> None:
        """Replaces the contents of the cell for all later reads. The old array itself is not modified, because other
        cells may share it.
        """
        self.array = array


@dataclass(slots=True, eq=False)
class Shard(Cell):
    """A cell for one device's part of an array that enters a shard_map. A cell is the storage of one array."""

    whole: Cell
    """The cell of the array outside of the shard_map."""
    where: tuple[slice, ...]
    """The place of this device's part in the array outside of the shard_map."""
    is_first: bool
    """Whether no device with a smaller partition id holds the same part. If several devices hold it, the contents of
    the first of them count.
    """

    def overwrite(self, array: Array) -> None:
        """Replaces the contents of this device's part. The array outside of the shard_map changes as well, but only
        through the first of the devices that have this part.
        """
        self.array = array
        if self.is_first:
            whole = np.array(self.whole.array)
            whole[self.where] = array
            self.whole.overwrite(whole)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """An array inside of a shard_map, where each device has a cell of its own for it."""

    cells: tuple[Cell, ...]
    """The cell of each device, by partition id."""


type Cells = Cell | Spread | tuple["Cells", ...]


def store(value: Value) -> Cells:
    """Returns new cells, one for each array of the value, that store the value."""
    if isinstance(value, tuple):
        return tuple([store(child) for child in value])
    return Cell(value)


def copy_cells(cells: Cells) -> Cells:
    """Copies the cells: returns new cells that store the same value."""
    match cells:
        case Cell():
            return Cell(cells.array)
        case Spread():
            return Spread(tuple([Cell(cell.array) for cell in cells.cells]))
        case _:
            return tuple([copy_cells(child) for child in cells])


def read_cells(cells: Cells) -> Value:
    """Returns the value that the cells store. Raises ArtifactError for a `Spread`, where each device has a cell of its
    own.
    """
    match cells:
        case Cell():
            return cells.array
        case Spread():
            raise ArtifactError("a value from inside of a shard_map is used outside of it")
        case _:
            return tuple([read_cells(child) for child in cells])


def list_cells(cells: Cells) -> list[Cell]:
    """Returns the cells of a value's arrays, in the order of its leaves. Raises ArtifactError for a `Spread`, where
    each device has a cell of its own.
    """
    match cells:
        case Cell():
            return [cells]
        case Spread():
            raise ArtifactError("a value from inside of a shard_map is used outside of it")
        case _:
            return [cell for child in cells for cell in list_cells(child)]


def nest_cells(shape: ShapeProto, cells: list[Cell]) -> Cells:
    """Takes the first cells of a list and nests them in tuples, as the shape nests its arrays. The list gets shorter."""
    if is_tuple(shape):
        return tuple([nest_cells(child, cells) for child in shape.tuple_shapes])
    return cells.pop(0)


def count_devices(cells: Cells) -> int:
    """Returns the largest number of devices over which an array of the value is spread. Returns 0 if no array is
    spread.
    """
    match cells:
        case Cell():
            return 0
        case Spread():
            return len(cells.cells)
        case _:
            return max([count_devices(child) for child in cells], default=0)


def pick_cells(cells: Cells, device: int) -> Cells:
    """Returns the cells that hold a value on one device. A cell that is not spread belongs to every device."""
    match cells:
        case Cell():
            return cells
        case Spread():
            return cells.cells[device]
        case _:
            return tuple([pick_cells(child, device) for child in cells])


def spread_cells(devices: Sequence[Cells]) -> Cells:
    """Joins the cells that the devices have for one value. A cell that all devices share stays a single cell; different
    cells become a `Spread`.

    devices: for each device, its cells of the value.
    """
    first = devices[0]
    if isinstance(first, tuple):
        children = [one if isinstance(one, tuple) else () for one in devices]
        return tuple([spread_cells(column) for column in zip(*children, strict=True)])
    cells = [one for one in devices if isinstance(one, Cell)]
    if all(cell is first for cell in cells):
        return first
    return Spread(tuple(cells))
