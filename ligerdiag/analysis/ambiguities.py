"""Ambiguities: values of which it cannot be told what the author meant, or which instruction computes them.

Where there is no program as written, there is only what XLA got: folded by MLIR, and without tags. An
ambiguity is a mark on the values that depend on what is not known (`verdict.unknown_propagation` makes outputs that have one
unknown):
  (1) DERIVATIVE: an operation that autodiff derived from the value before the write reads the overwritten value. It may
      want the original, as a residual; or what it read was the new value times one, or the like, which MLIR has folded away.
      The same of any reader outside of the forward pass, where that may have saved the value: what it reads may be a
      derivative, the original times one, that has been folded away.
  (2) OTHER_FORM: an operation after the write reads a value that the overwritten one is a reshape, transpose, cast, slice or
      broadcast of, or the other way round. MLIR turns a reshape of a reshape into the value itself: whether the author
      meant what was overwritten or what it was made from is no longer to be seen.
  (3) CONSTANT: the overwritten value is computed from constants alone. MLIR computes such values itself and makes one of
      those that are equal: whatever depends on a constant may be meant to depend on the overwritten one.
  (4) AMBIGUOUS: an instruction of the optimized module may be one of several operations (see `retag`), and would be wrong,
      or carry the original, as one of them.
  (5) UNSURE: an instruction of the optimized module is wrong if it is the author's operation, and right if a pass made it.
  (6) NO_METADATA: nothing that carries the overwritten value's original is found again in the optimized module, by any name.
  (7) TOO_MANY: so many operations are wrong that which of them an output depends on was not asked to the end.
  (8) UNIDENTIFIED: an instruction of the optimized module whose name is missing, or cannot be believed, may carry the
      original (see `belief`), and the output is wrong if it does.
A value folded into the very one that the kernel overwrites, `x + 0` say, leaves no trace: that is a limit, and not marked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple

FORMS = having(Trait.OTHER_FORM)
CONSTANTS = having(Trait.FROM_NOTHING)


class Reason(Enum):
    """Why it cannot be told."""

    DERIVATIVE = "derivative"
    OTHER_FORM = "other form"
    CONSTANT = "constant"
    AMBIGUOUS = "ambiguous"
    UNSURE = "unsure"
    NO_METADATA = "no metadata"
    TOO_MANY = "too many"
    UNIDENTIFIED = "unidentified"


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """Key of a mark: whether the value sees this hidden write as it is meant to cannot be told."""

    write: int
    """HiddenWrite index."""
    reason: Reason
    instruction: int
    """Instruction id: of the reader in the unoptimized module, (1) and (2); in the optimized one, (4), (5), (8); else 0."""


type Ambiguities = Mapping[str, frozenset[Ambiguity]]
"""Output name to what cannot be told about it."""


def is_other_form(instruction: HloInstruction) -> bool:
    """Whether it is its only operand in another form, (2); constants and what is made of scalars are nobody's form."""
    if instruction.opcode not in FORMS or len(instruction.operands) != 1:
        return False
    operand = instruction.operands[0]
    if operand.opcode in CONSTANTS or is_tuple(operand.shape):
        return False
    return bool(operand.shape.dimensions)
