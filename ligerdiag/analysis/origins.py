"""Origins: the operations that make the value which a kernel's operand is only another name for.

  (1) get-tuple-element of a tuple: the element. Result of an optimization barrier: its operand. Result of an operation that
      gives its operand's elements as they are: the operand, with which XLA may let it share its bytes.
  (2) Parameter of a called computation: the caller's operand. Parameter of a loop: what stood there before the loop, and
      what the body returns for the next iteration.
  (3) Result of a loop, a call or a conditional: what the called computations return (a loop also what it was given).
An origin is an operation that computes, or a parameter of the entry computation.
"""

from collections.abc import Iterator

from ligerdiag.analysis.identities import find_same_elements
from ligerdiag.analysis.writes import Frame, Frames, HiddenWrite
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex

_BARRIERS = having(Trait.BARRIER)

type _Name = tuple[Frames, ShapeIndex]
"""An instruction by its call path, and which leaf of its shape."""


def find_origins(write: HiddenWrite) -> tuple[Frames, ...]:
    """Call paths of the origins of the operand that is overwritten, each once."""
    outer, last = write.frames[:-1], write.frames[-1]
    pending: list[_Name] = [((*outer, Frame(last.computation, write.call.operands[write.operand])), ())]
    seen: set[tuple[tuple[int, ...], ShapeIndex]] = set()
    found: dict[tuple[int, ...], Frames] = {}
    while pending:
        frames, index = pending.pop()
        key = (tuple([frame.instruction.id for frame in frames]), index)
        if key in seen:
            continue
        seen.add(key)
        names = list(_follow(write.module, frames, index))
        pending += names
        if not names:
            found[key[0]] = frames
    return tuple(found.values())


def _follow(module: HloModule, frames: Frames, index: ShapeIndex) -> Iterator[_Name]:
    """The names one step further up; none for an origin."""
    outer, (computation, instruction) = frames[:-1], (frames[-1].computation, frames[-1].instruction)

    def beside(other: HloInstruction, rest: ShapeIndex) -> _Name:
        return (*outer, Frame(computation, other)), rest

    def root(callee: int, rest: ShapeIndex) -> _Name:
        called = module.computations[callee]
        return (*frames, Frame(called, called.root)), rest

    match instruction.opcode:
        case "get-tuple-element":
            yield beside(instruction.operands[0], (instruction.proto.tuple_index, *index))
        case "tuple" if index:
            yield beside(instruction.operands[index[0]], index[1:])
        case opcode if opcode in _BARRIERS:
            yield beside(instruction.operands[0], index)
        case "while":
            yield beside(instruction.operands[0], index)
            yield root(instruction.called_computations[0], index)
        case "call":
            yield root(instruction.called_computations[0], index)
        case "conditional":
            for callee in instruction.called_computations:
                yield root(callee, index)
        case "parameter" if outer:
            yield from _follow_parameter(module, frames, index)
        case _:
            same = find_same_elements(instruction)
            if same is not None:
                yield beside(same, ())


def _follow_parameter(module: HloModule, frames: Frames, index: ShapeIndex) -> Iterator[_Name]:
    outer, parameter = frames[:-1], frames[-1].instruction
    caller = outer[-1]
    number = 0
    if caller.instruction.opcode == "call":
        number = parameter.proto.parameter_number
    elif caller.instruction.opcode == "conditional":
        number = 1 + caller.instruction.called_computations.index(frames[-1].computation.id)
    elif caller.instruction.opcode == "while":
        body = module.computations[caller.instruction.called_computations[0]]
        yield (*outer, Frame(body, body.root)), index
    yield (*outer[:-1], Frame(caller.computation, caller.instruction.operands[number])), index
