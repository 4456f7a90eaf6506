"""Builds a program and its schedule by hand, with the bytes of each value chosen by the test."""

from collections.abc import Mapping

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.analysis.write_correspondence import TracedKernel
from ligerdiag.effects.access import Access, CallEffects, OperandUse, ReadsBeforeWrite, WriteCoverage
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from tests.hlo.building import Builder

READ, WRITE, BOTH, UNKNOWN = Access.READ, Access.WRITE, Access.READ_WRITE, Access.UNKNOWN


class Program(Builder):
    """A builder that tags operations; the target of a custom call determines its effects."""

    def op(
        self,
        computation: HloComputationProto,
        opcode: str,
        *operands: HloInstructionProto,
        tag: int | str = "",
        **fields: object,
    ) -> HloInstructionProto:
        added = self.add(computation, opcode, operands, **fields)  # type: ignore[arg-type]
        if tag:
            added.metadata.op_name = f"f/{opcode}#ld{tag}"
            added.name = f"{opcode}_ld{tag}.{added.id}"  # as XLA names an instruction that comes from the program
        return added

    def kernel(
        self, computation: HloComputationProto, *operands: HloInstructionProto, tag: int | str, target: str = "double"
    ) -> HloInstructionProto:
        added = self.op(computation, "custom-call", *operands, tag=tag)
        added.custom_call_target = target
        return added

    def place(self, *instructions: HloInstructionProto) -> None:
        """Gives each instruction its own bytes."""
        for instruction in instructions:
            self.define(instruction)


EFFECTS: Mapping[str, tuple[Access, ...]] = {
    "double": (BOTH, READ),
    "fill": (WRITE, READ),
    "opaque": (UNKNOWN, READ),
    "sum": (READ, READ),
    "turned_off": (BOTH, READ),
    "workspace": (BOTH, READ),
    "__cublas$gemm": (READ, READ),
}
ONLY_READ = OperandUse(reads_before_write=ReadsBeforeWrite.YES, coverage=WriteCoverage.NONE)
USES: Mapping[str, tuple[OperandUse, ...]] = {
    "turned_off": (ONLY_READ, ONLY_READ),
    "workspace": (OperandUse(reads_before_write=ReadsBeforeWrite.NO, coverage=WriteCoverage.COMPLETE), ONLY_READ),
}
"""How a kernel uses its operands, for the targets for which this does not follow from `EFFECTS` alone."""


def effects_of(call: HloInstruction) -> CallEffects:
    target = call.proto.custom_call_target
    operands, uses = EFFECTS[target][: len(call.operands)], USES.get(target, ())
    return CallEffects(kernel=target, operands=operands, outputs=(Access.WRITE,), operand_uses=uses[: len(operands)])


def judge(program: Program, schedule: Program, *outputs: str) -> Context:
    """Judges both modules, read from their bytes; every computation is scheduled in the order it was built."""
    for computation in schedule.proto.hlo_module.computations:
        if computation.id not in schedule.proto.hlo_module.schedule.sequences and not computation.is_fusion_computation:
            schedule.schedule(computation)
    return judge_modules(program.bytes(), schedule.bytes(), *outputs)


def judge_modules(
    program: bytes, schedule: bytes, *outputs: str, traced: tuple[TracedKernel, ...] = (), canonicalized: bool = False
) -> Context:
    """Judges serialized HloProtos; `canonicalized` says that they come from a dump that has our tags."""
    optimized, buffers = parse_hlo(schedule)
    assert buffers is not None
    return compute_context(
        program=parse_hlo(program)[0],
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=outputs,
        traced_calls=traced,
        canonicalized=canonicalized,
    )


def verdicts(context: Context) -> list[str]:
    return [output.verdict.value for output in context.verdicts.outputs.values()]
