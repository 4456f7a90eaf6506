"""Slices of an array that a loop takes one after another, so that no iteration touches the bytes of another one.

XLA lets a kernel work on a slice of a larger array in place, by a fusion of the call with `dynamic-slice`. The slices of a
loop are apart where (1) the start in one dimension is the loop's induction variable, and all others are constants; (2) a
slice is no longer there than the variable's step; (3) the last one ends within the array, so that none is moved to fit.
XLA says the variable, its start and step and the number of iterations in the loop's backend_config (WhileLoopBackendConfig).
"""

import json
from typing import Any

from ligerdiag.analysis.writes import Frames
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having

_NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)


def takes_slices_apart(frames: Frames, operand: int) -> bool:
    """Whether the call at the end of the path gets another part of an array in each iteration of the loop around it."""
    if len(frames) < 3 or frames[-2].instruction.opcode != "fusion" or frames[-3].instruction.opcode != "while":
        return False
    call, fusion, loop = (frame.instruction for frame in (frames[-1], frames[-2], frames[-3]))
    value = call.operands[operand]
    while value.opcode in _NAMES:
        value = value.operands[0]
    if value.opcode != "dynamic-slice":
        return False
    starts = [(axis, start) for axis, start in enumerate(value.operands[1:]) if start.opcode != "constant"]
    if len(starts) != 1 or starts[0][1].opcode != "parameter":
        return False
    axis, start = starts[0]
    given = fusion.operands[start.proto.parameter_number]
    config = _read_config(loop)
    if config is None or not _is_variable(given, config["index"]):
        return False
    size, length = value.proto.dynamic_slice_sizes[axis], value.operands[0].shape.dimensions[axis]
    last = config["init"] + config["step"] * (config["count"] - 1)
    return 0 < size <= config["step"] and config["init"] >= 0 and last + size <= length


def _is_variable(value: HloInstruction, index: int) -> bool:
    """Whether it is that element of the loop's state."""
    is_element = value.opcode == "get-tuple-element" and value.operands[0].opcode == "parameter"
    return is_element and value.proto.tuple_index == index


def _read_config(loop: HloInstruction) -> dict[str, int] | None:
    try:
        said: Any = json.loads(loop.proto.backend_config)
        return {
            "index": int(said["known_induction_variable"]["tuple_index"]),
            "init": int(said["known_init_step"]["init"]),
            "step": int(said["known_init_step"]["step"]),
            "count": int(said["known_trip_count"]["n"]),
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
