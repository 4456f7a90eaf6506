"""Loads the modules of one compilation, each from the first of its files that can be read, with its buffer assignment.

A compilation contains no kernel if neither the module before optimizations nor the module after them has the words
`custom-call`, in text or in protobuf. The buffer assignment is the protobuf's own, or else in the text beside it. Text
of the module before optimizations does not record the order of operations, unless they have tags (the numbers that
ligerdiag gives them before the compile). Without tags, the text is judged as several programs (`text_details`). If a file
cannot be read, a note says so, and the next file is tried. If a module belongs to another program, it is not used as the
module before optimizations, whatever the name of its file is.

Files about the launches of a module:

    module_0003.jit_step.thunk_sequence_after_thunk_passes.txt    with command buffers; missing if there are none
    module_0003.jit_step.thunk_sequence.txt
    module_0003.jit_step.debug_options                            the flags that are not at their defaults
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ligerdiag.dumps.content import Form, compute_form, is_whole, read_content, split_modules
from ligerdiag.dumps.find import ModuleFiles, parse_dump_name
from ligerdiag.dumps.same_program import describe_difference, list_names
from ligerdiag.dumps.text_details import make_program_orders, parse_buffer_text
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloModule, is_tagged
from ligerdiag.hlo.parse import parse_hlo, parse_hlo_module, parse_module, pause_collector
from ligerdiag.hlo.shape import is_tiled, iterate_leaf_shapes
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence, parse_command_order, parse_thunks
from ligerdiag.hlo.xla_pb2 import HloModuleProto

CUSTOM_CALL = b"custom-call"

type Translate = Callable[[bytes, str], bytes]
"""Translates HLO text to a serialized HloModuleProto, given also a name for messages; raises ArtifactError."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModule:
    """The modules of one compilation, read from files."""

    files: ModuleFiles
    optimized: HloModule
    programs: tuple[HloModule, ...]
    """The module before optimizations: no module if it is missing; several modules if the order of its operations is
    unknown.
    """
    is_numbered: bool
    """Whether the ids of the programs' instructions increase in the order in which the author wrote the operations. False
    for programs from HLO text, which has no ids.
    """
    buffers: BufferAssignment | None
    notes: tuple[str, ...]
    """Notes on files that could not be read, one line each."""


class NoScheduleError(ArtifactError):
    """Raised for a module that can be read but has no schedule, so it is not the module that runs."""


def may_hold_kernels(files: ModuleFiles) -> bool:
    """Returns whether a module's files may contain custom calls. Returns true for files that cannot be read to the end."""
    try:
        forms = (files.optimized, files.program)
        firsts = [_read_first(paths, lambda path: _read(files, path), []) for paths in forms if paths]
        if any(CUSTOM_CALL in data or not is_whole(data) for data, _ in firsts):
            return True
    except ArtifactError:
        return True
    read = [path for _, path in firsts]  # the other forms may be of another run
    return any(CUSTOM_CALL in _read_if_whole(path) for paths in forms for path in paths if path not in read)


def _read_if_whole(path: Path) -> bytes:
    """Returns the contents of a file; nothing if it cannot be read to the end."""
    try:
        data = read_content(path)
        return data if is_whole(data) else b""
    except ArtifactError:
        return b""


def may_hold_buffers(files: ModuleFiles) -> bool:
    """Returns whether a module's files may contain a buffer assignment."""
    try:
        return bool(files.buffers) or any(compute_form(_read(files, path)) is Form.PROTO for path in files.optimized)
    except ArtifactError:
        return True


def load_module(files: ModuleFiles, translate: Translate, *, alone: bool = False) -> LoadedModule:
    """Reads the modules of one compilation. Raises NoScheduleError if the optimized module has no schedule. Raises
    ArtifactError if the optimized module is for a TPU, or if no file of it can be read.

    translate: turns HLO text and its name into the bytes of an HloModuleProto. alone: whether to leave out the module
    before optimizations.
    """
    notes: list[str] = []
    with pause_collector(keep=True):
        (optimized, buffers), path = _read_first(files.optimized, lambda path: _parse(files, path, translate), notes)
        if _is_for_tpu(optimized):
            raise ArtifactError(f"`{path.name}` is not covered: {_FOR_TPU}")
        if not optimized.is_scheduled:
            raise NoScheduleError(f"`{path.name}` holds no schedule: expected the module after optimizations")
        _require_one_run(optimized, path, files.optimized)
        if buffers is None and files.buffers:
            buffers = _read_buffers(files.buffers, optimized, notes)
        programs: tuple[HloModule, ...] = ()
        is_numbered = True
        if files.program and not alone:
            try:
                (programs, is_numbered), _ = _read_first(
                    files.program, lambda path: _parse_same_program(files, path, translate, optimized), notes
                )
            except ArtifactError as error:
                notes.append(str(error))
    return LoadedModule(
        files=files,
        optimized=optimized,
        programs=programs,
        is_numbered=is_numbered,
        buffers=buffers,
        notes=tuple(notes),
    )


def _require_one_run(optimized: HloModule, path: Path, paths: Sequence[Path]) -> None:
    """Raises ArtifactError if one of the files after `path` has an instruction that the module from `path` lacks. Then the
    files are not the forms of one module: one run has written protobufs into the folder, and another one text.
    """
    names: set[str] = set()
    for other in paths[paths.index(path) + 1 :]:
        data = _read_if_whole(other)
        names = names or {one.name for one in optimized.instructions}
        found = next((name for name in list_names(data) if name not in names), "")
        if found:
            raise ArtifactError(
                f"`{other.name}` has an instruction `{found}` and `{path.name}` has not, so they are of different runs:"
                " inspect the file of the run that you mean by its path"
            )


_FOR_TPU = "a program for a TPU, whose arrays are padded to tiles; ligerdiag judges programs for GPUs"


def _is_for_tpu(module: HloModule) -> bool:
    """Returns whether an argument or a result of the module has a layout with tiles."""
    values = (*module.entry.parameters, module.entry.root)
    return any(is_tiled(leaf) for value in values for _, leaf in iterate_leaf_shapes(value.shape))


def _read(files: ModuleFiles, path: Path) -> bytes:
    """Returns the module's bytes, unpacked. Raises ArtifactError if they cannot be read."""
    if not files.part:
        return read_content(path)
    try:
        status = path.stat()
    except OSError as error:
        raise ArtifactError(f"cannot read `{path}`: {error.strerror or error}") from error
    parts = _read_parts(path, status.st_ino, status.st_size, status.st_mtime_ns)
    if files.part > len(parts):
        raise ArtifactError(f"`{path.name}` has changed while ligerdiag read it: it holds fewer modules than before")
    return parts[files.part - 1]


@lru_cache(maxsize=1)
def _read_parts(path: Path, *version: int) -> tuple[bytes, ...]:
    """Returns the text of each module in a file with several. The result is cached, because the modules are asked for
    one after another. version: inode, size and time of the file, so that a changed file is read again.
    """
    del version
    return split_modules(read_content(path))


def _parse(files: ModuleFiles, path: Path, translate: Translate) -> tuple[HloModule, BufferAssignment | None]:
    data = _read(files, path)
    if _require_module(path, data) is Form.TEXT:
        return replace(parse_hlo_module(translate(data, path.name)), number=0), None  # the parser invents a number
    try:
        return _parse_proto(data)
    except ArtifactError as error:
        raise ArtifactError(f"`{path.name}`: {error}") from error


def _parse_same_program(
    files: ModuleFiles, path: Path, translate: Translate, optimized: HloModule
) -> tuple[tuple[HloModule, ...], bool]:
    """Returns the result of `_parse_programs`. Raises ArtifactError if the file holds another program than `optimized`."""
    programs, is_numbered = _parse_programs(files, path, translate)
    difference = describe_difference(programs[0], optimized)
    if difference:
        raise ArtifactError(f"`{path.name}` belongs to another program, so it is not used: {difference}")
    return programs, is_numbered


def _parse_programs(files: ModuleFiles, path: Path, translate: Translate) -> tuple[tuple[HloModule, ...], bool]:
    """Returns (programs, is_numbered), as in `LoadedModule`: one program, or several from text without tags, which does not
    give the order of operations. translate: turns HLO text and its name into the bytes of an HloModuleProto.
    """
    data = _read(files, path)
    if _require_module(path, data) is not Form.TEXT:
        return (_parse(files, path, translate)[0],), True
    translated = translate(data, path.name)
    module = replace(parse_hlo_module(translated), number=0)
    if is_tagged(module):
        return (module,), False
    proto = HloModuleProto()
    proto.ParseFromString(translated)
    proto.id = 0
    return tuple(parse_module(ordered) for ordered in make_program_orders(proto)), False


def _require_module(path: Path, data: bytes) -> Form:
    try:
        form = compute_form(data)
    except ArtifactError as error:
        raise ArtifactError(f"`{path.name}`: {error}") from error
    if form is Form.BUFFERS:
        raise ArtifactError(
            f"`{path.name}` is a buffer assignment: pass the module's file, which has no `-buffer-assignment` in its "
            "name"
        )
    return form


def _parse_proto(data: bytes) -> tuple[HloModule, BufferAssignment | None]:
    """Parses an HloProto, as XLA dumps it, or a bare HloModuleProto, as JAX returns it."""
    try:
        return parse_hlo(data)
    except ArtifactError as error:
        try:
            return parse_hlo_module(data), None
        except ArtifactError:
            raise error from None


def _read_buffers(paths: Sequence[Path], module: HloModule, notes: list[str]) -> BufferAssignment | None:
    def parse(path: Path) -> BufferAssignment:
        try:
            return parse_buffer_text(read_content(path).decode("utf-8"), module)
        except (ArtifactError, UnicodeDecodeError) as error:
            raise ArtifactError(f"`{path.name}`: {error}") from error

    try:
        return _read_first(paths, parse, notes)[0]
    except ArtifactError as error:
        notes.append(str(error))
        return None


def _read_first[A](paths: Sequence[Path], read: Callable[[Path], A], notes: list[str]) -> tuple[A, Path]:
    """Returns the contents of the first readable path, and that path; adds a note for each unreadable one before it.

    paths: at least one; if none is readable, the ArtifactError of the last one propagates.
    """
    for path in paths[:-1]:
        try:
            return read(path), path
        except ArtifactError as error:
            notes.append(str(error))
    return read(paths[-1]), paths[-1]


_THUNKS = ("thunk_sequence_after_thunk_passes.txt", "thunk_sequence.txt")
_FLAGS = ("debug_options",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DumpedLaunches:
    """The launches of a module, as far as the dump has files about them. A module can be judged without these files."""

    thunks: ThunkSequence | None = None
    command_order: CommandOrder | None = None
    """The order that command buffers keep; None if the file with XLA's flags is missing."""
    notes: tuple[str, ...] = ()
    """Notes on files about launches that could not be read, one line each."""


def load_launches(optimized: Path) -> DumpedLaunches:
    """Returns the launches of a module from the files beside the module's. Symbolic links are not followed.

    optimized: the file with the module after optimizations.
    """
    notes: list[str] = []
    thunks: ThunkSequence | None = None
    order: CommandOrder | None = None
    path = _find_beside(optimized, _THUNKS)
    if path is not None:
        try:
            text = _read_text(path)
            thunks = parse_thunks(text) if text.strip() else None
        except ArtifactError as error:
            notes.append(f"the thunk sequence could not be read, so its command buffers are unknown: {error}")
    path = _find_beside(optimized, _FLAGS)
    if path is not None:
        try:
            order = parse_command_order(_read_text(path))
        except ArtifactError as error:
            notes.append(str(error))
    return DumpedLaunches(thunks=thunks, command_order=order, notes=tuple(notes))


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
        raise ArtifactError(f"`{path.name}` is not UTF-8 text: {error}") from error
