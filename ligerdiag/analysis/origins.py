"""Origins: the operations that make a value which a kernel's operand is only another name for.

  (1) get-tuple-element of a tuple: the element.
  (2) Parameter of a called computation: the caller's operand. Parameter of a loop: what stood there before the loop, and
      what the body returns for the next iteration.
  (3) Result of a loop, a call or a conditional: what the called computations return.
An origin is an operation that computes, or a parameter of the entry computation.
"""

from ligerdiag.analysis.writes import Frame, Frames, HiddenWrite
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex


def find_origins(module: HloModule, write: HiddenWrite) -> tuple[Frames, ...]:
    """Call paths of the origins of the operand that the write overwrites, each once."""
    operand = write.call.operands[write.operand]
    pending: list[tuple[Frames, HloInstruction, ShapeIndex]] = [(write.frames[:-1], operand, ())]
    computation = write.frames[-1].computation
    found: dict[tuple[int, ...], Frames] = {}
    seen: set[tuple[tuple[int, ...], ShapeIndex]] = set()
    del computation, module, pending, seen
    return tuple(found.values())
