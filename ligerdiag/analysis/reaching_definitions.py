"""Finds the operations that define a kernel's operand: XLA may keep equal values in the same bytes, and a kernel that
overwrites one then overwrites the others too.

A *call path* leads from the entry computation to an instruction. It is a tuple of frames, each an instruction and the
computation that contains it; the last frame is the instruction itself.

The functions walk from the operand back through the operations that pass a value on, which `hlo.dataflow` defines.

- `resolve_operand` returns the one position whose value the operand is. A loop's parameter, an optimization barrier, a
  copy and a computation's result are values of their own.
- `find_origins` returns the operations that make the value; a loop or a conditional may have several. Operations that
  `find_same_elements` (see `provenance.value_numbers`) recognises do not count, because XLA may keep operand and result
  in the same bytes. An origin is an operation that computes, or a parameter of the entry computation.
- `find_scheduled_operand` returns the value that the scheduled instruction around the kernel gets, if a fusion contains
  the kernel. Inside of the fusion the operand is an address in one of the fusion's operands, or in a slice of it.
- `find_inlined` returns the place that an instruction has once XLA has inlined the calls around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.analysis.writes import Frame, Frames, HiddenWrite
from ligerdiag.hlo.dataflow import Dataflow, Definition, PassThrough, Position
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.provenance.value_numbers import CallPath, find_same_elements, is_inlined_by_xla


@dataclass(frozen=True, slots=True, kw_only=True)
class Inlined:
    """The place of an instruction after XLA has inlined every call and every loop that runs once."""

    outer: tuple[int, ...]
    """Ids of the instructions that lead to `root`, outermost first: the loops and conditionals that are not inlined,
    and the calls around them.
    """
    root: HloComputation
    """The computation into which the instruction is inlined."""
    path: CallPath
    """Ids of the calls that lead from `root` to the instruction."""


def find_inlined(module: HloModule, frames: Frames) -> Inlined:
    """Returns the place of an instruction after inlining. frames: the calls that lead to the instruction, and the
    instruction itself as the last frame.
    """
    first = len(frames) - 1
    while first and is_inlined_by_xla(module, frames[first - 1].instruction):
        first -= 1
    outer, path = (tuple([one.instruction.id for one in part]) for part in (frames[:first], frames[first:-1]))
    return Inlined(outer=outer, root=frames[first].computation, path=path)


_NAMES = PassThrough(bitcasts=True, tuples=True, arguments=True, shards=True)
_MADE_FROM = PassThrough(
    barriers=True, tuples=True, calls=True, branches=True, loop_entry=True, loop_back=True, arguments=True, shards=True
)
_ADDRESSES = PassThrough(bitcasts=True, barriers=True, tuples=True)
_PART_OF = frozenset({"slice", "dynamic-slice"})

type _Node = tuple[Frames, ShapeIndex]
"""An instruction with its call path, and a leaf of its shape."""


def resolve_operand(module: HloModule, frames: Frames, operand: int) -> Definition:
    """Returns the definition of operand number `operand` of the instruction at the end of the call path. Looks through other
    names of a value, such as bitcasts, tuples and parameters of calls.
    """
    flow = Dataflow(module, _NAMES)
    position, outer = (frames[-1].instruction.operands[operand], ()), frames[:-1]
    while (source := next(flow.list_sources(*position, _list_callers(outer)), None)) is not None:
        outer = outer[:-1] if position[0].opcode == "parameter" else outer
        position = source
    return position[0].id, position[1]


def find_origins(write: HiddenWrite) -> tuple[Frames, ...]:
    """Returns the call path to each operation that makes the overwritten value. If a loop or a conditional makes it,
    there may be several. Operations that return an operand's elements unchanged do not count (see the module's
    docstring).
    """
    outer, last = write.frames[:-1], write.frames[-1]
    flow = Dataflow(write.module, _MADE_FROM)
    pending: list[_Node] = [((*outer, Frame(last.computation, write.call.operands[write.operand])), ())]
    seen: set[tuple[tuple[int, ...], ShapeIndex]] = set()
    found: dict[tuple[int, ...], Frames] = {}
    while pending:
        frames, index = pending.pop()
        key = (tuple([frame.instruction.id for frame in frames]), index)
        if key in seen:
            continue
        seen.add(key)
        sources = list(_list_made_from(flow, frames, index))
        pending += sources
        if not sources:
            found[key[0]] = frames
    return tuple(found.values())


def _list_made_from(flow: Dataflow, frames: Frames, index: ShapeIndex) -> Iterator[_Node]:
    """Takes one step from a value toward the operations that make it, and yields each value that it reaches, as (call
    path to the instruction, leaf of its shape).
    """
    outer, here = frames[:-1], frames[-1]
    sources = list(flow.list_sources(here.instruction, index, _list_callers(outer)))
    same = None if sources else find_same_elements(here.instruction)
    for source, rest in sources if same is None else [(same, ())]:
        home = flow.module.homes[source.id]
        if home is here.computation or (outer and home.id in outer[-1].instruction.called_computations):
            path = outer
        else:
            path = outer[:-1] if here.instruction.opcode == "parameter" else frames
        yield (*path, Frame(home, source)), rest


def find_scheduled_operand(module: HloModule, frames: Frames, operand: int) -> tuple[Position, bool] | None:
    """Returns (the value in memory that a kernel gets as an operand, whether it gets only a slice of the value). If a
    fusion contains the kernel, the value is an operand of the fusion.

    Returns None if a fusion contains the kernel and computes its operand. frames: the call path to the kernel.
    """
    flow = Dataflow(module, _ADDRESSES)
    (value, index), partial = (frames[-1].instruction.operands[operand], ()), False
    for outer in reversed(frames[:-1]):
        if outer.instruction.opcode != "fusion":
            break
        value, index = flow.find_definition(value, index)
        while value.opcode in _PART_OF:
            partial = True
            value, index = flow.find_definition(value.operands[0])
        if value.opcode != "parameter":
            return None
        value = outer.instruction.operands[value.proto.parameter_number]
    return (value, index), partial


def _list_callers(outer: Frames) -> tuple[HloInstruction, ...]:
    return tuple([frame.instruction for frame in outer[-1:]])
