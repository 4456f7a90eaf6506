"""Defines two kernel runners, which run kernels through another runner. `RememberedKernels` keeps the results of
launches; `IsolatedKernels` undoes the kernels' hidden writes.

The three runs of a replay launch the same kernels, mostly on the same numbers, and running them is the most expensive
part of a replay. So the results of a launch are kept, up to a limit of bytes, under a digest of its inputs: payload,
contents, and which buffers share bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.runs.launch import compute_payload_key, copy_buffers, do_share
from ligerdiag.replay.runs.program import Kernels

REMEMBERED_BYTES = 4 << 30
"""The most bytes of launches' results to keep during the replay of a case."""
REMEMBERED_PRODUCTS = 2 << 30
"""The most bytes of products and their operands to keep during the replays of cases with equal arguments."""
WATCHED = 2
"""The first launches of each call, as many as this number, run even if their results are remembered, so that the
underlying runner can observe them. Only launches with `watched` count.
"""
WORTHWHILE = 1 << 16
"""Bytes of a launch's buffers above which remembering the launch is cheaper than running it again."""


@dataclass(slots=True, eq=False)
class RememberedKernels:
    """Keeps the results of kernel launches, so that an equal launch does not run again. `runner` runs all other
    launches.
    """

    runner: Kernels
    limit: int
    """The most bytes of results to keep."""
    hits: int = 0
    _watched: Counter[str] = field(default_factory=Counter[str])
    _kept: dict[bytes, tuple[Array | None, ...]] = field(default_factory=dict[bytes, tuple[Array | None, ...]])
    """Maps the digest of a launch to the contents of each buffer after it; None for an unchanged buffer and for an
    output in an operand's bytes.
    """
    _size: int = 0

    def runs(self, instruction: HloInstruction) -> bool:
        """Returns whether `runner` runs the instruction."""
        return self.runner.runs(instruction)

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Runs the kernel, or fills the buffers with the kept results of an equal launch. See `Kernels.launch`."""
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
        # Contents are compared by digest: keeping the old contents would take memory, which costs more.
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
    """Runs kernels through `runner` and undoes their hidden writes. After a launch it restores the operands that share
    no bytes with an output. It records no observations.
    """

    runner: Kernels

    def runs(self, instruction: HloInstruction) -> bool:
        """Returns whether `runner` runs the instruction."""
        return self.runner.runs(instruction)

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Runs the kernel, then restores each operand that shares no bytes with an output. See `Kernels.launch`."""
        hidden = [one for one in operands if not any(do_share(one, output) for output in outputs)]
        before = copy_buffers(hidden)
        self.runner.launch(call, operands, outputs, watched=False)
        for operand, content in zip(hidden, before, strict=True):
            operand[...] = content


def _compute_digest(
    payload: str, contents: Sequence[bytes], operands: Sequence[Array], outputs: Sequence[Array]
) -> bytes:
    """Returns the digest under which the results of a launch are kept. contents: digests of the operands' contents.

    Of the outputs, their sizes and the bytes that they share with other buffers count, but not their contents: kernels
    that read unwritten bytes are too rare to matter.
    """
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
    """Returns (address of the array's first byte, number of its bytes)."""
    return flat.ctypes.data, flat.nbytes
