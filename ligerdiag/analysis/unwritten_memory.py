"""Reads of memory that XLA allocates for the program and that nobody has written: `jax.lax.empty`, `jax.empty_ref`.

1. A kernel that is given such memory, by whatever names, surely reads bytes of it that it has not written before.
2. What loops, branches and updates of parts make of it is not followed: replay asks, see `replay.runs.launch_reach`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.analysis.context import Context
from ligerdiag.effects.access import CallEffects, OperandUse, ReadsBeforeWrite
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.dataflow import Dataflow, PassThrough
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaves

_NAMES = PassThrough(bitcasts=True, barriers=True, tuples=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnwrittenMemory:
    """A read by 1."""

    call: HloInstruction
    """Of the kernel, in the program."""
    effects: CallEffects
    operand: int
    """Number of the call's operand that is the memory."""
    use: OperandUse
    """Of the operand, or of the output in its place, whichever pointer is read."""
    allocation: HloInstruction


def find_unwritten_memory(context: Context) -> Iterator[UnwrittenMemory]:
    """Yields each operand of a kernel of the program that is read so."""
    if not any(is_call_with(call, CallTrait.ALLOCATES) for _, call in context.program.iterate_custom_calls()):
        return
    flow = Dataflow(context.program, _NAMES)
    for call, effects in {one.id: (one, found) for one, found in context.calls}.values():
        leaves = list(iterate_leaves(call.shape))
        aliases = call.operand_output_aliases
        for number, (operand, access, use) in enumerate(
            zip(call.operands, effects.operands, effects.operand_uses, strict=False)
        ):
            allocation, _ = flow.find_definition(operand)
            if not is_call_with(allocation, CallTrait.ALLOCATES):
                continue
            uses = [use] if access.reads else []
            output = leaves.index(aliases[number]) if aliases.get(number) in leaves else len(leaves)
            uses += effects.output_uses[output : output + 1]
            read = next((one for one in uses if one.reads_before_write is ReadsBeforeWrite.YES), None)
            if read is not None:
                yield UnwrittenMemory(call=call, effects=effects, operand=number, use=read, allocation=allocation)
