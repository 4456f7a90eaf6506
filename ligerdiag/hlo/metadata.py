"""Metadata of instructions: source lines, chains of stack frames that two modules can be compared by, and complete tags.

(1) A module numbers its stack frames as it likes. What two modules have in common is the *chain* behind such a number: file,
    function, line and column of the frame, then of its caller, and so on. XLA's call inliner puts the call's chain behind
    the chain of what it inlines, and gives an instruction without a frame the call's.
(2) A tag is a text in an op_name, and op_names come from a file: a user's scope may look like a tag, and a tag may have been
    cut off. The compile worker tags every operation of a program and lets no other `#` or `;` through. So a module from
    before the optimizations is *tagged* where each named instruction has one tag at the end of each joined name, and
    only such as MLIR adds (barriers, broadcasts, calls) have no name. Otherwise its tags are not used at all.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import SourceLine

MAX_FRAMES = 64
_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3")


def iterate_frames(module: HloModule, instruction: HloInstruction) -> Iterator[SourceLine]:
    """Yields the frames from the innermost call outward; none if the instruction has no source location."""
    frames = module.stack_frames
    metadata = instruction.proto.metadata
    number = metadata.stack_frame_id
    if not number and metadata.source_file:
        yield SourceLine(file=metadata.source_file, line=metadata.source_line)
    for _ in range(MAX_FRAMES):
        if not 0 < number <= len(frames.stack_frames):
            return
        frame = frames.stack_frames[number - 1]
        if not 0 < frame.file_location_id <= len(frames.file_locations):
            return
        location = frames.file_locations[frame.file_location_id - 1]
        yield SourceLine(
            file=_get_name(frames.file_names, location.file_name_id),
            line=location.line,
            function=_get_name(frames.function_names, location.function_name_id),
        )
        if frame.parent_frame_id in (number, 0):
            return
        number = frame.parent_frame_id


def iterate_user_frames(module: HloModule, instruction: HloInstruction) -> Iterator[SourceLine]:
    """Yields the frames outside of installed packages, from the innermost outward."""
    for frame in iterate_frames(module, instruction):
        if not frame.file.startswith("<frozen ") and not any(part in frame.file for part in _LIBRARY):
            yield frame


def find_user_line(module: HloModule, instruction: HloInstruction) -> SourceLine | None:
    """Returns the innermost frame outside of installed packages, or None."""
    return next(iterate_user_frames(module, instruction), None)


type Chain = int
"""Number of a chain of locations; 0 is the empty one. The same number means the same chain, in any module."""

_MAX_FRAMES = 1024


@dataclass(slots=True, eq=False)
class FrameNumbers:
    """Numbers chains, (1); one object serves all modules that are compared."""

    _links: dict[tuple[object, Chain], Chain] = field(default_factory=dict[tuple[object, Chain], Chain])
    _known: dict[tuple[int, int, Chain], Chain] = field(default_factory=dict[tuple[int, int, Chain], Chain])

    def number(self, module: HloModule, instruction: HloInstruction, behind: Chain = 0) -> Chain:
        """Returns the instruction's chain, with the chain `behind` at its outer end."""
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
    file = _get_name(table.file_names, location.file_name_id)
    return file, _get_name(table.function_names, location.function_name_id), location.line, location.column


def _get_name(names: Sequence[str], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""


_TAGGED = re.compile(r"(?:[^#;]*#ld\d{1,18};)*[^#;]*#ld\d{1,18}")
_UNTAGGED = having(Trait.NO_OPERATION)
_UNNAMED = having(Trait.UNNAMED)


def is_tagged(program: HloModule) -> bool:
    """Returns whether the tags of a module from before the optimizations are complete, (2)."""
    return bool(program.tags) and all(
        _TAGGED.fullmatch(one.op_name) if one.op_name else one.opcode in _UNNAMED
        for one in program.instructions
        if one.opcode not in _UNTAGGED
    )
