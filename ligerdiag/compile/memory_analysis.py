"""Worker side: how much memory the program needs on one device, in bytes, by XLA's buffer assignment.

The figures are those of `memory_analysis()`, which a compile for a described GPU does not have in every version, and are
computed as XLA does it (xla/pjrt/pjrt_executable.cc), summing up the sizes of allocations:

    argument  of the entry computation's parameters
    output    that may hold an output, parameters that do among them
    alias     of the parameters that do
    temp      of the rest, without constants and what belongs to a thread

`generated_code` is XLA's own figure, and 0 where it says nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BUFFER_ASSIGNMENT, _ALLOCATIONS = 3, 3
"""Field numbers of xla/service/hlo.proto, in HloProto and in BufferAssignmentProto."""
_SIZE, _IS_THREAD_LOCAL, _IS_PARAMETER, _MAYBE_LIVE_OUT, _IS_CONSTANT = 2, 3, 5, 7, 12
"""In BufferAllocationProto."""


def compute_memory(optimized: Path, compiled: Any) -> dict[str, int]:
    """Bytes by what they are for; empty when the HloProto cannot be read as one."""
    memory: dict[str, int] = dict.fromkeys(("argument", "output", "temp", "alias"), 0)
    try:
        for kind, assignment in _iterate_fields(memoryview(optimized.read_bytes())):
            for number, allocation in _iterate_fields(assignment) if kind == _BUFFER_ASSIGNMENT else ():
                if number == _ALLOCATIONS:
                    _add(memory, dict(_iterate_fields(allocation)))
    except (IndexError, TypeError):
        return {}
    return memory | {"generated_code": _read_code_size(compiled)}


def _add(memory: dict[str, int], fields: dict[int, Any]) -> None:
    size = int(fields.get(_SIZE, 0))
    is_parameter, is_live_out = bool(fields.get(_IS_PARAMETER)), bool(fields.get(_MAYBE_LIVE_OUT))
    memory["argument"] += size * is_parameter
    memory["output"] += size * is_live_out
    memory["alias"] += size * (is_parameter and is_live_out)
    is_other = bool(fields.get(_IS_THREAD_LOCAL) or fields.get(_IS_CONSTANT))
    memory["temp"] += size * (not is_parameter and not is_live_out and not is_other)


def _read_code_size(compiled: Any) -> int:
    try:
        return int(compiled.memory_analysis().generated_code_size_in_bytes)
    except Exception:  # by the version: no analysis, no such field, not implemented
        return 0


def _iterate_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a serialized message: an int, or the bytes of what has a length."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        match key & 7:
            case 0:
                value, position = _read_varint(message, position)
                yield key >> 3, value
            case 2:
                length, position = _read_varint(message, position)
                yield key >> 3, message[position : position + length]
                position += length
            case kind:
                position += 8 if kind == 1 else 4


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
