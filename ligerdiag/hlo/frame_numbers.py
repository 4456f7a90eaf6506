"""Stack frames of two modules made comparable: a chain of source locations as one number.

A module numbers its stack frames as it likes. What is the same for both modules is the chain behind such a number: file,
function, line and column of the frame, then of its caller, and so on. XLA's call inliner puts the call's chain behind the
chain of what it inlines, and gives an instruction without a frame the call's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ligerdiag.hlo.module import HloInstruction, HloModule

type Chain = int
"""Number of a chain of locations; 0 is the empty one. The same number means the same chain, in any module."""

_MAX_FRAMES = 1024


@dataclass(slots=True, eq=False)
class FrameNumbers:
    """Numbers chains; one object for all modules that are to be compared."""

    _links: dict[tuple[object, Chain], Chain] = field(default_factory=dict[tuple[object, Chain], Chain])
    _known: dict[tuple[int, int, Chain], Chain] = field(default_factory=dict[tuple[int, int, Chain], Chain])

    def number(self, module: HloModule, instruction: HloInstruction, behind: Chain = 0) -> Chain:
        """The instruction's chain, with the chain `behind` at its outer end."""
        metadata = instruction.proto.metadata
        if metadata.stack_frame_id:
            return self._number_frame(module, metadata.stack_frame_id, behind)
        if metadata.source_file:
            return self._link((metadata.source_file, "", metadata.source_line, 0), behind)
        return behind

    def _number_frame(self, module: HloModule, frame: int, behind: Chain) -> Chain:
        known = self._known.get((id(module), frame, behind))
        if known is not None:
            return known
        table, chain, current = module.stack_frames, list[object](), frame
        while 0 < current <= len(table.stack_frames) and len(chain) < _MAX_FRAMES:
            entry = table.stack_frames[current - 1]
            chain.append(_describe(module, entry.file_location_id))
            current = entry.parent_frame_id
        number = behind
        for location in reversed(chain):
            number = self._link(location, number)
        self._known[id(module), frame, behind] = number
        return number

    def _link(self, location: object, outer: Chain) -> Chain:
        return self._links.setdefault((location, outer), len(self._links) + 1)


def _describe(module: HloModule, location_id: int) -> object:
    table = module.stack_frames
    if not 0 < location_id <= len(table.file_locations):
        return ()
    location = table.file_locations[location_id - 1]

    return (
        _get_name(table.file_names, location.file_name_id),
        _get_name(table.function_names, location.function_name_id),
        location.line,
        location.column,
    )


def _get_name(names: Sequence[str], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""
