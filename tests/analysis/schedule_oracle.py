"""A second opinion on one reader, read straight off the schedule: no dependence sets, no labels, no tags.

A reader is named by the `jax.named_scope` that the program puts around it. It must see the kernel's write (or, where it
needs the original, must not): what follows from where it stands in the sequence, which bytes it reads, and whether a chain
of operands leads to it from the kernel.
"""

import re
from dataclasses import dataclass
from enum import Enum

from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloComputation, HloInstruction
from tests.analysis.compiled import Program


class Seen(Enum):
    """What a reader gets of the bytes that the kernel overwrites."""

    BEFORE = "the bytes, before the kernel"
    AFTER = "the bytes, after the kernel, by luck"
    FORCED = "the bytes, after the kernel, and it cannot be otherwise"
    ELSEWHERE = "other bytes"


MUST_SEE = {Seen.BEFORE: "stale", Seen.ELSEWHERE: "stale", Seen.AFTER: "latent", Seen.FORCED: "fresh"}
MUST_NOT_SEE = {Seen.BEFORE: "latent", Seen.ELSEWHERE: "fresh", Seen.AFTER: "clobbered", Seen.FORCED: "clobbered"}


@dataclass(frozen=True)
class Place:
    computation: HloComputation
    instruction: HloInstruction

    @property
    def time(self) -> int:
        return [i.id for i in self.computation.sequence].index(self.instruction.id)


def find_kernels(program: Program) -> list[Place]:
    return [
        Place(computation, instruction)
        for computation, instruction in program.optimized.iterate_custom_calls()
        if instruction.proto.custom_call_target.startswith("triton_kernel_call")
    ]


def look(program: Program, scope: str) -> Seen:
    """What the operations in this scope get to see of the (only) kernel's operand."""
    (kernel,) = find_kernels(program)
    overwritten = read_slices(program.positions, kernel.instruction)
    readers = [
        i
        for i in kernel.computation.sequence
        if i is not kernel.instruction
        and re.search(rf"\b{scope}\b", all_names(program, i))
        and i.opcode not in ("bitcast", "tuple", "get-tuple-element", "parameter")
        and read_slices(program.positions, i) & overwritten
    ]
    if not readers:
        return Seen.ELSEWHERE
    (reader,) = readers
    if Place(kernel.computation, reader).time < kernel.time:
        return Seen.BEFORE
    return Seen.FORCED if leads_to(kernel.instruction, reader) else Seen.AFTER


def all_names(program: Program, instruction: HloInstruction) -> str:
    """op_names of the instruction and of all that is fused into it."""
    names = [instruction.op_name]
    if instruction.opcode == "fusion":
        fused = program.optimized.computations[instruction.called_computations[0]]
        names += [i.op_name for i in fused.instructions]
    return " ".join(names)


def read_slices(positions: Positions, instruction: HloInstruction) -> set[int]:
    return {place for o in instruction.operands for place in positions.locate(o) if place is not None}


def leads_to(start: HloInstruction, end: HloInstruction) -> bool:
    """Whether a chain of operands leads from start to end."""
    return end is start or any(leads_to(start, operand) for operand in end.operands)
