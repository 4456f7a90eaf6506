"""What else of a hidden write's neighbourhood stands in the bytes that the kernel overwrites.

Only values that touch the overwritten one count: what it is computed from, what its readers and the kernel return, and the
program's arguments, constants and outputs. XLA also gives the bytes to others before and after; that is nobody's business.
"""

from collections.abc import Iterable

from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Definition, Positions
from ligerdiag.hlo.shape import iterate_leaves

ARGUMENT = "an argument of the program"
CONSTANT = "a constant"
OUTPUT = "an output of the program"
RESULT = "a result of the kernel"
READERS_RESULT = "the result of a reader"
SOURCE = "what it is computed from"


def find_sharing(
    module: HloModule,
    buffers: BufferAssignment,
    positions: Positions,
    write: ActualWrite,
    *,
    definition: Definition,
    maker: HloInstruction | None,
    readers: Iterable[HloInstruction],
) -> tuple[str, ...]:
    """One phrase each, sorted. maker: the scheduled instruction that computes the value; None for an argument, say."""
    hit = _find_overlapping(buffers, write)
    allocations = {buffers.slices[number].allocation for number in write.slices if number >= 0}
    root = module.entry.root
    facts = {
        ARGUMENT: not allocations.isdisjoint(buffers.parameters),
        CONSTANT: not allocations.isdisjoint(buffers.constants),
        OUTPUT: any(positions.resolve(root, index) == definition for index in iterate_leaves(root.shape)),
        RESULT: not hit.isdisjoint(_list_defined(buffers, write.call)),
        READERS_RESULT: any(not hit.isdisjoint(_list_defined(buffers, reader)) for reader in readers),
        SOURCE: maker is not None and any(not hit.isdisjoint(positions.locate(o)) for o in maker.operands),
    }
    return tuple(sorted(phrase for phrase, holds in facts.items() if holds))


def _find_overlapping(buffers: BufferAssignment, write: ActualWrite) -> frozenset[int]:
    return frozenset(hit for number in write.slices if number >= 0 for hit in buffers.overlapping[number])


def _list_defined(buffers: BufferAssignment, instruction: HloInstruction) -> list[int]:
    return [number for _, number in buffers.definitions.get(instruction.id, ())]
