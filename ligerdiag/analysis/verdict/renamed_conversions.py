"""Finds conversions that have the name of a later one, and whose readers get the right version nevertheless.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

    program                              schedule
    h      = f32[] convert(a)            wide   = f32[] convert(a)
    loss   = custom-call(h)              loss   = custom-call(wide)      # the kernel overwrites the operand
    narrow = bf16[] convert(h)           y      = multiply(wide, s)
    wide   = f32[] convert(narrow)
    y      = multiply(wide, s)

SimplifyFPConversions omits the conversion to fewer bits and back, so that `wide` converts `a`, as `h` does, and common
subexpression elimination makes one instruction of both. If it keeps the name of `wide`, this instruction has the old
contents, which `wide` does not mean. But it computes `h`, and `y` reads the bytes after the kernel has overwritten them.

An instruction counts as such a *renamed conversion* if it is right for a conversion from which `wide` is computed, the
schedule has no other instruction for that conversion, and each operation of the program that reads `wide` is seen in
the schedule and gets the version that it means. No output can then be wrong because of the instruction: whatever reads
`wide` is right.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.analysis.evaluation.label_memory import Occurrence
from ligerdiag.analysis.evaluation.program_order import TaggedSet
from ligerdiag.analysis.verdict.comparison import ComparedEdge, Comparison
from ligerdiag.analysis.verdict.operand_provenance import UNSEEN, OperandProvenance
from ligerdiag.hlo.module import HloInstruction, TagPath, is_added_barrier
from ligerdiag.hlo.opcodes import Trait, having

_CASTS = having(Trait.CASTS)
_REARRANGES = having(Trait.SAME_ELEMENTS)
_READERS = having(Trait.ELEMENTWISE, Trait.MULTIPLIES, Trait.SAME_ELEMENTS, Trait.CASTS)
"""Opcodes of the operations whose reads are compared. A value that any other operation reads counts as wrong."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RenamedConversions:
    """Finds conversions that have the name and tag of a later conversion, because XLA merged the two."""

    provenance: OperandProvenance
    comparison: Comparison

    def is_harmless(self, path: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether an instruction is a renamed conversion (see the module's docstring) and so makes no output wrong.

        path: tag path of the conversion whose tag the instruction has. The instruction is wrong for this conversion.
        """
        one = occurrence.instruction
        if one.opcode not in _CASTS or self.provenance.intended.tagged[path].opcode not in _CASTS:
            return False
        return any(self._is_right_for(source, occurrence) for source in self._list_sources(path)) and self._are_right(
            path
        )

    def _list_sources(self, path: TagPath) -> Iterator[TagPath]:
        """Yields the tag paths of the conversions from which the operation is computed by conversions and rearrangements
        alone.
        """
        tagged, pending, known = self.provenance.intended.tagged, [path], {path}
        while pending:
            for source in tagged[pending.pop()].operands - known:  # with the kernels that overwrite the operand
                known.add(source)
                found = tagged.get(source)
                if found is not None and found.opcode in _CASTS | _REARRANGES:
                    pending.append(source)
                    if found.opcode in _CASTS:
                        yield source

    def _is_right_for(self, source: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether the instruction may compute the conversion `source`, of which the schedule has no instruction,
        and is right for it.
        """
        if any(self.provenance.list_seen(source)):
            return False
        written = self._find_written(source)
        is_same_type = all(one.shape.element_type == occurrence.instruction.shape.element_type for one in written)
        meant = self.provenance.intended.tagged[source].labels
        return (
            bool(written) and is_same_type and not self.comparison.find_errors(ComparedEdge(meant, occurrence.labels))
        )

    def _are_right(self, path: TagPath) -> bool:
        """Returns whether each operation that reads the operation at `path` is seen and gets what it means."""
        tagged, readers = self.provenance.intended.tagged, self._list_readers(path)
        return bool(readers) and all(
            reader in tagged and self._gets_right(reader, tagged[reader], path) for reader in readers
        )

    def _gets_right(self, reader: TagPath, tagged: TaggedSet, path: TagPath) -> bool:
        """Returns whether each instruction that computes the operation `reader` gets the right version of the operation
        at `path`.
        """
        seen = list(self.provenance.list_seen(reader))
        return bool(seen) and all(
            self.provenance.is_authored(reader, one)
            and not self.comparison.find_errors(ComparedEdge(tagged.labels, one.labels))
            and (len(one.instruction.operands) == 1 or self._reads_right(reader, tagged, path, one))
            for one in seen
        )

    def _reads_right(self, reader: TagPath, tagged: TaggedSet, path: TagPath, occurrence: Occurrence) -> bool:
        operands = self.provenance.recognise(reader, occurrence)
        if len(operands) != len(tagged.edges):
            return False
        meant = [labels for edge, labels in tagged.edges if edge == path]
        got = [labels for seen, labels in operands if seen == path and labels != UNSEEN[1]]
        return len(meant) == len(got) > 0 and not any(
            self.comparison.find_errors(ComparedEdge(one, other)) for one in meant for other in got
        )

    def _list_readers(self, path: TagPath) -> list[TagPath]:
        """Returns the tag paths of the operations that read the operation at `path`; an empty list if something else
        reads it, such as a loop, a call or an output.
        """
        program, found = self.provenance.evaluator.program, list[TagPath]()
        pending = self._find_written(path)
        while pending:
            one = pending.pop()
            home = program.homes[one.id]
            if one is home.root:
                return []
            for user in home.users[one.id]:
                own = program.tags.get(user.id, ())
                if is_added_barrier(user):
                    pending.append(user)
                elif own and user.opcode in _READERS:
                    found.append((*path[:-1], *own))
                else:
                    return []
        return found

    def _find_written(self, path: TagPath) -> list[HloInstruction]:
        """Returns the instructions of the program with the operation's own tag."""
        program = self.provenance.evaluator.program
        return [
            one
            for one in program.instructions
            if program.tags.get(one.id, ())[-1:] == path[-1:] and not is_added_barrier(one)
        ]
