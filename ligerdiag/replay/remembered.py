"""Kernels that were run on the same bytes before are not run again.

Program order, isolated memory and the schedule launch the same kernels, mostly on the same numbers, and Triton's
interpreter is the dearest part of a replay. The results of a launch are kept, up to a limit of bytes, under a digest of
its inputs: payload, contents, and which buffers share their bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.replay.opcodes.scope import Array
from ligerdiag.replay.program import Kernels

REMEMBERED_BYTES = 4 << 30
"""The most bytes of kernel launches to keep while a case is replayed."""
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
    """Digest to the content of each buffer after the launch; None for one that did not change."""
    _size: int = 0

    def launch(self, payload: str, operands: Sequence[Array], outputs: Sequence[Array], *, instruction: str) -> None:
        """See `Kernels.launch`."""
        buffers = (*operands, *outputs)
        if sum(buffer.nbytes for buffer in buffers) < WORTHWHILE:
            self.runner.launch(payload, operands, outputs, instruction=instruction)
            return
        digest = _compute_digest(payload, operands, outputs)
        kept = self._kept.get(digest)
        if instruction:
            self._watched[instruction] += 1
        if kept is not None and not 0 < self._watched[instruction] <= WATCHED:
            self.hits += 1
            for buffer, content in zip(buffers, kept, strict=True):
                if content is not None:
                    buffer[...] = content
            return
        before = [np.array(operand) for operand in operands]
        self.runner.launch(payload, operands, outputs, instruction=instruction)
        after: list[Array | None] = [
            None if np.array_equal(_get_bytes(old), _get_bytes(new)) else np.array(new)
            for old, new in zip(before, operands, strict=True)
        ]
        after += [np.array(output) for output in outputs]
        size = sum(content.nbytes for content in after if content is not None)
        if self._size + size <= self.limit:
            self._kept[digest] = tuple(after)
            self._size += size


def _compute_digest(payload: str, operands: Sequence[Array], outputs: Sequence[Array]) -> bytes:
    """Computes the key of a launch. Outputs count only by their place: a kernel that reads their unwritten bytes is not
    worth a distinction."""
    digest = hashlib.sha256(payload.encode())
    base = min([buffer.ctypes.data for buffer in (*operands, *outputs)], default=0)
    places = [(buffer.ctypes.data - base, buffer.nbytes) for buffer in (*operands, *outputs)]
    for number, (start, size) in enumerate(places):
        sharing = [n for n, (s, z) in enumerate(places) if n != number and s < start + size and start < s + z]
        digest.update(f"|{size}:{[(n, places[n][0] - start) for n in sharing]}".encode())
    for operand in operands:
        digest.update(_get_bytes(operand).data)
    return digest.digest()


def _get_bytes(flat: Array) -> Array:
    return flat.view(np.uint8)
