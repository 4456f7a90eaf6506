"""Finds the outputs of the program that depend on a buffer of a given kernel call.

A kernel's result depends on an operand only if the kernel reads that operand before it overwrites it.
"""

from collections.abc import Iterable, Sequence

from ligerdiag.analysis.context import Context
from ligerdiag.effects.access import CallEffects, ReadsBeforeWrite, WriteCoverage
from ligerdiag.hlo.dataflow import Dataflow, PassThrough
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.reach import Reach, find_reach
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

_PASSED = PassThrough(bitcasts=True, barriers=True, tuples=True)


def find_dependents(
    context: Context,
    module: HloModule,
    call: HloInstruction,
    leaves: Iterable[ShapeIndex],
    operands: Sequence[int] = (),
) -> Reach:
    """Finds the outputs that depend on buffers of a kernel call. Returns the numbers of these outputs, and whether a custom
    call with side effects also depends on the buffers.

    The buffers are given as leaves of the call's result, and as numbers of operands that the call overwrites. module: the
    call's module, either the context's program or its optimized module.
    """
    calls = context.optimized_calls if module is context.optimized else context.calls
    effects = {one.id: found for one, found in calls}
    flow = Dataflow(module, _PASSED)
    starts = [(call, leaf) for leaf in leaves]
    starts += [flow.find_definition(call.operands[operand]) for operand in operands]

    def list_dependents(user: HloInstruction, operand: int) -> tuple[Iterable[ShapeIndex], Iterable[int]]:
        return _list_dependents(user, operand, effects.get(user.id))

    return find_reach(module, starts, list_dependents)


def name_reached(context: Context, reach: Reach) -> tuple[str, ...]:
    """Returns the names of the outputs whose numbers are in `reach`, in the order of the program's outputs."""
    return tuple(name for number, name in enumerate(context.verdicts.outputs) if number in reach.outputs)


def _list_dependents(
    call: HloInstruction, operand: int, effects: CallEffects | None
) -> tuple[Iterable[ShapeIndex], Iterable[int]]:
    leaves = list(iterate_leaves(call.shape))
    if effects is None or operand >= len(effects.operands):
        return leaves, ()
    aliases = call.operand_output_aliases
    access, use = effects.operands[operand], effects.operand_uses[operand]
    if access.reads and use.reads_before_write is not ReadsBeforeWrite.NO:
        hidden = [number for number, one in enumerate(effects.operands) if one.writes and number not in aliases]
        return leaves, hidden
    output = aliases.get(operand)
    if output is None or output not in leaves:
        return (), ()
    own = effects.output_uses[leaves.index(output)]
    is_replaced = WriteCoverage.COMPLETE in (use.coverage, own.coverage)
    return (() if is_replaced and own.reads_before_write is ReadsBeforeWrite.NO else (output,)), ()
