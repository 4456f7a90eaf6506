"""Judges one reader directly from the schedule, as a second opinion without dependence sets, labels or tags.

The `jax.named_scope` around a reader names it. The reader must see the kernel's write or, if it needs the original,
must not see it. The answer follows from the reader's position in the sequence, from the bytes that it reads, and from
whether a chain of operands leads from the kernel to it.
"""

import re
from dataclasses import dataclass
from enum import Enum

from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloComputation, HloInstruction
from tests.analysis.compiled import Program


class Seen(Enum):
    """The contents that a reader gets of the bytes that the kernel overwrites."""

    BEFORE = "the bytes, before the kernel"
    AFTER = "the bytes, after the kernel, by luck"
    FORCED = "the bytes, after the kernel, in a forced order"
    ELSEWHERE = "other bytes"


MUST_SEE = {Seen.BEFORE: "stale", Seen.ELSEWHERE: "stale", Seen.AFTER: "latent", Seen.FORCED: "fresh"}
MUST_NOT_SEE = {Seen.BEFORE: "latent", Seen.ELSEWHERE: "fresh", Seen.AFTER: "clobbered", Seen.FORCED: "clobbered"}


@dataclass(frozen=True)
class ScheduledInstruction:
    computation: HloComputation
    instruction: HloInstruction

    @property
    def time(self) -> int:
        return [i.id for i in self.computation.sequence].index(self.instruction.id)


def find_kernels(program: Program) -> list[ScheduledInstruction]:
    return [
        ScheduledInstruction(computation, instruction)
        for computation, instruction in program.optimized.iterate_custom_calls()
        if instruction.proto.custom_call_target.startswith("triton_kernel_call")
    ]


def classify_read(program: Program, scope: str) -> Seen:
    """Returns what the operations in this scope see of the operand of the program's only kernel."""
    (kernel,) = find_kernels(program)
    overwritten = read_slices(program.positions, kernel.instruction)
    readers = [
        i
        for i in kernel.computation.sequence
        if i is not kernel.instruction
        and re.search(rf"\b{scope}\b", join_op_names(program, i))
        and i.opcode not in ("bitcast", "tuple", "get-tuple-element", "parameter")
        and read_slices(program.positions, i) & overwritten
    ]
    if not readers:
        return Seen.ELSEWHERE
    (reader,) = readers
    if ScheduledInstruction(kernel.computation, reader).time < kernel.time:
        return Seen.BEFORE
    return Seen.FORCED if leads_to(kernel.instruction, reader) else Seen.AFTER


def join_op_names(program: Program, instruction: HloInstruction) -> str:
    """Returns the op_names of the instruction and of everything that is fused into it."""
    names = [instruction.op_name]
    if instruction.opcode == "fusion":
        fused = program.optimized.computations[instruction.called_computations[0]]
        names += [i.op_name for i in fused.instructions]
    return " ".join(names)


def read_slices(positions: Positions, instruction: HloInstruction) -> set[int]:
    return {place for o in instruction.operands for place in positions.locate(o) if place is not None}


def leads_to(start: HloInstruction, end: HloInstruction) -> bool:
    """Returns whether a chain of operands leads from start to end."""
    return end is start or any(leads_to(start, operand) for operand in end.operands)
