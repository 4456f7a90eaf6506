"""The actual program's dependence sets: what an evaluation of the schedule (`schedule_order`) leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.memory import ActualWrite, Read
from ligerdiag.analysis.writes import Frames
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.tags import TagPath


@dataclass(slots=True, eq=False)
class Sighting:
    """A tagged operation of the program, found again in the optimized module. Final fields, as those of `HloInstruction`."""

    instruction: Final[HloInstruction]
    """The operation itself, perhaps inside a fusion."""
    scheduled: Final[HloInstruction]
    """The scheduled instruction that runs it."""
    labels: Final[Labels]
    reads: Final[tuple[Read, ...]]
    """Of the scheduled instruction: (operand_number, slice number, set that stood there)."""


@dataclass(frozen=True, slots=True, eq=False)
class Actual:
    """The actual program's dependence sets."""

    outputs: tuple[Labels, ...]
    """Per leaf of the entry root, in order."""
    sightings: Mapping[TagPath, tuple[Sighting, ...]]
    writes: tuple[ActualWrite, ...]
    """Every hidden write that the optimized module still holds."""
    frames: Mapping[int, Frames]
    """Scheduled instruction id to a call path that leads to it."""
    traced: frozenset[int] = frozenset()
    """Indices of hidden writes whose operand was known to hold the original when the kernel came."""
