"""Memory of one device as arrays of bytes, and the memo of launches: a kernel is not run twice on the same bytes.

The memory of one device: each BufferAllocation one array of bytes, each value a view at its offset and in its layout.

Sharing, donation and in-place updates happen by themselves: two values that XLA put into the same bytes are the same bytes.
Fresh memory holds no number: every bit is set, which is NaN in every floating point dtype.

Kernels that were run on the same bytes before are not run again.

Program order, isolated memory and the schedule launch the same kernels, mostly on the same numbers, and Triton's
interpreter is the dearest part of a replay. The results of a launch are kept, up to a limit of bytes, under a digest of
its inputs: payload, contents, and which buffers share their bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.interpreter.dtypes import count_different, get_dimensions, get_dtype
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.launch import compute_payload_key, copy_buffers, do_share
from ligerdiag.replay.runs.program import Kernels


def compute_sizes(buffers: BufferAssignment) -> Mapping[int, int]:
    """BufferAllocation index to the bytes that are used of it."""
    sizes: dict[int, int] = {}
    for slice_ in buffers.slices:
        sizes[slice_.allocation] = max(sizes.get(slice_.allocation, 0), slice_.offset + slice_.size)
    return sizes


class DeviceMemory:
    """Bytes of one device."""

    def __init__(self, buffers: BufferAssignment, positions: Positions) -> None:
        self._slices = buffers.slices
        self._positions = positions
        self._bytes = {index: np.full(size, 0xFF, np.uint8) for index, size in compute_sizes(buffers).items()}

    def locate(self, instruction: HloInstruction, index: ShapeIndex) -> Slice | None:
        """Returns the place of the leaf; None if it has none, like a token."""
        number = self._positions.find(instruction, index)
        return None if number is None else self._slices[number]

    def view(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns the leaf in its logical shape, on the device's bytes. Raises ArtifactError when it stands nowhere."""
        slice_ = self.locate(instruction, index)
        if slice_ is None:
            raise ArtifactError(f"the buffer assignment has no place for `{instruction.name}`{list(index) or ''}")
        return view_bytes(instruction, shape, self._bytes[slice_.allocation], slice_.offset, slice_.size)

    def view_flat(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns the leaf's elements in the order in which they stand in memory, on the device's bytes."""
        view = self.view(instruction, index, shape)
        slice_ = self.locate(instruction, index)
        assert slice_ is not None
        return np.ndarray((view.size,), view.dtype, self._bytes[slice_.allocation], slice_.offset)

    def read(self, instruction: HloInstruction) -> Value:
        """Returns the value that stands where this instruction's result is, as it is now: views, not copies."""
        return self._read(instruction, (), instruction.shape)

    def _read(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Value:
        if is_tuple(shape):
            return tuple([self._read(instruction, (*index, n), child) for n, child in enumerate(shape.tuple_shapes)])
        if shape.element_type == TOKEN:
            return ()
        return self.view(instruction, index, shape)

    def write(self, instruction: HloInstruction, value: Value, index: ShapeIndex = ()) -> None:
        """Stores the value, or its part for `index`, where this instruction's result stands."""
        shape = instruction.shape
        for child in index:
            shape = shape.tuple_shapes[child]
        leaves = self._pair(instruction, value, index, shape)
        if len(leaves) > 1:  # a view into one leaf's bytes must not change before it is read
            leaves = [(target, np.array(array)) for target, array in leaves]
        for target, array in leaves:
            np.copyto(target, array, casting="no")

    def _pair(
        self, instruction: HloInstruction, value: Value, index: ShapeIndex, shape: ShapeProto
    ) -> list[tuple[Array, Array]]:
        if is_tuple(shape):
            if not isinstance(value, tuple) or len(value) != len(shape.tuple_shapes):
                raise ArtifactError(f"`{instruction.name}` computes another tuple than its shape says")
            pairs: list[tuple[Array, Array]] = []
            for number, (child, part) in enumerate(zip(shape.tuple_shapes, value, strict=True)):
                pairs += self._pair(instruction, part, (*index, number), child)
            return pairs
        if shape.element_type == TOKEN:
            return []
        target = self.view(instruction, index, shape)
        if isinstance(value, tuple) or value.shape != target.shape or value.dtype != target.dtype:
            kind = "a tuple" if isinstance(value, tuple) else f"{value.dtype}{list(value.shape)}"
            raise NotCoveredError(
                f"`{instruction.name}` ({instruction.opcode}): {kind} instead of {target.dtype}{list(target.shape)}"
            )
        return [(target, value)]


def view_bytes(instruction: HloInstruction, shape: ShapeProto, bytes_: Array, offset: int, room: int) -> Array:
    """Returns an array of this shape, in its logical shape, on the bytes from `offset` on. Raises ArtifactError where `room`
    is too small for it."""
    dtype, dimensions = get_dtype(shape), get_dimensions(shape)
    strides, size = [0] * len(dimensions), dtype.itemsize
    order = shape.layout.minor_to_major or range(len(dimensions) - 1, -1, -1)
    if len(order) != len(dimensions):
        raise ArtifactError(f"`{instruction.name}` has a layout of another rank than its shape")
    for dimension in order:
        strides[dimension] = size
        size *= dimensions[dimension]
    if size > room:
        raise ArtifactError(f"`{instruction.name}` takes {size} bytes and has {room}")
    return np.ndarray(dimensions, dtype, bytes_, offset, strides)


def count_changed(before: Sequence[Array], after: Sequence[Array]) -> tuple[int, int]:
    """(elements that differ bit for bit, elements)."""
    changed = total = 0
    for old, new in zip(before, after, strict=True):
        total += old.size
        changed += count_different(old, new)
    return changed, total


REMEMBERED_BYTES = 4 << 30
"""The most bytes of kernel launches to keep while a case is replayed."""
REMEMBERED_PRODUCTS = 2 << 30
"""The most bytes of products and their operands to keep while cases with the same arguments are replayed."""
WATCHED = 2
"""Launches of each named call that are run in any case, so that the runner sees them."""
WORTHWHILE = 1 << 16
"""Bytes of buffers from which on remembering is cheaper than running again."""


@dataclass(slots=True, eq=False)
class RememberedKernels:
    """Runs kernels through another runner, each distinct launch once while the limit allows to remember it."""

    runner: Kernels
    limit: int
    """Bytes that may be kept."""
    hits: int = 0
    _watched: Counter[str] = field(default_factory=Counter[str])
    _kept: dict[bytes, tuple[Array | None, ...]] = field(default_factory=dict[bytes, tuple[Array | None, ...]])
    """Digest to the content of each buffer after the launch; None for one that did not change, and for an output in the
    bytes of an operand."""
    _size: int = 0

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """See `Kernels.launch`."""
        buffers = (*operands, *outputs)
        if sum(buffer.nbytes for buffer in buffers) < WORTHWHILE:
            self.runner.launch(call, operands, outputs, watched=watched)
            return
        contents = [_hash_content(operand) for operand in operands]
        digest = _compute_digest(compute_payload_key(call), contents, operands, outputs)
        kept = self._kept.get(digest)
        if watched:
            self._watched[call.name] += 1
        if kept is not None and not (watched and self._watched[call.name] <= WATCHED):
            self.hits += 1
            for buffer, content in zip(buffers, kept, strict=True):
                if content is not None:
                    buffer[...] = content
            return
        self.runner.launch(call, operands, outputs, watched=watched)
        # Compared by their digests: to keep what was there before takes memory, which costs more.
        after: list[Array | None] = [
            None if _hash_content(operand) == content else np.array(operand)
            for content, operand in zip(contents, operands, strict=True)
        ]
        places = {_locate(operand) for operand in operands}
        after += [None if _locate(output) in places else np.array(output) for output in outputs]
        size = sum(content.nbytes for content in after if content is not None)
        if self._size + size <= self.limit:
            self._kept[digest] = tuple(after)
            self._size += size


@dataclass(frozen=True, slots=True, eq=False)
class IsolatedKernels:
    """Runs kernels through another runner, unwatched, and takes back what they overwrite but for their outputs."""

    runner: Kernels

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """See `Kernels.launch`."""
        hidden = [one for one in operands if not any(do_share(one, output) for output in outputs)]
        before = copy_buffers(hidden)
        self.runner.launch(call, operands, outputs, watched=False)
        for operand, content in zip(hidden, before, strict=True):
            operand[...] = content


def _compute_digest(
    payload: str, contents: Sequence[bytes], operands: Sequence[Array], outputs: Sequence[Array]
) -> bytes:
    """Computes the key of a launch, given the digests of the operands' contents. Outputs count only by their place: a kernel
    that reads their unwritten bytes is not worth a distinction."""
    digest = hashlib.sha256(payload.encode())
    base = min([buffer.ctypes.data for buffer in (*operands, *outputs)], default=0)
    places = [(start - base, size) for start, size in map(_locate, (*operands, *outputs))]
    for number, (start, size) in enumerate(places):
        sharing = [n for n, (s, z) in enumerate(places) if n != number and s < start + size and start < s + z]
        digest.update(f"|{size}:{[(n, places[n][0] - start) for n in sharing]}".encode())
    for content in contents:
        digest.update(content)
    return digest.digest()


def _hash_content(flat: Array) -> bytes:
    return hashlib.sha256(flat.view(np.uint8).data).digest()


def _locate(flat: Array) -> tuple[int, int]:
    """Returns the address of the first byte, and the number of bytes."""
    return flat.ctypes.data, flat.nbytes
