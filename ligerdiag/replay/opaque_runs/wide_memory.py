"""Runs a widened schedule on the buffer assignment of the original schedule, with several bytes for each original byte.

`WideMemory` makes each byte `scale` bytes long, such as 4 if the narrowest float of the module is a bf16, whose 2 bytes
become the 8 of an f64. An element starts where its first original byte now starts. So two values share an element only
if they shared it in the original bytes. All but the narrowest elements lie further apart than their own size, and the
gap after an element holds copies of it. If a narrower value overwrites a part of the original element, one of these
copies changes; the element is then read as another number.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, override

import numpy as np

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.opaque_runs.widening import find_scale
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.ops.scope import Array, Value
from ligerdiag.replay.runs.schedule import DeviceMemory, ScheduleRunner


class WideMemory(DeviceMemory):
    """The memory of one device, in which each byte of the original assignment is `scale` bytes long."""

    def __init__(self, buffers: BufferAssignment, positions: Positions, original: HloModule, scale: int) -> None:
        scaled = [Slice(one.allocation, scale * one.offset, scale * one.size) for one in buffers.slices]
        super().__init__(replace(buffers, slices=tuple(scaled)), positions)
        self._original = {one.id: one for one in original.instructions}
        self.scale = scale

    @override
    def _find_step(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> int:
        own = self._original[instruction.id].shape
        for child in index:
            own = own.tuple_shapes[child]
        return self.scale * get_dtype(own).itemsize

    @override
    def fetch(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns the contents of one array of the instruction's result as a view. If a part of an element has been
        overwritten, returns a copy.

        index: position of the array in the instruction's shape; `()` if the shape is not a tuple.
        """
        view = self.view(instruction, index, shape)
        hit = self._find_hit(view, self._list_copies(instruction, index, shape))
        return view if hit is None else np.where(hit, _spoil(view), view)

    @override
    def write(self, instruction: HloInstruction, value: Value, index: ShapeIndex = ()) -> None:
        super().write(instruction, value, index)
        shape = instruction.shape
        for child in index:
            shape = shape.tuple_shapes[child]
        for rest, leaf in iterate_leaf_shapes(shape):
            if leaf.element_type != TOKEN:
                self._copy(instruction, (*index, *rest), leaf)

    @override
    @contextmanager
    def allow_writes(self, operands: Sequence[HloInstruction], result: HloInstruction | None = None) -> Generator[None]:
        """Encloses a call that may overwrite its operands. Where a part of an element has been overwritten before, the
        call reads another number. After the call, the elements that it wrote are copied into their gaps (see the
        module's docstring). All other elements get the bytes back that they had before the call.
        """
        found: list[tuple[Array, Array, Array, list[Array]]] = []
        for operand in operands:
            for index, shape in iterate_leaf_shapes(operand.shape):
                if shape.element_type == TOKEN or not (copies := self._list_copies(operand, index, shape)):
                    continue
                view = self.view(operand, index, shape)
                before, hit = np.array(view), self._find_hit(view, copies)
                if hit is not None:
                    np.copyto(view, _spoil(view), where=hit)
                found.append((view, before, np.array(view), copies))
        yield
        written = [_differ(view, offered) for view, _, offered, _ in found]
        for (view, before, _, copies), new in zip(found, written, strict=True):
            for copy in copies:
                np.copyto(copy, view, where=new)
            np.copyto(view, before, where=~new)
        if result is None:
            return
        for index, shape in iterate_leaf_shapes(result.shape):
            if shape.element_type == TOKEN:
                continue
            target = self.view(result, index, shape)
            if not any(np.may_share_memory(target, view) for view, *_ in found):
                self._copy(result, index, shape)

    def _list_copies(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> list[Array]:
        """Returns views of a leaf's bytes, one for each place in the gaps that has room for an element."""
        view, slice_ = self.view(instruction, index, shape), self.locate(instruction, index)
        assert slice_ is not None
        size = view.dtype.itemsize
        starts = range(slice_.offset + size, slice_.offset + self._find_step(instruction, index, shape), size)
        bytes_ = self._bytes[slice_.allocation]
        return (
            [np.ndarray(view.shape, view.dtype, bytes_, start, view.strides) for start in starts] if view.size else []
        )

    def _copy(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> None:
        view = self.view(instruction, index, shape)
        for copy in self._list_copies(instruction, index, shape):
            np.copyto(copy, view)

    @staticmethod
    def _find_hit(view: Array, copies: Sequence[Array]) -> Array | None:
        """Returns whether each element has a copy that differs from it; None if no element has one."""
        hit: Any = None
        for copy in copies:
            differs = _differ(view, copy)
            hit = differs if hit is None else hit | differs
        return hit if hit is not None and hit.any() else None


def _differ(one: Array, two: Array) -> Any:
    """Returns whether the bits of each element differ."""
    if one.dtype.kind == "c":
        return _differ(one.real, two.real) | _differ(one.imag, two.imag)
    kind = f"u{one.dtype.itemsize}"
    return one.view(kind) != two.view(kind)


def _spoil(values: Array) -> Any:
    """Returns for each element another number that no rounding explains."""
    some: Any = values
    match values.dtype.kind:
        case "b":
            return ~some
        case "f" | "c":
            return some + 1.4142135623730951 * (1.0 + np.abs(some))
        case _:
            return some + some.dtype.type(1)


@dataclass(slots=True, eq=False, kw_only=True)
class WideScheduleRunner(ScheduleRunner):
    """Runs a widened schedule in a `WideMemory`, where each byte of the original buffers is several bytes long."""

    original: HloModule
    """The schedule before it was widened; `module` is the widened one."""

    @override
    def _make_memory(self) -> WideMemory:
        return WideMemory(self.buffers, self._positions, self.original, find_scale(self.original))
