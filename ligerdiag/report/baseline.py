"""Reads and writes baselines. A baseline records the accepted schedules of cases; later schedules are compared with them.

The file is JSON, sorted and indented, so that version control shows what changed. It holds no names or ids of
instructions, no folders and no times. A `Neighbourhood` describes one hidden write (an operand that a kernel call
overwrites) by the operations that read the overwritten value, and when.

| key | value |
|---|---|
| `format` | version of this format |
| `ligerdiag` | version that recorded the file |
| `toolchains` | name of the toolchain, as the user gives it, to the versions of its packages |
| `cases` | `id`, `target`, `toolchain`, `outputs` (name to verdict), `writes` (a `Neighbourhood` each) and `memory` |

`memory` has the bytes of `MemoryFigures` and its copies; it is null if unknown, and a file of an older ligerdiag lacks it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ligerdiag.codec import (
    FieldError,
    Json,
    as_object,
    decode_text,
    encode_record,
    parse_object,
    read_count,
    read_int,
    read_list,
    read_object,
    read_str,
    read_str_map,
    read_strs,
    read_word,
)
from ligerdiag.errors import InputError
from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.memory import CopyCause
from ligerdiag.model.memory_limits import MemoryFigures, RecordedCopy
from ligerdiag.model.schedule_view import Fate, Neighbourhood, Origin, Reader, ReadTime, ScheduleFacts

FORMAT = 1
MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EntryKey:
    """The key of an entry of a baseline: a case, a target (the GPU that the case is compiled for) and a toolchain."""

    case: str
    target: str
    toolchain: str
    """Name of the toolchain as the user gives it, such as `default`; an upgrade of its packages keeps the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The contents of a baseline file."""

    ligerdiag: str
    """Version of ligerdiag that recorded the file."""
    toolchains: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Maps the name of each toolchain to the versions of its packages when the baseline was recorded."""
    entries: Mapping[EntryKey, ScheduleFacts] = field(default_factory=dict[EntryKey, ScheduleFacts])

    def join(self, newer: "Baseline") -> "Baseline":
        """Returns a baseline with the entries of both; `newer` wins if both have an entry for a key."""
        return Baseline(
            ligerdiag=newer.ligerdiag,
            toolchains={**self.toolchains, **newer.toolchains},
            entries={**self.entries, **newer.entries},
        )


def load_baseline(path: Path) -> Baseline:
    """Returns the baseline in a file. Raises InputError if the file is missing, too large, or does not hold a baseline."""
    if path.exists() and not path.is_file():
        raise InputError(f"the baseline `{path}` is no regular file: record one with --record")
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"no baseline `{path}`: record one with `ligerdiag check --record {path}`") from None
    except OSError as error:
        raise InputError(f"cannot read the baseline `{path}`: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"`{path}` is too large for a baseline (more than {MAX_BYTES >> 20} MiB)")
    try:
        return parse_baseline(decode_text(data))
    except FieldError as error:
        raise InputError(f"`{path}` is no baseline that can be read: {error}; delete it and record a new one") from None


def parse_baseline(text: str) -> Baseline:
    """Returns the baseline that a JSON text holds. Raises FieldError if the text does not hold a baseline."""
    top = parse_object(text)
    if read_int(top, "format") != FORMAT:
        raise FieldError(
            f"expected format {FORMAT} but got {read_int(top, 'format')}, which another version of ligerdiag wrote"
        )
    entries: dict[EntryKey, ScheduleFacts] = {}
    for item in read_list(top, "cases"):
        fields = as_object(item, "cases")
        key = EntryKey(
            case=read_str(fields, "id"), target=read_str(fields, "target"), toolchain=read_str(fields, "toolchain")
        )
        if key in entries:
            raise FieldError(
                f"the file has two entries for `{key.case}` on {key.target} with toolchain {key.toolchain}"
            )
        entries[key] = _parse_facts(fields)
    toolchains = read_object(top, "toolchains")
    return Baseline(
        ligerdiag=read_str(top, "ligerdiag"),
        toolchains={name: read_str_map(toolchains, name) for name in toolchains},
        entries=entries,
    )


def render_baseline(baseline: Baseline) -> str:
    """Returns the text of a baseline file in ASCII, with a final newline. Equal baselines give equal texts."""
    top = {
        "format": FORMAT,
        "ligerdiag": baseline.ligerdiag,
        "toolchains": {name: dict(sorted(versions.items())) for name, versions in sorted(baseline.toolchains.items())},
        "cases": [
            {
                "id": key.case,
                "target": key.target,
                "toolchain": key.toolchain,
                "outputs": {name: verdict.value for name, verdict in facts.outputs.items()},
                "writes": [_render_neighbourhood(one) for one in facts.neighbourhoods],
                "memory": encode_record(facts.memory),
            }
            for key, facts in sorted(baseline.entries.items(), key=lambda item: item[0])
        ],
    }
    return json.dumps(top, indent=1) + "\n"


def _parse_facts(fields: Json) -> ScheduleFacts:
    outputs = read_object(fields, "outputs")
    return ScheduleFacts(
        outputs={name: read_word(Verdict, outputs, name) for name in outputs},
        neighbourhoods=tuple(_parse_neighbourhood(as_object(one, "writes")) for one in read_list(fields, "writes")),
        memory=None if fields.get("memory") is None else _parse_memory(read_object(fields, "memory")),
    )


def _parse_memory(fields: Json) -> MemoryFigures:
    return MemoryFigures(
        peak=read_count(fields, "peak"),
        reserved=read_count(fields, "reserved"),
        temporaries=read_count(fields, "temporaries"),
        copied=read_count(fields, "copied"),
        copies=tuple(_parse_copy(as_object(one, "copies")) for one in read_list(fields, "copies")),
    )


def _parse_copy(fields: Json) -> RecordedCopy:
    return RecordedCopy(
        cause=read_word(CopyCause, fields, "cause"),
        bytes=read_count(fields, "bytes"),
        file=read_str(fields, "file"),
        line=read_count(fields, "line"),
    )


def _parse_neighbourhood(fields: Json) -> Neighbourhood:
    return Neighbourhood(
        kernel=read_str(fields, "kernel"),
        operand=read_count(fields, "operand"),
        number=read_count(fields, "number"),
        fate=read_word(Fate, fields, "fate"),
        shape=read_str(fields, "shape"),
        size=read_count(fields, "bytes"),
        copied_by=read_strs(fields, "copied_by"),
        shares=read_strs(fields, "shares"),
        readers=tuple(_parse_reader(as_object(one, "readers")) for one in read_list(fields, "readers")),
    )


def _parse_reader(fields: Json) -> Reader:
    line = read_count(fields, "line")
    file, function = read_str(fields, "file"), read_str(fields, "function")
    return Reader(
        opcode=read_str(fields, "opcode"),
        op_name=read_str(fields, "op_name"),
        source=SourceLine(file=file, line=line, function=function) if file else None,
        side=read_word(ReadTime, fields, "side"),
        origin=read_word(Origin, fields, "reads"),
    )


def _render_neighbourhood(one: Neighbourhood) -> dict[str, object]:
    return {
        "kernel": one.kernel,
        "operand": one.operand,
        "number": one.number,
        "fate": one.fate.value,
        "shape": one.shape,
        "bytes": one.size,
        "copied_by": list(one.copied_by),
        "shares": list(one.shares),
        "readers": [_render_reader(reader) for reader in one.readers],
    }


def _render_reader(reader: Reader) -> dict[str, object]:
    source = reader.source
    return {
        "side": reader.side.value,
        "reads": reader.origin.value,
        "opcode": reader.opcode,
        "op_name": reader.op_name,
        "file": PurePath(source.file).name if source else "",
        "line": source.line if source else 0,
        "function": source.function if source else "",
    }
