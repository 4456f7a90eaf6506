"""Worker side: where a trivial operation can tie a kernel call to one reader of what the kernel was given.

Each use of the storage that the kernel was given, by operations after the call in program order (`same_storage`), is one
place. Which operands a kernel overwrites is not known here: every operand of every custom call is looked at. A reader
that is a kernel call itself would overwrite the tied value in the place of the original: `bisect` leaves that alone.
"""

import re
import traceback
from collections.abc import Sequence
from typing import Any

from ligerdiag.compile.kernel_calls import LoweredCall, TracedCall
from ligerdiag.compile.locations import iterate_lines
from ligerdiag.compile.reader import Reader, Readers
from ligerdiag.compile.same_storage import Program, Use, read_target
from ligerdiag.compile.worker_faults import describe_fault, is_project_file
from ligerdiag.findings import SourceLine

_TENSOR = re.compile(r"tensor<((?:\d+x)*)([^x<>]+(?:<[^<>]+>)?)(?:, .*)?>$")
_FLOATING = re.compile(r"(?:bf16|f16|f32|f64)$")
_SUMMABLE = re.compile(r"(?:b?f\d.*|[us]?i(?:[2-9]|\d\d+)|complex<f\d+>)$")
_NAMES = {"i1": "pred", "complex<f32>": "c64", "complex<f64>": "c128"}


def find_readers(module: Any, traced: Sequence[TracedCall], lowered: Sequence[LoweredCall]) -> Readers:
    """Returns the readers of the tagged module; never raises, says what is in the way instead."""
    names = {call.tag: next((asked.kernel for asked in traced if call.is_of(asked)), "") for call in lowered}
    try:
        program = Program(module)
        found = [
            _describe(program, use, names.get(call, ""), call, operand)
            for call in program.kernels()
            for operand in range(len(program.operations[call].operands))
            for use in program.find_uses(call, operand)
        ]
    except Exception as fault:
        traceback.print_exception(fault)
        return Readers(trouble=f"the program's readers are not understood: {describe_fault(fault)}")
    found.sort(key=lambda one: (one.reader, one.reader_operand, one.call, one.operand, one.through))
    return Readers(found=tuple(found))


def find_floating_output(call: Any) -> Any:
    """Returns the first result of floating type of a kernel call; None when there is none."""
    return next((result for result in call.results if _FLOATING.match(_split_type(result)[1])), None)


def _describe(program: Program, use: Use, kernel: str, call: int, operand: int) -> Reader:
    kernel_call, reader = program.operations[call], program.operations[use.tag]
    value = reader.operands[use.operand]
    dimensions, element = _split_type(value)
    lines = (place for place in iterate_lines(reader.location) if is_project_file(place[0]))
    file, line = next(lines, ("", 0))
    if not _SUMMABLE.match(element):
        trouble = f"a value of type `{value.type}` has no sum"
    elif find_floating_output(kernel_call) is None:
        trouble = "the kernel returns no floating-point array to tie with"
    else:
        trouble = use.untieable or program.is_handed_on(use.tag, use.operand)
    path = "/".join(str(tag) for tag in (*use.through, call))
    return Reader(
        id=f"{path}.{operand}:{use.tag}.{use.operand}",
        kernel=kernel or read_target(kernel_call),
        call=call,
        operand=operand,
        through=use.through,
        reader=use.tag,
        reader_operand=use.operand,
        opcode=reader.name,
        shape=f"{_name_type(element)}[{','.join(dimensions)}]" if element else str(value.type),
        source=SourceLine(file=file, line=line, function=""),
        untieable=trouble,
    )


def _split_type(value: Any) -> tuple[list[str], str]:
    """Dimensions and element type of an array of known shape; the type is empty for anything else."""
    found = _TENSOR.match(str(value.type))
    return ([], "") if found is None else (found[1].split("x")[:-1], found[2])


def _name_type(element: str) -> str:
    """Returns the type's name in XLA: `s32`, `u8`, `pred`; MLIR's own name where they are the same."""
    if element in _NAMES:
        return _NAMES[element]
    return f"s{element[1:]}" if re.match(r"i\d", element) else element.replace("ui", "u").lower()
