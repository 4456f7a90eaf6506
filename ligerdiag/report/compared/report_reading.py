"""Reads those parts of the JSON of `check` and `inspect` that a comparison of two reports needs.

The JSON may come from another version of ligerdiag. Fields that a comparison does not need are ignored, and so are
fields that this version does not know. A report from a version without figures about memory gets none.
"""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import cast

from ligerdiag.codec import (
    FieldError,
    Json,
    as_list,
    as_object,
    decode_text,
    parse_object,
    read_count,
    read_list,
    read_object,
    read_str,
    read_str_map,
    read_word,
)
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Severity, SourceLine, Verdict
from ligerdiag.model.memory import Copy, CopyCause, MemoryUse
from ligerdiag.model.report import Status
from ligerdiag.report.compared.report_comparison import ReportedCase, ReportedFinding, ReportedSide

MAX_BYTES = 512 << 20


def load_side(path: Path, label: str) -> ReportedSide:
    """Returns the report in a JSON file. Raises InputError if the file is missing, too large, or does not hold a
    report.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read the report `{path}`: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"`{path}` is too large for a report (more than {MAX_BYTES >> 20} MiB)")
    try:
        return parse_side(decode_text(data), label)
    except FieldError as error:
        remedy = "write one with `ligerdiag check --format json --output FILE`"
        raise InputError(f"cannot compare the report `{path}`: {error}; {remedy}") from None


def parse_side(text: str, label: str) -> ReportedSide:
    """Returns the report in a JSON text. label: how the comparison names the report.

    Raises FieldError if the text is no report.
    """
    top = parse_object(text)
    return ReportedSide(
        label=label,
        cases=tuple(_parse_case(as_object(one, "cases")) for one in read_list(top, "cases")),
        toolchain=read_str(top, "toolchain"),
        versions=read_str_map(top, "versions"),
        interrupted=bool(top.get("interrupted")),
    )


def _parse_case(fields: Json) -> ReportedCase:
    outputs = read_object(fields, "outputs")
    memory = fields.get("memory")
    return ReportedCase(
        id=read_str(fields, "id"),
        target=read_str(fields, "target"),
        status=read_word(Status, fields, "status"),
        outputs={name: read_word(Verdict, outputs, name) for name in outputs},
        findings=tuple(_parse_finding(as_object(one, "findings")) for one in read_list(fields, "findings")),
        memory=None if memory is None else _parse_memory(as_object(memory, "memory")),
        error=read_str(fields, "error"),
    )


def _parse_finding(fields: Json) -> ReportedFinding:
    line = _parse_line(fields, "source")
    return ReportedFinding(
        rule=read_str(fields, "rule"),
        severity=read_word(Severity, fields, "severity"),
        message=read_str(fields, "message"),
        file=PurePath(line.file).name if line is not None else "",
        line=line.line if line is not None else 0,
        is_allowed=fields.get("suppressed") is not None,
        help=read_str(fields, "help"),
    )


def _parse_memory(fields: Json) -> MemoryUse:
    """Returns the memory of a case with its figures, copies and collectives; all other fields keep their defaults."""
    return MemoryUse(
        arguments=read_count(fields, "arguments"),
        outputs=read_count(fields, "outputs"),
        aliased=read_count(fields, "aliased"),
        temporaries=read_count(fields, "temporaries"),
        constants=read_count(fields, "constants"),
        peak=read_count(fields, "peak"),
        copies=tuple(_parse_copy(as_object(one, "copies")) for one in read_list(fields, "copies")),
        collectives=tuple(_parse_collective(one) for one in read_list(fields, "collectives")),
    )


_CAUSES: Mapping[str, CopyCause] = {cause.value: cause for cause in CopyCause}


def _parse_copy(fields: Json) -> Copy:
    return Copy(
        instruction=read_str(fields, "instruction"),
        bytes=read_count(fields, "bytes"),
        trips=None if fields.get("trips") is None else read_count(fields, "trips"),
        cause=_CAUSES.get(read_str(fields, "cause"), CopyCause.UNKNOWN),
        line=_parse_line(fields, "line"),
    )


def _parse_collective(value: object) -> tuple[str, int]:
    """Returns the opcode and the bytes of a collective, given as a JSON object or as a pair."""
    if isinstance(value, list):
        pair = as_list(cast("object", value), "collectives")
        value = dict(zip(("opcode", "bytes"), pair, strict=False))
    fields = as_object(value, "collectives")
    return read_str(fields, "opcode"), read_count(fields, "bytes")


def _parse_line(fields: Json, name: str) -> SourceLine | None:
    """Returns the source line in the field `name`; its line number is 0 where the report has null."""
    if fields.get(name) is None:
        return None
    place = read_object(fields, name)
    return SourceLine(file=read_str(place, "file"), line=0 if place.get("line") is None else read_count(place, "line"))
