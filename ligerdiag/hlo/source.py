"""From an instruction to lines of the user's program, by the HLO's stack frames."""

from collections.abc import Iterator, Sequence

from ligerdiag.findings import SourceLine
from ligerdiag.hlo.module import HloInstruction, HloModule

MAX_FRAMES = 64
_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3")


def iterate_frames(module: HloModule, instruction: HloInstruction) -> Iterator[SourceLine]:
    """Frames from the innermost call outward; nothing when the instruction has none."""
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
            file=_entry(frames.file_names, location.file_name_id),
            line=location.line,
            function=_entry(frames.function_names, location.function_name_id),
        )
        if frame.parent_frame_id in (number, 0):
            return
        number = frame.parent_frame_id


def iterate_user_frames(module: HloModule, instruction: HloInstruction) -> Iterator[SourceLine]:
    """Frames that are not in an installed package, from the innermost outward."""
    for frame in iterate_frames(module, instruction):
        if not frame.file.startswith("<frozen ") and not any(part in frame.file for part in _LIBRARY):
            yield frame


def find_user_line(module: HloModule, instruction: HloInstruction) -> SourceLine | None:
    """The innermost frame that is not in an installed package, or None."""
    return next(iterate_user_frames(module, instruction), None)


def _entry(names: Sequence[str], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""
