"""Operands that are wrong where the operation as a whole does not show it.

`a * b` is meant to read what a kernel left in `a`, and the original of `b`, and `a` depends on the original, too. Where it
reads the overwritten bytes for `b`, it has the dependence set that it should have. So the operands of an operation that is
surely the author's own are held against what each of them is meant to depend on:

  (1) An operand is recognised by its tag: the instruction itself, or what a fusion's parameter stands for, through bitcasts
      and get-tuple-elements, carries the tag of the operation that the operand is meant to come from.
  (2) Where several operands are meant to come from one operation, only what fits none of them is wrong.
An operand that is not recognised says nothing.
"""

from collections.abc import Iterator

from ligerdiag.analysis.actual import Actual, Sighting
from ligerdiag.analysis.comparison import Comparison
from ligerdiag.analysis.evidence import Differing
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.program_order import Intended, TaggedSet
from ligerdiag.analysis.runner import Runner
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.tags import TagPath

_NAMES = frozenset({"bitcast", "get-tuple-element"})


def find_wrong_edges(intended: Intended, actual: Actual, comparison: Comparison, run: Runner) -> Iterator[Differing]:
    """Operations with a wrong operand, about the writes that the operation as a whole is not wrong about."""
    for path, tagged in intended.tagged.items():
        if not any(one for one, _ in tagged.edges):
            continue
        for sighting in actual.sightings.get(path, ()):
            instruction = sighting.instruction
            if instruction.opcode != tagged.opcode or len(instruction.operands) != len(tagged.edges):
                continue
            if not run.is_own(path, instruction):
                continue
            stale, clobbered = _judge(tagged, sighting, actual, comparison, run)
            stale &= ~comparison.find_stale(tagged.labels, sighting.labels)
            clobbered &= ~comparison.find_clobbered(tagged.labels, sighting.labels)
            if stale or clobbered:
                yield Differing(path, tagged, sighting, stale, clobbered)


def _judge(
    tagged: TaggedSet, sighting: Sighting, actual: Actual, comparison: Comparison, run: Runner
) -> tuple[Labels, Labels]:
    """Writes, a bit each, about which some operand is stale, and clobbered."""
    stale = clobbered = 0
    for operand in sighting.instruction.operands:
        path, labels = _recognise(operand, sighting, actual, run)
        meant = [one for edge, one in tagged.edges if edge == path] if path else []
        if not meant or labels in meant:
            continue
        missing = seen = -1
        for one in meant:
            missing &= comparison.find_stale(one, labels)
            seen &= comparison.find_clobbered(one, labels)
        stale |= missing
        clobbered |= seen
    return stale, clobbered


def _recognise(operand: HloInstruction, sighting: Sighting, actual: Actual, run: Runner) -> tuple[TagPath, Labels]:
    """(1): tag path and dependence set; () where it is not recognised."""
    tags, scheduled = run.optimized.tags, sighting.scheduled
    one = operand
    while True:
        path = tags.get(one.id, ())
        if path:
            seen = next((s for s in actual.sightings.get(path, ()) if s.instruction is one), None)
            if seen is not None and seen.scheduled is scheduled:
                return path, seen.labels
        if one.opcode in _NAMES:
            one = one.operands[0]
        elif one.opcode == "parameter" and sighting.instruction is not scheduled:
            number = one.proto.parameter_number
            return _find_tag(scheduled.operands[number], run), _read(sighting, number)
        elif sighting.instruction is scheduled:
            return _find_tag(operand, run), _read(sighting, scheduled.operands.index(operand))
        else:
            return (), 0


def _find_tag(value: HloInstruction, run: Runner) -> TagPath:
    """The tag of the operation whose bytes the value names; of a fusion's, that of what it computes last."""
    index: int | None = None
    while True:
        if value.opcode == "get-tuple-element":
            index, value = value.proto.tuple_index, value.operands[0]
        elif value.opcode == "fusion":
            value = run.optimized.computations[value.called_computations[0]].root
        elif value.opcode == "tuple" and index is not None:
            value, index = value.operands[index], None
        elif value.opcode == "bitcast" and not run.optimized.tags.get(value.id):
            value = value.operands[0]
        else:
            return run.optimized.tags.get(value.id, ())


def _read(sighting: Sighting, number: int) -> Labels:
    """What stood in the bytes of that operand when the scheduled instruction read them."""
    found = 0
    for operand, _, labels in sighting.reads:
        if operand == number:
            found |= labels
    return found
