"""Finds reads of memory that no operation has written: memory that XLA allocates (`jax.lax.empty`, `jax.empty_ref`), and a
kernel's own outputs.

A kernel that gets allocated memory, directly or through bitcasts, barriers and tuples, is reported only if it certainly
reads bytes of this memory before it writes them. Memory that reaches a kernel through a loop, a branch or an update of a
part is not followed here; a replay finds such reads (see `replay.runs.launch_reach`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.dependents import find_dependents, name_reached
from ligerdiag.effects.access import CallEffects, ReadsBeforeWrite
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.dataflow import Dataflow, PassThrough
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaves

_NAMES = PassThrough(bitcasts=True, barriers=True, tuples=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnwrittenMemory:
    """A kernel call that certainly reads memory before anything is written to it."""

    call: HloInstruction
    """The kernel's call in the program."""
    effects: CallEffects
    operand: int
    """Number of the call's operand that points to the memory."""
    allocation: HloInstruction


def find_unwritten_memory(context: Context) -> Iterator[UnwrittenMemory]:
    """Yields the kernel calls of the program that certainly read newly allocated memory before anything is written there.
    Yields one record for each operand that points to such memory.
    """
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
            if any(one.reads_before_write is ReadsBeforeWrite.YES for one in uses):
                yield UnwrittenMemory(call=call, effects=effects, operand=number, allocation=allocation)


def find_unresolved_reads(context: Context) -> Mapping[str, str]:
    """Finds the outputs that may depend on memory that no operation has written. Maps the name of each to a line with the
    reason.

    The reason is a kernel that may read its own output before it writes there. Whether it does depends on values that only a
    replay computes.
    """
    found: dict[str, str] = {}
    for call, effects in context.calls:
        aliased = set(call.operand_output_aliases.values())
        for output, (leaf, use) in enumerate(zip(iterate_leaves(call.shape), effects.output_uses, strict=False)):
            if not use.may_read_old or leaf in aliased:
                continue
            for name in name_reached(context, find_dependents(context, context.program, call, [leaf])):
                read = f"whether `{effects.kernel}` reads its output {output} before anything is written there"
                found.setdefault(name, f"{read} depends on computed values, and no replay has run to find out")
    return found
