"""Reaching definitions of a kernel's operand along the kernel's call path (see `hlo.dataflow` for the steps).

(1) `resolve_operand`: the one position whose value the operand is. A loop's parameter, an optimization barrier, a copy and
    what a computation returns are values of their own.
(2) `find_origins`: the operations that make the value, of which a loop or a conditional has several. Operations that give
    their operand's elements as they are do not count: XLA may let both share their bytes. An origin is an operation that
    computes, or a parameter of the entry computation.
(3) `find_scheduled_operand`: the value that the scheduled instruction around the kernel gets, where a fusion holds the
    kernel. Inside of it the operand is an address in one of the fusion's operands, or in a slice of it.
"""

from collections.abc import Iterator

from ligerdiag.analysis.identities import find_same_elements
from ligerdiag.analysis.writes import Frame, Frames, HiddenWrite
from ligerdiag.hlo.dataflow import Dataflow, Position, Through
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Definition
from ligerdiag.hlo.shape import ShapeIndex

_NAMES = Through(bitcasts=True, tuples=True, arguments=True)
_MADE_FROM = Through(
    barriers=True, tuples=True, calls=True, branches=True, loop_entry=True, loop_back=True, arguments=True
)
_ADDRESSES = Through(bitcasts=True, barriers=True, tuples=True)
_PART_OF = frozenset({"slice", "dynamic-slice"})

type _Node = tuple[Frames, ShapeIndex]
"""An instruction by its call path, and which leaf of its shape."""


def resolve_operand(module: HloModule, frames: Frames, operand: int) -> Definition:
    """(1) for the operand of the last frame's instruction."""
    flow = Dataflow(module, _NAMES)
    position, outer = (frames[-1].instruction.operands[operand], ()), frames[:-1]
    while (source := next(flow.list_sources(*position, _list_callers(outer)), None)) is not None:
        outer = outer[:-1] if position[0].opcode == "parameter" else outer
        position = source
    return position[0].id, position[1]


def find_origins(write: HiddenWrite) -> tuple[Frames, ...]:
    """(2): call paths of the origins of the operand that is overwritten, each once."""
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
    """The step of (2), with the call paths of where it leads."""
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
    """(3), and whether the kernel gets a slice of it only; None where the operand is no address in the fusion's operands."""
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
