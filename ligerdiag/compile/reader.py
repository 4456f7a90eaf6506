"""Places where a trivial operation can tie a kernel call to one reader of what the kernel was given: a plain record."""

import json
from dataclasses import asdict, dataclass

from ligerdiag.compile.fields import Json, as_object, read_int, read_ints, read_list, read_object, read_str
from ligerdiag.findings import SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One use, after a kernel call, of a value that the kernel was given; see `readers`.

    Tags are those of the untied program, whatever is tied.
    """

    id: str
    """`<call>.<operand>:<reader>.<reader_operand>`, the tags of the calls `through` before the first: `9/40.0:12.1`."""
    kernel: str
    """The kernel's function name, the custom call's target where it has none."""
    call: int
    """Tag of the kernel's custom call."""
    operand: int
    """Of the kernel call, 0-based."""
    through: tuple[int, ...]
    """Tags of the function calls that lead from the reader's function to the kernel's; empty when it is the same."""
    reader: int
    """Tag of the operation that reads."""
    reader_operand: int
    """Of that operation, 0-based."""
    opcode: str
    """StableHLO's name of the operation."""
    shape: str
    """Of the value that is read, such as `f32[4,32]`."""
    source: SourceLine
    """The innermost frame of the reading operation outside of installed packages; file "" when there is none."""
    untieable: str = ""
    """The reason why no trivial operation can be put here; empty when one can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """All that were found in one program, in program order."""

    found: tuple[Reader, ...] = ()
    trouble: str = ""
    """The reason why they were not looked for, or not found; empty when they are complete."""


def render_readers(readers: Readers) -> str:
    """JSON of the records."""
    return json.dumps({"trouble": readers.trouble, "readers": [asdict(one) for one in readers.found]}, indent=1) + "\n"


def parse_readers(fields: Json) -> Readers:
    """Returns the records of a JSON object; raises FieldError."""
    found = tuple(_parse_reader(as_object(one, "reader")) for one in read_list(fields, "readers"))
    return Readers(found=found, trouble=read_str(fields, "trouble"))


def parse_source_line(fields: Json) -> SourceLine:
    """Returns the record of a JSON object; raises FieldError."""
    return SourceLine(
        file=read_str(fields, "file"), line=read_int(fields, "line"), function=read_str(fields, "function")
    )


def _parse_reader(fields: Json) -> Reader:
    return Reader(
        id=read_str(fields, "id"),
        kernel=read_str(fields, "kernel"),
        call=read_int(fields, "call"),
        operand=read_int(fields, "operand"),
        through=read_ints(fields, "through"),
        reader=read_int(fields, "reader"),
        reader_operand=read_int(fields, "reader_operand"),
        opcode=read_str(fields, "opcode"),
        shape=read_str(fields, "shape"),
        source=parse_source_line(read_object(fields, "source")),
        untieable=read_str(fields, "untieable"),
    )
