"""The files beside a dumped module about its launches: its thunk sequence, and the flags that it was compiled with.

module_0003.jit_step.thunk_sequence_after_thunk_passes.txt    with command buffers; left out where there are none
module_0003.jit_step.thunk_sequence.txt
module_0003.jit_step.debug_options                            the flags that are not at their defaults
"""

from dataclasses import dataclass
from pathlib import Path

from ligerdiag.dumps.content import read_content
from ligerdiag.dumps.names import parse_dump_name
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.command_order import CommandOrder, parse_command_order
from ligerdiag.hlo.thunks import ThunkSequence, parse_thunks

_THUNKS = ("thunk_sequence_after_thunk_passes.txt", "thunk_sequence.txt")
_FLAGS = ("debug_options",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launches:
    """The files that were found; none of them is needed to judge a module."""

    thunks: ThunkSequence | None = None
    command_order: CommandOrder | None = None
    """None where the flags are not there."""
    notes: tuple[str, ...] = ()
    """Notes on files that could not be read."""


def load_launches(optimized: Path) -> Launches:
    """Looks beside the file of the module after optimizations; links are not followed."""
    notes: list[str] = []
    thunks: ThunkSequence | None = None
    order: CommandOrder | None = None
    path = _find_beside(optimized, _THUNKS)
    if path is not None:
        try:
            text = _read_text(path)
            thunks = parse_thunks(text) if text.strip() else None
        except ArtifactError as error:
            notes.append(f"the thunk sequence could not be read, and its command buffers are not seen: {error}")
    path = _find_beside(optimized, _FLAGS)
    if path is not None:
        try:
            order = parse_command_order(_read_text(path))
        except ArtifactError as error:
            notes.append(str(error))
    return Launches(thunks=thunks, command_order=order, notes=tuple(notes))


def _find_beside(optimized: Path, endings: tuple[str, ...]) -> Path | None:
    name = parse_dump_name(optimized.name)
    if name is None:
        return None
    stem = f"{name.number}.{name.module}." if name.module else f"{name.number}."
    stems = (f"{name.stamp}.{stem}", stem) if name.stamp else (stem,)
    paths = (optimized.with_name(f"{stem}{ending}") for ending in endings for stem in stems)
    return next((path for path in paths if path.is_file() and not path.is_symlink()), None)


def _read_text(path: Path) -> str:
    try:
        return read_content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"`{path.name}` is no text: {error}") from error
