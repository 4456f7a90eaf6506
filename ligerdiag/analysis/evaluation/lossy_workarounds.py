"""Workarounds that order and round: something is added to an overwritten value, and subtracted again.

  (1) `x + b` and then `(x + b) - b'`, where x is the operand that a kernel overwrites, and b and b' are one value, or
      twins of each other, and depend on what the kernel returns. To a person it is x; to the scheduler it comes after
      the kernel; in floating point it is x rounded to what b + x can hold.
  (2) Barriers, broadcasts, reshapes and converts on the way are looked through.
Looked for inside of the computation that holds the kernel's call.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluation.program_order import Intended
from ligerdiag.analysis.reaching_definitions import number_values
from ligerdiag.analysis.writes import HiddenWrite, call_tags_of
from ligerdiag.hlo.dataflow import list_operands, look_through, look_through_forward, search
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.hlo.opcodes import Trait, having

_LOOKED_THROUGH = having(Trait.KEEPS_SCALAR)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounding:
    """One such pair, with the outputs that it reaches."""

    write: HiddenWrite
    addition: HloInstruction
    subtraction: HloInstruction
    term: HloInstruction
    """What is added and subtracted."""
    path: TagPath
    """Of the subtraction."""
    outputs: tuple[str, ...] = ()


def find_roundings(
    writes: tuple[HiddenWrite, ...],
    names: tuple[str, ...],
    run_intended: Callable[[Mapping[TagPath, Labels]], Intended],
    mark: Callable[[object], Labels],
) -> tuple[Rounding, ...]:
    """Finds every pair of the program as written, each subtraction once.

    run_intended: evaluates the program with marks on what these operations compute; `mark` makes a mark of a key.
    """
    pairs = {found.subtraction.id: found for write in writes for found in _find_pairs(write)}
    if not pairs:
        return ()
    marks = {pair.path: mark(("rounding", pair.path)) for pair in pairs.values() if pair.path}
    reached = run_intended(marks).outputs
    return tuple(
        replace(pair, outputs=tuple(name for name, labels in zip(names, reached, strict=True) if labels & mark_of))
        for pair in pairs.values()
        for mark_of in [marks.get(pair.path, 0)]
    )


def _find_pairs(write: HiddenWrite) -> Iterator[Rounding]:
    computation, call = write.frames[-1].computation, write.call
    users = computation.users
    value = call.operands[write.operand]
    numbers = number_values(computation)
    for addition in users[value.id]:
        if addition.opcode != "add" or len(addition.operands) != 2:
            continue
        other = addition.operands[1] if addition.operands[0] is value else addition.operands[0]
        term = look_through(other, _LOOKED_THROUGH)
        if call not in search([term], list_operands):
            continue
        for subtraction in look_through_forward(addition, _LOOKED_THROUGH, users):
            if subtraction.opcode != "subtract":
                continue
            if numbers[look_through(subtraction.operands[1], _LOOKED_THROUGH).id] != numbers[term.id]:
                continue
            if look_through(subtraction.operands[0], _LOOKED_THROUGH) is not addition:
                continue
            own = write.module.find_tag_path(subtraction)
            yield Rounding(
                write=write,
                addition=addition,
                subtraction=subtraction,
                term=term,
                path=(*call_tags_of(write.module, write.frames[:-1]), *own) if own else (),
            )
