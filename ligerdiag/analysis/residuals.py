"""Who wants the original: operations that autodiff derived from a value as it was before a kernel overwrote it.

Reverse-mode autodiff saves values of the forward pass (residuals) and reads them later, in operations named `transpose(…)`
that carry the source line of the forward operation they belong to. When that forward operation ran before the kernel (it
defines the overwritten value, or reads it earlier), the derivative needs the value as it was then. An operation of a
custom_vjp's own backward rule is named `transpose(…)` too, but carries the line of the custom function's call: what it
reads is what its author wrote, in program order.
"""

from collections.abc import Mapping

from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.tags import parse_tag_path


def compute_residual_lines(module: HloModule, writes: tuple[HiddenWrite, ...]) -> Mapping[int, frozenset[int]]:
    """HiddenWrite index to the file locations of the forward operations that used its operand before the write."""
    found: dict[int, frozenset[int]] = {}
    for write in writes:
        forward: list[HloInstruction] = []
        value = write.call.operands[write.operand]
        for frame in reversed(write.frames):
            users = frame.computation.users[value.id]
            tag = parse_tag_path(frame.instruction.op_name)[-1:]
            forward += [_skip_barrier(value), *[u for u in users if parse_tag_path(u.op_name)[-1:] < tag]]
            if value.opcode != "parameter" or len(write.frames) == 1:
                break
            outer = write.frames[write.frames.index(frame) - 1].instruction
            if outer.opcode != "call":
                break
            value = outer.operands[value.proto.parameter_number]
        lines = {find_file_location(module, one) for one in forward if "transpose(" not in one.op_name}
        found[write.index] = frozenset(lines - {0})
    return found


def _skip_barrier(value: HloInstruction) -> HloInstruction:
    """What defines the value: the translation as written has put barriers without a tag behind operations."""
    while value.opcode == "opt-barrier" and not parse_tag_path(value.op_name):
        value = value.operands[0]
    return value


def find_file_location(module: HloModule, instruction: HloInstruction) -> int:
    """Number of the innermost source location (file, line, column) in the module's table; 0 when there is none."""
    number = instruction.proto.metadata.stack_frame_id
    frames = module.stack_frames.stack_frames
    return frames[number - 1].file_location_id if 0 < number <= len(frames) else 0


def is_derivative(instruction: HloInstruction) -> bool:
    """Whether autodiff transposed this operation."""
    return "transpose(" in instruction.op_name
