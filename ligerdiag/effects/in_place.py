"""Whether the programs of a launch interfere with each other if two buffers of a call are in the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.effects.operand_use import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """What holds if these two buffers are the same bytes, from the first to the last."""

    reader: int
    """Number of the buffer through whose pointer is read: the call's operands, then its outputs."""
    writer: int
    """Number of the buffer through whose pointer is written; the same one for what a kernel updates by one pointer."""
    neighbours: Neighbours
    """SHARED: a program surely reads what another one surely writes, and nothing makes either wait for the other.
    DISJOINT: no program may read what another one may write. Never UNKNOWN: such a pair is left out."""


def join_in_place(found: Sequence[Sequence[InPlace]]) -> tuple[InPlace, ...]:
    """Returns what holds for any of the configurations: shared in one is shared; disjoint must hold in all."""
    by_pair: dict[tuple[int, int], list[Neighbours]] = {}
    for configuration in found:
        for pair in configuration:
            by_pair.setdefault((pair.reader, pair.writer), []).append(pair.neighbours)
    return tuple(
        InPlace(
            reader=reader,
            writer=writer,
            neighbours=Neighbours.SHARED if Neighbours.SHARED in seen else Neighbours.DISJOINT,
        )
        for (reader, writer), seen in sorted(by_pair.items())
        if Neighbours.SHARED in seen or len(seen) == len(found)
    )
