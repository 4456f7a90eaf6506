"""Reads, checks, copies and joins files with the choices of XLA's autotuner.

XLA writes such a file on a GPU (`xla_gpu_dump_autotune_results_to`) and reads it in a later compile
(`xla_gpu_load_autotune_results_from`), also in one without a GPU. It is a protobuf, binary or as text, in one of two forms
(see `TuningForm`). XLA ignores an entry whose GPU or HLO is not the one that it compiles, so a file for another GPU would
change nothing and nobody would notice: `load_tuning` refuses it. The form with fingerprints does not name the GPU, so only
the compile shows which entries fit.

The key of an entry has the version of cuDNN, which may differ from that in the target's description although the GPU is
the same. In the copy that XLA reads, such entries have the target's version, and a note says so.
"""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from ligerdiag.artifacts.scratch_folders import replace_file
from ligerdiag.errors import ArtifactError, InputError
from ligerdiag.model.tuning import TuningFile, TuningForm
from ligerdiag.toolchains.autotune_results_pb2 import AutotuneCache, AutotuneResults
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.text_format import find_number, find_value, split_fields
from ligerdiag.toolchains.toolchain import Platform
from ligerdiag.untrusted_files import read_untrusted

VERSION = 3
"""The version of `AutotuneResults` that XLA reads; it refuses any other."""
MAXIMUM_BYTES = 256 << 20
TEXT_SUFFIXES = (".pbtxt", ".prototxt", ".textproto", ".txt", ".txtpb")
"""The suffixes by which XLA knows a file with protobuf text; it takes every other file for a binary one."""
_FOLDER = "tuning"
_COPY_SUFFIXES = {True: ".textproto", False: ".pb"}
_DNN = ", DNN version: "
_INFO = "gpu_device_info"
_BLOCK = re.compile(r"^results \{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_SHOWN = 2


def load_tuning(path: Path, targets: Sequence[Target], cache_root: Path) -> TuningFile:
    """Reads a tuning file, copies it to the cache for XLA, and returns a record of file and copy.

    Raises InputError if the file cannot be read, is no protobuf of the autotuner, has a version that XLA does not read, or
    has no entry for one of the targets. Only NVIDIA's GPUs have entries.
    """
    try:
        data = read_untrusted(path, MAXIMUM_BYTES)
    except ArtifactError as error:
        raise InputError(str(error)) from error
    other = next((target for target in targets if target.platform is not Platform.CUDA), None)
    if other is not None:
        raise InputError(
            f"`{path}` has no entry for target `{other.name}`: XLA reads such files for GPUs of NVIDIA alone"
        )
    found, is_text = _parse(path, data)
    content, notes = data, tuple[str, ...]()
    if isinstance(found, AutotuneResults):
        renamed = dict[str, str]()
        for target in targets:
            note = _fit(path, {entry.device for entry in found.results}, target, renamed)
            notes += (note,) if note else ()
        content = _rename_devices(found, data, renamed, is_text=is_text)
    copy_sha256 = sha256(content).hexdigest()
    return TuningFile(
        name=path.name,
        sha256=sha256(data).hexdigest(),
        entries=_count(found),
        form=TuningForm.RESULTS if isinstance(found, AutotuneResults) else TuningForm.CACHE,
        copy=str(_keep(content, cache_root / _FOLDER / f"{copy_sha256}{_COPY_SUFFIXES[is_text]}")),
        copy_sha256=copy_sha256,
        notes=notes,
    )


def compute_device_key(target: Target) -> str:
    """Returns the line of text by which XLA's autotuner names the target's GPU in `AutotuneResults`. Returns '' for a GPU
    that is not NVIDIA's.
    """
    if target.platform is not Platform.CUDA:
        return ""
    lines = split_fields(target.description)

    def read(name: str) -> float:
        value = find_value(lines, f"{_INFO}.{name}")
        return float(value) if re.fullmatch(r"[\d.]+(e\+?\d+)?", value) else 0.0

    dnn = find_value(lines, f"{_INFO}.dnn_version") or ".".join(
        str(find_number(lines, f"dnn_version_info.{part}")) for part in ("major", "minor", "patch")
    )
    return (
        f"CUDA: {target.generation}, Cores: {target.cores}, GPU clock: {read('clock_rate_ghz'):g} GHz, "
        f"Memory bandwidth: {round(read('memory_bandwidth') / 1e9)} GB/s, "
        f"L2 cache: {read('l2_cache_size') / (1 << 20):g} MB{_DNN}{dnn}"
    )


def join_results(paths: Sequence[Path], output: Path) -> bytes:
    """Joins several tuning files. Returns the contents of one file with all their entries, each once.

    output: name of the joined file. The contents are text if XLA reads a file of this name as text; the files at `paths`
    must have the same form. Raises InputError if one of them cannot be read.
    """
    entries = dict[tuple[str, str, int], bytes]()
    is_text = is_text_name(output)
    for path in paths:
        data = read_untrusted(path, MAXIMUM_BYTES)
        found, _ = _parse(path, data, may_be_empty=True)
        if not isinstance(found, AutotuneResults):
            raise InputError(f"`{path}` does not name the GPU of its entries")
        keys = [(entry.device, entry.hlo, entry.version) for entry in found.results]
        parts = (
            [block.encode() for block in _BLOCK.findall(data.decode())]
            if is_text
            else [AutotuneResults(results=[entry]).SerializeToString() for entry in found.results]
        )
        for key, part in zip(keys, parts, strict=True):
            entries.setdefault(key, part)
    head = f"version: {VERSION}\n".encode() if is_text else AutotuneResults(version=VERSION).SerializeToString()
    return head + b"".join(part for _, part in sorted(entries.items()))


def list_devices(content: bytes) -> dict[str, int]:
    """Returns the number of entries for each GPU in a joined tuning file. content: from `join_results`. The keys are XLA's
    descriptions of the GPUs, each one line of text.
    """
    found, _ = _parse(Path(), content, may_be_empty=True) if content else (AutotuneResults(), False)
    return dict(Counter(entry.device for entry in found.results)) if isinstance(found, AutotuneResults) else {}


def strip_library_version(device: str) -> str:
    """Returns XLA's description of a GPU (one line of text) without the version of cuDNN."""
    return device.partition(_DNN)[0]


def is_text_name(path: Path) -> bool:
    """Returns whether XLA reads a file with this name as protobuf text."""
    return path.name.endswith(TEXT_SUFFIXES)


def _count(found: AutotuneResults | AutotuneCache) -> int:
    return len(found.results) if isinstance(found, AutotuneResults) else len(found.entries)


def _parse(path: Path, data: bytes, *, may_be_empty: bool = False) -> tuple[AutotuneResults | AutotuneCache, bool]:
    """Returns the message in the file, and whether it is text. Raises InputError if the file has no such message."""
    is_text = _looks_like_text(data)
    read = [one for kind in (AutotuneResults, AutotuneCache) if (one := _read(kind(), data, is_text)) is not None]
    found = next((one for one in read if _count(one)), None)
    version = next((one.version for one in read if isinstance(one, AutotuneResults) and one.version), None)
    if found is None and version is not None and may_be_empty:
        return AutotuneResults(version=version), is_text
    if found is None and (
        version is not None or any(isinstance(one, AutotuneCache) and one.device_scope for one in read)
    ):
        raise InputError(
            f"`{path}` has no entry: XLA tuned nothing when it wrote the file, as on a machine without a GPU"
        )
    if found is None:
        raise InputError(
            f"expected the results of XLA's autotuner in `{path}`, as `xla_gpu_dump_autotune_results_to` or "
            "`ligerdiag record-tuning` writes them, but it has no such entry"
        )
    if isinstance(found, AutotuneResults) and found.version != VERSION:
        raise InputError(f"`{path}` has autotuning results of version {found.version}, and XLA reads version {VERSION}")
    return found, is_text


def _looks_like_text(data: bytes) -> bool:
    """Returns whether the data are protobuf text; a binary message of either form has bytes that no text has."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", text) is None


def _read[M: Message](message: M, data: bytes, is_text: bool) -> M | None:
    try:
        if is_text:
            return text_format.Parse(data, message, allow_unknown_extension=True, allow_unknown_field=True)
        message.ParseFromString(data)
    except (DecodeError, text_format.ParseError, RecursionError):
        return None
    return message


def _fit(path: Path, devices: set[str], target: Target, renamed: dict[str, str]) -> str:
    """Checks that there is an entry for the target. If the entries for its GPU differ from it by the version of cuDNN
    alone, adds their device to `renamed` and returns a note; otherwise returns "". Raises InputError if none fits.
    """
    wanted = compute_device_key(target)
    if wanted in devices:
        return ""
    same = sorted(device for device in devices if strip_library_version(device) == strip_library_version(wanted))
    if len(same) != 1:
        shown = ", ".join(f"`{device}`" for device in sorted(devices)[:_SHOWN])
        more = f" and {len(devices) - _SHOWN} other GPUs" if len(devices) > _SHOWN else ""
        raise InputError(
            f"`{path}` has no entry for target `{target.name}`, which XLA calls `{wanted}`: its entries are for "
            f"{shown}{more}"
        )
    renamed[same[0]] = wanted
    was, now = (device.partition(_DNN)[2] for device in (same[0], wanted))
    return (
        f"`{path.name}` was recorded with cuDNN {was}, and target `{target.name}` has cuDNN {now}: its entries are used all "
        "the same"
    )


def _rename_devices(found: AutotuneResults, data: bytes, renamed: dict[str, str], *, is_text: bool) -> bytes:
    """Returns the data with other names of devices; everything else stays unchanged. renamed: old name to new name."""
    if not renamed:
        return data
    if is_text:
        text = data.decode()
        for old, new in renamed.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        return text.encode()
    for entry in found.results:
        entry.device = renamed.get(entry.device, entry.device)
    return found.SerializeToString()


def _keep(content: bytes, path: Path) -> Path:
    """Writes the content to the path unless a file is there; its name is the digest of the content."""
    path = path.absolute()
    if path.is_file():
        return path
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise InputError(
            f"cannot keep a copy of the autotuning results in `{path.parent}`: {error.strerror}"
        ) from error
    return path
