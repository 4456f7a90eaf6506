"""Where it goes wrong: the first operations on the way to a wrong output whose dependence set is already wrong.

For a hidden write W, an operation t of the program that is seen again in the optimized module is *wrong* when its two sets
differ there as in `comparison`. A wrong operation with no wrong operation upstream (looking through operations that the
compiler folded away) is where the wrong value is read: its scheduled instruction is the reader.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ligerdiag.analysis.carriers import is_same_operation
from ligerdiag.analysis.comparison import Comparison
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.schedule_order import Actual, Sighting
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.tags import TagPath


class Place(Enum):
    """Where a stale reader finds the value from before the write."""

    SAME_MEMORY = "same memory"
    """In the overwritten bytes themselves, before the kernel runs."""
    OTHER_MEMORY = "other memory"
    """In a copy, a shard, or the value it was cast or computed from."""
    NOWHERE = "nowhere"
    """It computes it anew, or the value is untraceable; what is certain is that the write is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class WrongRead:
    """One reader of one wrong value."""

    write: int
    """HiddenWrite index."""
    path: TagPath
    """The program's operation."""
    reader: int
    """Id of the scheduled instruction."""
    sighting: Sighting
    place: Place
    operand: int | None
    """operand_number of the reader that brings the wrong value, when known."""


def find_wrong_reads(
    write: HiddenWrite,
    intended: Intended,
    actual: Actual,
    comparison: Comparison,
    is_wrong: Callable[[HiddenWrite, Labels, Labels], bool],
) -> tuple[WrongRead, ...]:
    """Readers where `is_wrong` begins to hold, in program order, one per scheduled instruction."""
    slices = {number for w in actual.writes if w.write == write.index for number in w.slices}
    state: dict[TagPath, bool] = {}
    """Whether the operation, or what it stands for when it was folded away, is wrong or follows something wrong."""
    found: dict[int, WrongRead] = {}
    for path in sorted(intended.tagged, key=lambda p: (p[-1], p)):
        tagged = intended.tagged[path]
        upstream = any(state.get(operand, False) for operand in tagged.operands)
        sightings = [s for s in actual.sightings.get(path, ()) if is_same_operation(tagged.opcode, s.instruction)]
        wrong = [s for s in sightings if is_wrong(write, tagged.labels, s.labels)]
        state[path] = bool(wrong) or (upstream and not sightings)
        if not wrong or upstream:
            continue
        for sighting in wrong:
            operand, place = _find_source(write, sighting, slices, comparison)
            found.setdefault(
                sighting.scheduled.id, WrongRead(write.index, path, sighting.scheduled.id, sighting, place, operand)
            )
    return tuple(found.values())


def find_wrong_sightings(
    write: HiddenWrite,
    intended: Intended,
    actual: Actual,
    is_wrong: Callable[[HiddenWrite, Labels, Labels], bool],
) -> tuple[tuple[TagPath, Sighting], ...]:
    """Every sighting of an operation, surely the author's own one, whose set is wrong.

    Passes copy an operation's metadata to instructions that compute something else (parts of a reassociated sum, say).
    XLA names an instruction after its op_name when it comes from the program, so the tag is in the name of the operation
    itself and of its clones, and not in that of an instruction that a pass has made.
    """
    return tuple(
        [
            (path, sighting)
            for path, tagged in intended.tagged.items()
            for sighting in actual.sightings.get(path, ())
            if sighting.instruction.opcode == tagged.opcode
            and is_wrong(write, tagged.labels, sighting.labels)
            and re.search(rf"ld{path[-1]}(?!\d)", sighting.instruction.name)
        ]
    )


def _find_source(
    write: HiddenWrite, sighting: Sighting, slices: set[int], comparison: Comparison
) -> tuple[int | None, Place]:
    """Which operand of the reader brings the value from before, and from where."""
    original = comparison.space.all_original(write.index)
    carrying = [(number, place) for number, place, labels in sighting.reads if labels & original]
    for number, place in carrying:
        if place in slices:
            return number, Place.SAME_MEMORY
    if carrying:
        return carrying[0][0], Place.OTHER_MEMORY
    return None, Place.NOWHERE
