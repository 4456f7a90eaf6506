"""Lists the claims of the analysis about which operation of the program an instruction of the schedule computes.

The analysis makes them for different purposes, and on different evidence:

    name       the instruction has the tag and the opcode of the operation, and XLA named it after the operation
    operands   it has the tag and the opcode, and its operands are those of the operation
    moved      as `name`, but `Identification.is_another` says that it is another value
    tag        it has the tag and the opcode
    metadata   it has the tag, and another opcode: a pass gave it the metadata of an operation
    carrier    it has the tag, and ORIG starts here: the old contents of a kernel's operand
    operand    the instruction is an operand of an author's operation, and is taken for this operation

An instruction with a tag has one of the first five. The verdict compares the dependence sets of all five kinds, and
blames reads of the first two alone (`find_authored_occurrences`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluated_pair import Evaluator, is_named_after
from ligerdiag.analysis.evaluation.carriers import Carriers, compute_carriers, is_carrier, is_same_operation
from ligerdiag.analysis.evaluation.fusions import FusionSummaries, Places
from ligerdiag.analysis.evaluation.label_memory import Occurrence
from ligerdiag.analysis.evaluation.program_order import CARRIED
from ligerdiag.analysis.verdict.operand_provenance import UNSEEN, OperandProvenance
from ligerdiag.analysis.writes import EffectsOf
from ligerdiag.hlo.module import HloInstruction, TagPath
from tools.fuzz.fingerprints import Claim


def list_claims(context: Context, effects_of: EffectsOf) -> list[Claim]:
    """Returns the claims of one compilation, whose modules have the tags that ligerdiag gave them before the compile."""
    return list(_Claims.make(context, effects_of).iterate())


@dataclass(frozen=True, slots=True, eq=False)
class _Claims:
    context: Context
    carriers: Carriers
    provenance: OperandProvenance

    @classmethod
    def make(cls, context: Context, effects_of: EffectsOf) -> "_Claims":
        """Repeats what `compute_context` does to find operands, whose results a context does not keep."""
        identical = context.matching.identical
        writes = tuple([replace(one, index=identical.get(one.index, one.index)) for one in context.writes])
        carriers = compute_carriers(writes)
        evaluator = Evaluator(
            context.program,
            context.optimized,
            FusionSummaries(context.optimized, Places(context.buffers, context.positions)),
            writes,
            context.space,
            carriers,
            effects_of,
            context.matching,
        )
        return cls(context, carriers, OperandProvenance(context.intended, context.actual, evaluator))

    def iterate(self) -> Iterator[Claim]:
        opcodes = self._list_opcodes()
        occurrences = {
            (path, one.instruction.id): one for path, found in self.context.actual.occurrences.items() for one in found
        }
        for one in self.context.optimized.instructions:
            path = self.context.optimized.tags.get(one.id, ())
            if not path or path[-1] < 0:
                continue
            evidence = self._find_evidence(path, one, opcodes, occurrences.get((path, one.id)))
            yield Claim(instruction=one.id, path=path, evidence=evidence)
            if any(is_carrier(operation, one) for operation, _ in self.carriers.paths.get(path, ())):
                yield Claim(instruction=one.id, path=path, evidence="carrier")
        yield from dict.fromkeys(self._iterate_operands())

    def _list_opcodes(self) -> dict[int, set[str]]:
        """Maps a tag to the opcodes of the operation's instructions."""
        found: dict[int, set[str]] = {}
        for one in self.context.program.instructions:
            if path := self.context.program.tags.get(one.id):
                found.setdefault(path[-1], set()).add(one.opcode)
        return found

    def _find_evidence(
        self, path: TagPath, one: HloInstruction, opcodes: dict[int, set[str]], occurrence: Occurrence | None
    ) -> str:
        if not any(is_same_operation(opcode, one) for opcode in opcodes.get(path[-1], ())):
            return "metadata"
        if is_named_after(path, one):
            return "moved" if self.provenance.evaluator.computes_another(path, one) else "name"
        tagged = self.context.intended.tagged.get(path)
        if occurrence is not None and tagged is not None and self.provenance.operands_match(path, occurrence):
            return "operands"
        return "tag"

    def _iterate_operands(self) -> Iterator[Claim]:
        """Yields a claim for each operand that the search for wrong reads recognises (see `find_wrong_operations`)."""
        for path, tagged in self.context.intended.tagged.items():
            for occurrence in self.context.actual.occurrences.get(path, ()):
                one = occurrence.instruction
                if one.opcode != tagged.opcode or len(one.operands) != len(tagged.edges):
                    continue
                if not self.provenance.is_authored(path, occurrence):
                    continue
                for operand, edge in zip(one.operands, self.provenance.recognise(path, occurrence), strict=True):
                    if edge != UNSEEN and edge[0] and edge[0] != CARRIED:
                        value = self._find_value(operand, occurrence)
                        yield Claim(instruction=value.id, path=edge[0], evidence="operand")

    def _find_value(self, operand: HloInstruction, occurrence: Occurrence) -> HloInstruction:
        """Returns the operand; for a parameter of a fusion, the value that the fusion gets."""
        if operand.opcode == "parameter" and occurrence.instruction is not occurrence.scheduled:
            return occurrence.scheduled.operands[operand.proto.parameter_number]
        return operand
