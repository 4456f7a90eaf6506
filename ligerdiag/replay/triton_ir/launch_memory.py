"""Implements the memory of a launch: loads and stores of all programs of a batch, checked against each argument's
bounds.

An access with a *window* (regular steps from a start, see `access_windows`) is a view of the argument's bytes; any
other access gathers or scatters element by element. An element outside its argument is recorded; its load gives the
value of a masked element, and its store is dropped. If several lanes store to one address, the last one's value stays,
as in Triton's own interpreter. The contents that stores overwrite are kept until the batch is done, because a batch
whose programs meet is undone.

`WrittenBytes` records reads of unwritten bytes. A byte counts as written once any program of the launch has stored to
it, whatever the order of the grid. An atomic operation reads the bytes that it updates, unless it is an exchange whose
result nobody uses. Within one operation, all lanes and programs read before any writes. The records of a batch are
pending until the batch is done; undoing the batch drops them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np

from ligerdiag.effects.ttir_module import Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.access_windows import Window, find_box, find_window, make_address
from ligerdiag.replay.triton_ir.outcome import OutOfBounds, UnwrittenBytes
from ligerdiag.replay.triton_ir.values import REGION_BITS, Active, DType, Sum, to_array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PendingRead:
    """Elements that one operation of the current batch read before any program had written them."""

    argument: int
    offsets: Array
    """i64[elements]: byte offsets from the start of the argument."""
    width: int
    """Bytes of an element."""
    operation: Operation
    program: int
    """Number, in the grid, of the first program that read one of the elements."""


@dataclass(slots=True, eq=False)
class _Pending:
    """Records of reads and writes of the current batch, kept or dropped when it ends."""

    written: list[tuple[int, Array]] = field(default_factory=list[tuple[int, Array]])
    """Bytes that the batch was the first to write: (argument, byte offsets)."""
    reads: list[_PendingRead] = field(default_factory=list[_PendingRead])


class WrittenBytes:
    """Records the bytes of the tracked arguments that programs have written, and the bytes that they read unwritten."""

    def __init__(self, sizes: Mapping[int, int], updates: frozenset[int]) -> None:
        """Starts with no byte written. sizes: bytes of each tracked argument. updates: ids of the atomic operations
        that read the bytes that they update.
        """
        self._updates = updates
        self._written = {argument: np.zeros(size, bool) for argument, size in sizes.items()}
        self._read_unwritten = {argument: np.zeros(size, bool) for argument, size in sizes.items()}
        self._first: dict[int, tuple[Operation, int, int]] = {}
        self._pending = _Pending()

    def is_tracked(self, argument: int) -> bool:
        """Returns whether reads of this argument's unwritten bytes are recorded."""
        return argument in self._written

    def note(
        self, argument: int, op: Operation, offsets: Array, width: int, programs: Array, *, reads: bool, writes: bool
    ) -> None:
        """Records the elements that an operation accesses. The record is pending until the batch ends.

        offsets: i64[elements], in bytes from the start of the argument. width: bytes of an element. programs:
        i64[elements], the accessing program's number in the grid.
        """
        written = self._written[argument]
        known = written[offsets]
        for byte in range(1, width):
            known &= written[offsets + byte]
        if bool(known.all()):
            return
        fresh = offsets[~known]
        if reads and (not writes or id(op) in self._updates):
            self._pending.reads.append(
                _PendingRead(
                    argument=argument, offsets=fresh, width=width, operation=op, program=int(programs[~known][0])
                )
            )
        for byte in range(width if writes else 0):
            places = fresh + byte
            places = places[~written[places]]
            written[places] = True
            self._pending.written.append((argument, places))

    def commit(self) -> None:
        """Keeps the pending records of the current batch, which has ended and will not be undone."""
        for read in self._pending.reads:
            for byte in range(read.width):
                self._read_unwritten[read.argument][read.offsets + byte] = True
            self._first.setdefault(read.argument, (read.operation, read.program, int(read.offsets[0])))
        self._pending = _Pending()

    def undo(self) -> None:
        """Drops the records of the current batch."""
        for argument, places in self._pending.written:
            self._written[argument][places] = False
        self._pending = _Pending()

    def list_unwritten_reads(self) -> tuple[UnwrittenBytes, ...]:
        """Returns a record for each argument with bytes that were read before any program had written them."""
        return tuple(
            UnwrittenBytes(
                argument=argument,
                mask=self._read_unwritten[argument],
                is_atomic=op.name not in ("tt.load", "tt.descriptor_load", "tt.descriptor_gather"),
                program=program,
                first_byte=first,
                place=op.place,
            )
            for argument, (op, program, first) in sorted(self._first.items())
        )


FEW_ELEMENTS = 64
"""If the programs' starts are at irregular distances, a window with fewer elements per program than this is gathered
element by element.
"""

type Kind = Literal["load", "store", "atomic"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffer:
    """The bytes of one argument of a kernel."""

    data: Array
    """u8[bytes]: a view of the caller's memory."""
    address: int
    """Address of the first byte in this process."""


def make_buffer(array: Array) -> Buffer:
    """Returns the bytes of an array, without a copy. Raises ValueError if the array is not C-contiguous."""
    if not array.flags.c_contiguous:
        raise ValueError("Expected a contiguous array")
    data = array.reshape(-1).view(np.uint8)
    return Buffer(data=data, address=array.ctypes.data)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedAccess:
    """The accesses of one operation to one argument, by all programs of a batch in one evaluation."""

    kind: Kind
    operation: Operation
    width: int
    """Bytes of an element."""
    window: Window | None
    argument: int
    programs: Array
    """i64[n]: numbers, within the batch, of the accessing programs; only the first and the last if all share one
    window.
    """
    offsets: Array
    """i64[n]: byte offsets from the start of the argument; only meaningful if there is no window."""


@dataclass(slots=True, eq=False)
class Journal:
    """The side effects of a batch, recorded so that the batch can be undone. A batch is a set of programs of the grid
    that are evaluated at once.
    """

    accesses: list[LoggedAccess] = field(default_factory=list[LoggedAccess])
    outside: list[OutOfBounds] = field(default_factory=list[OutOfBounds])
    overwritten: list[tuple[Array, Array | None, Array]] = field(
        default_factory=list[tuple[Array, Array | None, Array]]
    )
    """The contents that each store overwrote: (view of the memory, places in it or None for all, old contents)."""
    used_atomics: bool = False

    def undo(self) -> None:
        """Restores the memory to its contents from before the batch."""
        for view, places, old in reversed(self.overwritten):
            if places is None:
                view[...] = old
            else:
                view[places] = old


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccessSite:
    """A memory operation that is being evaluated: its addresses, its mask and the programs that run it."""

    operation: Operation
    address: Array | Sum
    """i64[programs or 1, *block]: the address of each element."""
    mask: Array | None
    """Which elements are accessed: bool, of the rank of the address; None for all."""
    active: Active

    def get_shape(self, *others: Array | None) -> tuple[int, ...]:
        """Returns the shape to which the addresses, the mask and the arrays `others` broadcast."""
        shapes = [array.shape for array in (self.mask, *others) if array is not None]
        return np.broadcast_shapes(self.address.shape, *shapes)

    @staticmethod
    def get_place(window: Window, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Returns the part of a block that the window covers: a slice for each axis.

        shape: [programs, *block]; the first axis is ignored.
        """
        return tuple(
            slice(None) if first is None or size == 1 else slice(first, first + count)
            for first, count, size in zip(window.corner, window.counts, shape[1:], strict=True)
        )


class Memory:
    """The arguments of a launch as memory that a kernel accesses by address."""

    def __init__(
        self, buffers: Sequence[Buffer | None], watched: frozenset[int], written: WrittenBytes | None = None
    ) -> None:
        """Makes the arguments accessible by address.

        buffers: of each argument, None for a scalar. watched: numbers of the arguments whose accesses are logged.
        written: records reads of unwritten bytes; None if nothing is to be recorded.
        """
        self.buffers, self._watched, self._written = tuple(buffers), watched, written
        self.journal = Journal()
        self.keeps_overwritten = True
        self.first_stays = False
        """Whether the first program's value stays where several store to the same bytes; see `GridOptions`."""
        self.numbers = np.zeros(1, np.int64)
        """i64[programs]: the linear number, in the grid, of each program of the batch."""

    def load(self, target: AccessSite, other: Array | None, dtype: DType) -> Array:
        """Returns the elements that a load reads.

        other: the values of the elements where the mask is false; None for zeros.
        """
        other = other if target.mask is not None else None
        storage = np.dtype(np.uint8) if dtype == np.bool_ else dtype
        window = self._find_window(target, storage.itemsize)
        if window == "nothing":
            return _fill(target.get_shape(other), other, dtype)
        if window is None:
            return self._gather(target, other, dtype)
        self._note(target, "load", storage.itemsize, window)
        views = self._view(window, storage)
        programs = window.programs
        subset = programs is not None and (window.starts.size > 1 or target.mask is not None)
        shape = (self.numbers.size if subset else window.starts.size, *target.get_shape(other)[1:])
        if not subset and window.counts == shape[1:] and len(views) == 1:
            return views[0].copy() if dtype != np.bool_ else views[0] != 0
        out = _fill(shape, other, dtype)
        place = target.get_place(window, out.shape)
        if len(views) == 1:
            out[(programs if subset and programs is not None else slice(None), *place)] = views[0]
        else:
            for row, view in zip(range(out.shape[0]) if programs is None else programs, views, strict=True):
                out[(row, *place)] = view[0]
        return out

    def store(self, target: AccessSite, value: Array) -> None:
        """Writes the elements of a store where its mask is true."""
        if value.dtype == np.bool_:
            value = value.astype(np.uint8)
        address, mask, active = target.address, target.mask, target.active
        is_shared = address.shape[0] == 1 and self.numbers.size > 1 and (mask is None or mask.shape[0] == 1)
        if is_shared and value.shape[0] > 1:  # only one program's value stays
            storing = np.arange(self.numbers.size) if active is None else np.flatnonzero(active)
            stays = int(storing[0 if self.first_stays else -1])
            value = value[stays : stays + 1]
        window = self._find_window(target, value.dtype.itemsize)
        if window == "nothing":
            return
        spread = any(own > 1 and there == 1 for own, there in zip(value.shape, address.shape, strict=True))
        if window is None or spread or self.first_stays:
            self._scatter(target, value)
            return
        self._note(target, "store", value.dtype.itemsize, window)
        rows = window.programs if window.programs is not None and value.shape[0] > 1 else slice(None)
        source = value[rows][(slice(None), *target.get_place(window, value.shape))]
        views = self._view(window, value.dtype)
        for number, view in enumerate(views):
            if self.keeps_overwritten:
                self.journal.overwritten.append((view, None, view.copy()))
            view[...] = source if len(views) == 1 else source[number if source.shape[0] > 1 else 0]

    def _find_window(self, target: AccessSite, width: int) -> Window | Literal["nothing"] | None:
        box = find_box(target.mask, target.active, target.address.ndim - 1)
        if box is None:
            return None
        if box.is_empty:
            return "nothing"
        window = find_window(target.address, box)
        if window is None or not 0 <= window.argument < len(self.buffers):
            return None
        buffer = self.buffers[window.argument]
        if self._written is not None and self._written.is_tracked(window.argument):
            return None
        low, high = window.get_ends(width)
        if buffer is None or low < 0 or high > buffer.data.size:
            return None
        if window.find_stride() is None and prod(window.counts) < FEW_ELEMENTS:
            return None
        return window

    def _view(self, window: Window, dtype: DType) -> list[Array]:
        """Returns views of the bytes in a window: one [starts, *counts] if the starts are evenly spaced, otherwise one
        [1, *counts] for each start.
        """
        buffer = self.buffers[window.argument]
        assert buffer is not None
        stride = window.find_stride()
        if stride is not None:
            shape = (window.starts.size, *window.counts)
            starts, strides = [int(window.starts[0])], (stride, *window.steps)
        else:
            shape = (1, *window.counts)
            starts, strides = [int(start) for start in window.starts], (0, *window.steps)
        return [np.ndarray(shape, dtype, buffer.data.data, start, strides) for start in starts]

    def _note(self, target: AccessSite, kind: Kind, width: int, window: Window) -> None:
        if window.argument not in self._watched:
            return
        count = self.numbers.size
        programs = window.programs
        if programs is None:
            programs = np.arange(count) if target.active is None else np.flatnonzero(target.active)
        if window.starts.size == 1 and programs.size > 1:
            programs = programs[[0, -1]]
        self.journal.accesses.append(
            LoggedAccess(
                kind=kind,
                operation=target.operation,
                width=width,
                window=window,
                argument=window.argument,
                programs=programs,
                offsets=window.starts,
            )
        )

    def locate_elements(
        self, target: AccessSite, kind: Kind, width: int, *others: Array | None
    ) -> tuple[tuple[int, ...], list[tuple[int, Array, Array]]]:
        """Finds the elements of an access in the arguments. Returns the access's shape [programs, *block], and (number,
        lanes, byte offsets) for each argument that the access touches.

        Lanes are the elements' flat indices in an array of that shape, in ascending order. Elements outside their
        argument are recorded and omitted. kind: the kind of access, for the records. width: bytes of an element.
        others: further arrays that broadcast with the addresses.
        """
        addresses, active = to_array(target.address), target.active
        rank = addresses.ndim - 1
        shape = (self.numbers.size, *target.get_shape(*others)[1:])
        chosen = np.ones((1,) * (rank + 1), bool) if target.mask is None else target.mask
        if active is not None:
            chosen = chosen & active.reshape(-1, *(1,) * rank)
        if bool(chosen.all()):
            lanes = np.arange(prod(shape))
            found = np.broadcast_to(addresses, shape).reshape(-1)
        else:
            lanes = np.flatnonzero(np.broadcast_to(chosen, shape))
            found = np.broadcast_to(addresses, shape).reshape(-1)[lanes]
        arguments = ((found + (1 << (REGION_BITS - 1))) >> REGION_BITS) - 1
        parts: list[tuple[int, Array, Array]] = []
        if not found.size:
            return shape, parts
        first = int(arguments[0])
        numbers = [first] if bool((arguments == first).all()) else [int(n) for n in np.unique(arguments)]
        per_program = prod(shape[1:])
        for number in numbers:
            own = slice(None) if len(numbers) == 1 else arguments == number
            lane, offsets = lanes[own], found[own] - make_address(number)
            buffer = self.buffers[number] if 0 <= number < len(self.buffers) else None
            size = buffer.data.size if buffer is not None else 0
            inside = (offsets >= 0) & (offsets <= size - width)
            if not bool(inside.all()):
                self.journal.outside.append(
                    OutOfBounds(
                        argument=number if buffer is not None else None,
                        kind=kind,
                        first_byte=int(offsets[~inside][0]),
                        width=width,
                        count=int(np.count_nonzero(~inside)),
                        program=int(self.numbers[int(lane[~inside][0]) // per_program]),
                        place=target.operation.place,
                    )
                )
                lane, offsets = lane[inside], offsets[inside]
            if not lane.size or buffer is None:
                continue
            if number in self._watched:
                self.journal.accesses.append(
                    LoggedAccess(
                        kind=kind,
                        operation=target.operation,
                        width=width,
                        window=None,
                        argument=number,
                        programs=lane // per_program,
                        offsets=offsets,
                    )
                )
            if self._written is not None and self._written.is_tracked(number):
                self._written.note(
                    number,
                    target.operation,
                    offsets,
                    width,
                    self.numbers[lane // per_program],
                    reads=kind != "store",
                    writes=kind != "load",
                )
            parts.append((number, lane, offsets))
        return shape, parts

    def view_elements(self, argument: int, offsets: Array, dtype: DType) -> tuple[Array, Array]:
        """Views the argument's bytes as an array. Returns the array, and the positions in it of the elements at these
        byte offsets.

        The array has the dtype of the elements if all offsets are multiples of their size. Otherwise it consists of
        single bytes, and each position is a row of byte positions.
        """
        buffer = self.buffers[argument]
        if buffer is None:
            raise NotCoveredError("an access through a null pointer")
        width = dtype.itemsize
        if width == 1 or not bool((offsets % width).any()):
            whole = buffer.data[: buffer.data.size // width * width].view(dtype)
            return whole, offsets // width
        return buffer.data, offsets[:, np.newaxis] + np.arange(width)

    def _gather(self, target: AccessSite, other: Array | None, dtype: DType) -> Array:
        storage = np.dtype(np.uint8) if dtype == np.bool_ else dtype
        shape, parts = self.locate_elements(target, "load", storage.itemsize, other)
        out = _fill(shape, other, dtype)
        flat = out.reshape(-1)
        for argument, lanes, offsets in parts:
            whole, places = self.view_elements(argument, offsets, storage)
            found = whole[places]
            flat[lanes] = found if places.ndim == 1 else np.ascontiguousarray(found).view(storage)[:, 0]
        return out

    def _scatter(self, target: AccessSite, value: Array) -> None:
        shape, parts = self.locate_elements(target, "store", value.dtype.itemsize, value)
        flat = np.broadcast_to(value, shape).reshape(-1)
        for argument, lanes, offsets in parts:
            if self.first_stays and shape[0] > 1:
                numbers = np.arange(flat.size)[lanes]
                order = np.argsort(-(numbers // (flat.size // shape[0])), kind="stable")
                self.write(argument, offsets[order], flat[lanes][order])
                continue
            self.write(argument, offsets, flat[lanes])

    def write(self, argument: int, offsets: Array, values: Array) -> None:
        """Writes elements, in order, at byte offsets inside the argument."""
        whole, places = self.view_elements(argument, offsets, values.dtype)
        if self.keeps_overwritten:
            self.journal.overwritten.append((whole, places, whole[places]))
        whole[places] = values if places.ndim == 1 else values.reshape(-1, 1).view(np.uint8)


def _fill(shape: tuple[int, ...], other: Array | None, dtype: DType) -> Array:
    if other is None:
        return np.zeros(shape, dtype)
    shape = np.broadcast_shapes(shape, other.shape)
    out = np.empty(shape, dtype)
    out[...] = other
    return out
