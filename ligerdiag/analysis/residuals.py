"""Who wants the original: operations that autodiff derived from a value as it was before a kernel overwrote it.

Reverse-mode autodiff saves values of the forward pass (residuals) and reads them later, in operations named `transpose(…)`
that carry the source line of the forward operation they belong to. When that forward operation ran before the kernel (it
defines the overwritten value, or reads it earlier), the derivative needs the value as it was then. An operation of a
custom_vjp's own backward rule is named `transpose(…)` too, but carries the line of the custom function's call: what it
reads is what its author wrote, in program order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having

_RESULT_NOT_SAVED = having(Trait.RESULT_NOT_SAVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualLines:
    """Where the forward operations stand that used the operand of one hidden write before it."""

    locations: frozenset[int]
    """Numbers of file locations."""
    is_complete: bool
    """Every one of them has a location."""
    may_save: bool
    """Some of them are differentiated, and their derivatives may need the operand as it was."""


def compute_residual_lines(writes: tuple[HiddenWrite, ...]) -> Mapping[int, ResidualLines]:
    """HiddenWrite index to the forward operations that used its operand before the write."""
    found: dict[int, ResidualLines] = {}
    for write in writes:
        module = write.module
        forward: list[HloInstruction] = []
        value = write.call.operands[write.operand]
        for frame in reversed(write.frames):
            users = frame.computation.users[value.id]
            tag = module.find_tag_path(frame.instruction)[-1:]
            forward += [_skip_barrier(module, value), *[u for u in users if module.find_tag_path(u)[-1:] < tag]]
            if value.opcode != "parameter" or len(write.frames) == 1:
                break
            outer = write.frames[write.frames.index(frame) - 1].instruction
            if outer.opcode != "call":
                break
            value = outer.operands[value.proto.parameter_number]
        forward = [one for one in forward if not is_derivative(one)]
        lines = {find_file_location(module, one) for one in forward}
        found[write.index] = ResidualLines(
            locations=frozenset(lines - {0}),
            is_complete=0 not in lines,
            may_save=any(
                is_differentiated(one) and (value in one.operands or one.opcode not in _RESULT_NOT_SAVED)
                for one in forward
            ),
        )
    return found


def _skip_barrier(module: HloModule, value: HloInstruction) -> HloInstruction:
    """What defines the value: the translation as written has put barriers without a tag behind operations."""
    while value.opcode == "opt-barrier" and not module.find_tag_path(value):
        value = value.operands[0]
    return value


def find_file_location(module: HloModule, instruction: HloInstruction) -> int:
    """Number of the innermost source location (file, line, column) in the module's table; 0 when there is none."""
    number = instruction.proto.metadata.stack_frame_id
    frames = module.stack_frames.stack_frames
    return frames[number - 1].file_location_id if 0 < number <= len(frames) else 0


def is_differentiated(instruction: HloInstruction) -> bool:
    """Whether the operation belongs to a forward pass that autodiff went through."""
    return "jvp(" in instruction.op_name and not is_derivative(instruction)


def is_derivative(instruction: HloInstruction) -> bool:
    """Whether autodiff transposed this operation."""
    return "transpose(" in instruction.op_name
