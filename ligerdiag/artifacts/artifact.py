"""Reads and writes artifacts: the results of one compilation, in a directory whose manifest lists and hashes each file.

In a *tagged* program, the name of each operation ends with a number that ligerdiag has added, the tag, by which the
operation is found again after the compile.

| file | content |
|---|---|
| as_written.hlo.pb | HloProto of the program as its author means it, tagged, nothing folded; empty if jaxlib fails |
| unoptimized.hlo.pb | HloProto of the program that XLA got, tagged |
| as_lowered.hlo.pb | HloProto of the program that JAX gave to XLA, nothing folded; exists only if JAX may have moved a Ref |
| optimized.hlo.pb | HloProto of the scheduled program, with XLA's buffer assignment |
| thunks.txt | the thunks that the GPU executes, with streams and command buffers; empty if XLA wrote none |
| kernel_calls.json | the kernel calls of the traced program, including those that never reached XLA, and `LibraryKernel`s |
| readers.json | the reads of kernels' operands after the calls, in the program without ties (see `call_records`) |
| provenance.json | the case, the program, the target and the toolchain |
| log.txt | the output of the compiler and the program |
| passes/ | the modules after single passes of XLA, on request |
| manifest.json | size and sha256 of each other file; written last |
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from io import FileIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ligerdiag.artifacts.call_records import (
    LibraryKernel,
    MovedRef,
    Placement,
    RefStore,
    SharedArguments,
    TieSite,
    parse_readers,
)
from ligerdiag.codec import (
    FieldError,
    as_object,
    encode_record,
    parse_object,
    parse_record,
    read_int,
    read_object,
    read_record,
    read_str,
)
from ligerdiag.errors import ArtifactError
from ligerdiag.model.findings import SourceLine
from ligerdiag.model.jobs import Flag
from ligerdiag.model.tuning import Tuning
from ligerdiag.untrusted_files import (
    MAXIMUM_ARTIFACT_FILES,
    MAXIMUM_FILE_BYTES,
    MAXIMUM_JSON_BYTES,
    open_untrusted,
    read_untrusted,
)

FORMAT_VERSION = 8

AS_WRITTEN = "as_written.hlo.pb"
AS_LOWERED = "as_lowered.hlo.pb"
UNOPTIMIZED = "unoptimized.hlo.pb"
OPTIMIZED = "optimized.hlo.pb"
THUNKS = "thunks.txt"
KERNEL_CALLS = "kernel_calls.json"
READERS = "readers.json"
PROVENANCE = "provenance.json"
LOG = "log.txt"
MANIFEST = "manifest.json"
PASSES = "passes"
REQUIRED = (AS_WRITTEN, UNOPTIMIZED, OPTIMIZED, THUNKS, KERNEL_CALLS, READERS, PROVENANCE, LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneCall:
    """A custom call without the module around it. For a kernel call that JAX dropped, it is the custom call that XLA
    would have got.
    """

    target: str
    config: str
    """The call's `backend_config`, which has the kernel, as XLA stores it, in base64."""
    declared: tuple[int, ...]
    """Numbers of the operands that the call declares to share their bytes with an output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """A kernel call that the program makes, whether or not JAX and XLA kept it."""

    kernel: str
    """Name of the kernel's Python function."""
    primitive: str
    """Name of the JAX primitive: `triton_kernel_call` or `pallas_call`."""
    operands: int
    outputs: int
    source: SourceLine
    """The innermost frame of the call outside of installed packages; file "" if there is none."""
    name_stack: str
    traced: bool
    """Whether the call is in the program as JAX traced it; false if it was dropped during tracing."""
    in_program: bool
    """Whether XLA got the call; JAX drops a call whose outputs are not used."""
    operand_used_later: bool
    """Whether the program reads one of the call's operands after the call; true if that is unknown."""
    tags: tuple[int, ...]
    """Tags of the StableHLO operations that may be this call: those with the call's name or, if it has no name, with
    its kernel and source line.
    """
    alone: LoneCall | None
    """If JAX dropped the call, the custom call that XLA would have got for it. None if XLA got the call, or if the
    custom call could not be built.
    """
    site: SourceLine | None = None
    """The line that makes the call; None if no single line is known. For a call in a backward function this is a line
    there, while `source` is in the forward pass.
    """
    repeated: tuple[tuple[int, ...], ...] = ()
    """For each `Ref` that is passed more than once, the numbers of the operands that are this `Ref`."""
    dropped: tuple[int, ...] = ()
    """Tags of those operations of the program as written that are this call, but that XLA did not get."""
    call: str = ""
    """The name that ligerdiag gives the call during tracing, the same for all calls from one place in the user's code;
    empty if the call has none; see `compile.lowering.call_names`.
    """


_NO_DESCRIPTION = sha256(b"").hexdigest()

RECORDED = "recorded"
"""The value of `Provenance.lineage` of a compile in which XLA recorded the lineage of values."""
ANY_OPERAND = -1
"""The entry of `Provenance.crossed_operands` that means all operands; any other entry is the number of one operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Says where an artifact comes from: the case, its program, the target and the toolchain."""

    format_version: int
    key: str
    case_id: str
    source: str
    """The file, or `module:name`, in which the case was found."""
    outputs: tuple[str, ...]
    """Names of the program's outputs, in the order of the root tuple of the module's entry computation."""
    inputs: tuple[str, ...]
    """Names of the program's arguments, in order."""
    input_placements: tuple[Placement, ...]
    """For each input, the shard of it that each device has."""
    output_placements: tuple[Placement, ...]
    """For each output, the shard of it that each device has; empty if XLA does not report that."""
    parameters: tuple[int, ...]
    """For each input, the number of its parameter in the module's entry computation, from 0."""
    tags: int
    """Number of operations of the program that have a tag; their tags are 1 to this number."""
    target: str
    target_sha256: str
    compute_capability: int
    mesh: Mapping[str, int]
    devices: int
    toolchain: str
    versions: Mapping[str, str]
    environment: Mapping[str, str]
    flags: Mapping[str, Flag]
    ties: tuple[str, ...]
    """Sorted ids of the readers that are tied to their kernel, by a trivial operation that makes them depend on its
    result; see `compile.lowering.ties`.
    """
    trace_seconds: float
    lower_seconds: float
    compile_seconds: float
    crossed_operands: tuple[int, ...] | None = None
    """Numbers of kernel operands that another operation reads too, if JAX moved that operation to the other side of the
    kernel call; see `compile.lowering.traced_calls`. A number applies to every kernel call of the program;
    `ANY_OPERAND` means all operands. None if the artifact does not record them.
    """
    moved_refs: tuple[MovedRef, ...] = ()
    """Reads of Refs that follow a write in the author's code, but that JAX separated from this write; see
    `compile.lowering.refs`.
    """
    ref_stores: tuple[RefStore, ...] = ()
    """The stores into Refs in the program as written and in the one that XLA gets; empty unless JAX separated a store from
    a read.
    """
    refs_trouble: str = ""
    """The reason why ligerdiag may have missed a moved access of a Ref, or cannot find out what the moves do to the
    outputs; empty if there is none.
    """
    donated: tuple[int, ...] = ()
    """Positions in `inputs` of all arguments that the user's program donates, even those whose bytes no output takes."""
    dropped: tuple[int, ...] = ()
    """Positions in `inputs` of the arguments that JAX drops from the user's program, because the program never reads
    them. In this artifact they are parameters all the same, but not donated.
    """
    on_host: tuple[int, ...] = ()
    """Positions in `inputs` of the arguments that lie in the host's memory, although XLA compiled for arguments in the
    device's memory.
    """
    shared: SharedArguments | None = None
    """The arguments that are one and the same array; None if there are no such arguments."""
    dropped_fields: tuple[str, ...] = ()
    """Paths of the fields of the target's description that the toolchain's XLA does not know and did not get."""
    donation_warning: str = ""
    """JAX's own warning about donations that it cannot use; empty if JAX did not warn."""
    has_snapshots: bool = True
    """Whether ligerdiag traced the program, so that its snapshots show which version of a value autodiff means (see
    `compile.lowering.intent`). False for a program that came as StableHLO.
    """
    tuning: Tuning | None = None
    """The choices of XLA's autotuner that come from a file; None if the program was compiled without such a file."""
    lineage: str = ""
    """`RECORDED` if XLA recorded the lineage of values (see `compile.lowering.lineage`); empty if nobody asked for it;
    otherwise the reason why there is none.
    """

    def list_shared_parameters(self) -> tuple[tuple[int, ...], ...]:
        """Returns groups of parameters that are one array in the caller's memory. Each group has the parameters'
        numbers.
        """
        return () if self.shared is None else tuple([self.find_parameters(group) for group in self.shared.groups])

    def find_parameters(self, inputs: Sequence[int]) -> tuple[int, ...]:
        """Returns the numbers of the parameters that belong to these inputs.

        inputs: positions in the field `inputs`.
        """
        known = self.parameters
        return tuple([known[number] for number in inputs if 0 <= number < len(known)])

    @property
    def is_described(self) -> bool:
        """Returns whether XLA compiled for a GPU that it knew only from a description. The machine need not have this
        GPU.
        """
        return self.compute_capability > 0 or self.target_sha256 not in ("", _NO_DESCRIPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """The files and records of one compilation. All paths are absolute."""

    directory: Path
    as_written: Path
    """The program as its author means it, before anything is folded; an empty file if jaxlib cannot translate it to
    HLO.
    """
    as_lowered: Path | None
    """The program as JAX gave it to XLA, before anything is folded; None if JAX cannot have moved an access of a Ref.
    """
    unoptimized: Path
    """The program that XLA got, before XLA's optimizations."""
    optimized: Path
    thunks: Path
    log: Path
    passes: tuple[Path, ...]
    """The modules that XLA wrote after single passes, in order; empty unless the compiler option `xla_dump_hlo_pass_re`
    is set.
    """
    kernel_calls: tuple[KernelCall, ...]
    library_kernels: tuple[LibraryKernel, ...]
    """The kernels of custom calls without a payload, from the libraries that run them."""
    readers: tuple[TieSite, ...]
    """The reads of kernels' operands that come after the kernels' calls, in program order; their tags are those of the
    program without ties.
    """
    readers_trouble: str
    """The reason why `readers` is incomplete; empty if it is complete."""
    provenance: Provenance

    @property
    def program(self) -> Path:
        """Returns the path of the program as written. If that file is empty, returns the path of the program that XLA
        got.
        """
        return self.as_written if self.as_written.stat().st_size else self.unoptimized


def load_artifact(directory: Path) -> Artifact:
    """Returns the artifact in the directory, after checking every file against the manifest. Raises ArtifactError if a
    file is missing, damaged or not listed.
    """
    directory = directory.absolute()
    if not directory.is_dir():
        raise ArtifactError(f"no artifact directory `{directory}`")
    try:
        names = _check_files(directory)
        provenance = parse_record(Provenance, _read_json(directory / PROVENANCE))
        kernels = parse_object(_read_json(directory / KERNEL_CALLS))
        kernel_calls = read_record(tuple[KernelCall, ...], kernels, "calls")
        library_kernels = read_record(tuple[LibraryKernel, ...], kernels, "library_kernels")
        readers = parse_readers(parse_object(_read_json(directory / READERS)))
    except (ArtifactError, FieldError, OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"`{directory}` is damaged, or is not an artifact of ligerdiag: {error}") from error
    return Artifact(
        directory=directory,
        as_written=directory / AS_WRITTEN,
        as_lowered=directory / AS_LOWERED if AS_LOWERED in names else None,
        unoptimized=directory / UNOPTIMIZED,
        optimized=directory / OPTIMIZED,
        thunks=directory / THUNKS,
        log=directory / LOG,
        passes=tuple(directory / name for name in names if name.startswith(f"{PASSES}/")),
        kernel_calls=kernel_calls,
        library_kernels=library_kernels,
        readers=readers.found,
        readers_trouble=readers.trouble,
        provenance=provenance,
    )


def render_provenance(provenance: Provenance) -> str:
    return json.dumps(encode_record(provenance), indent=1) + "\n"


def render_kernel_calls(calls: tuple[KernelCall, ...], library_kernels: tuple[LibraryKernel, ...] = ()) -> str:
    fields = {"calls": encode_record(calls), "library_kernels": encode_record(library_kernels)}
    return json.dumps(fields, indent=1) + "\n"


def list_artifact_files(directory: Path) -> tuple[Path, ...]:
    """Returns the paths of all files that an artifact in this directory may have. It need not have all of them."""
    with suppress(OSError), os.scandir(directory / PASSES) as entries:
        passes = [Path(entry.path) for entry in islice(entries, MAXIMUM_ARTIFACT_FILES)]
        return (*(directory / name for name in (MANIFEST, *REQUIRED, AS_LOWERED)), *passes)
    return tuple(directory / name for name in (MANIFEST, *REQUIRED, AS_LOWERED))


def write_manifest(directory: Path) -> None:
    """Writes the manifest, with the size and sha256 of each file in the directory. A directory with a manifest is an
    artifact.
    """
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != MANIFEST)
    entries = {
        path.relative_to(directory).as_posix(): {"size": path.stat().st_size, "sha256": compute_file_sha256(path)}
        for path in files
    }
    text = json.dumps({"format_version": FORMAT_VERSION, "files": entries}, indent=1) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8")


def compute_file_sha256(path: Path) -> str:
    """Returns the hexadecimal sha256 of the file's bytes."""
    with path.open("rb") as file:
        return _compute_sha256(file)


def _compute_sha256(file: BinaryIO | FileIO) -> str:
    digest = sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _check_files(directory: Path) -> tuple[str, ...]:
    manifest = parse_object(_read_json(directory / MANIFEST))
    if read_int(manifest, "format_version") != FORMAT_VERSION:
        raise FieldError(f"expected format version {FORMAT_VERSION} but got {manifest['format_version']}")
    files = read_object(manifest, "files")
    for name in REQUIRED:
        if name not in files:
            raise FieldError(f"`{name}` is not in the manifest")
    if len(files) > MAXIMUM_ARTIFACT_FILES:
        raise FieldError(f"the manifest names {len(files)} files, but an artifact has at most {MAXIMUM_ARTIFACT_FILES}")
    for name, value in files.items():
        entry = as_object(value, name)
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise FieldError(f"the manifest names `{name}`, a file outside of the directory")
        path, size = directory / name, read_int(entry, "size")
        actual = path.stat().st_size if path.is_file() else -1
        if actual != size:
            raise FieldError(
                f"`{name}` has {actual} bytes, but {size} in the manifest" if actual >= 0 else f"`{name}` is missing"
            )
        with open_untrusted(path, MAXIMUM_FILE_BYTES, follow=False) as file:
            if _compute_sha256(file) != read_str(entry, "sha256"):
                raise FieldError(f"the sha256 of `{name}` differs from the manifest's")
    return tuple(files)


def _read_json(path: Path) -> bytes:
    return read_untrusted(path, MAXIMUM_JSON_BYTES, follow=False)


_MODULE, _ID = 1, 5
"""Field numbers in protobuf: of the module in an HloProto, and of the id in an HloModuleProto."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def drop_module_id(proto: bytes) -> bytes:
    """Returns the serialized HloProto without the module's id, which is different in each compile. Raises ValueError if
    the bytes are not a protobuf.
    """
    parts: list[bytes] = []
    for number, start, content, end in _iterate_fields(proto):
        if number == _MODULE:
            module = proto[content:end]
            kept = b"".join(module[first:last] for field, first, _, last in _iterate_fields(module) if field != _ID)
            parts += [proto[start : start + 1], render_varint(len(kept)), kept]
        else:
            parts.append(proto[start:end])
    return b"".join(parts)


def _iterate_fields(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yields (number, start of the field, start of its content, end) for each field of a protobuf message."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        kind, content = key & 7, at
        if kind == _VARINT:
            _, at = _read_varint(message, at)
        elif kind == _BYTES:
            size, content = _read_varint(message, at)
            at = content + size
        elif kind in _SIZES:
            at += _SIZES[kind]
        else:
            raise ValueError(f"not a protobuf: unknown wire type {kind}")
        if at > len(message):
            raise ValueError("the protobuf is truncated")
        yield key >> 3, start, content, at


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("the protobuf is truncated")


def render_varint(value: int) -> bytes:
    """Returns a number as a protobuf has it: seven bits in each byte, the lowest first."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
