"""Finds out for which of several merged operations an instruction of the schedule is used.

XLA makes one instruction of operations that it takes for one value (twins, see `provenance.value_numbers`). Fusion may then
compute this instruction again for each of its users, and all of these instructions carry the name of the same twin. In
`(x * x).sum(1) - before`, with `before = (x * x).sum()` from before the kernel's call, one multiplication runs before
the kernel and one after it. Each is wrong for one of the two products, and right for the only product for which it is
used. So an instruction counts as wrong about a hidden write only if it is wrong for an operation for which the schedule
uses it.

The users say which operation that is: an author's operation that uses the instruction uses one of the twins in the
program. If a user is not recognised as the author's, or uses none of the twins, or if no other instruction computes any
of them, the instruction may be used for each of the twins, and its errors stay.
"""

from dataclasses import dataclass

from ligerdiag.analysis.evaluation.labels import unite
from ligerdiag.analysis.verdict.compared_edges import Differing
from ligerdiag.analysis.verdict.comparison import ComparedEdge, Comparison
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.hlo.opcodes import Trait, having

_TRANSPARENT = having(Trait.SAME_ELEMENTS, Trait.FORWARDS)
"""Opcodes of instructions that may be XLA's and hand a value to its user unchanged."""


@dataclass(frozen=True, slots=True, eq=False)
class MergedUses:
    """Finds out for which of several merged operations the schedule uses an instruction."""

    provenance: OperandProvenance
    comparison: Comparison

    def refine(self, differing: tuple[Differing, ...]) -> tuple[Differing, ...]:
        """Returns `differing` without errors that do no harm. An error about a hidden write is dropped if the instruction is
        right about the write for each operation for which the schedule uses it. Instructions without errors are left out.
        """
        return tuple([one for one in map(self._refine, differing) if one.errors])

    def _refine(self, one: Differing) -> Differing:
        if one.twin or one.is_joined or not self._is_computed_again(one):
            return one
        served = self._list_served(one.path, one.occurrence.instruction)
        if not served or one.path in served:
            return one
        edges = [ComparedEdge(self.provenance.intended.tagged[path].labels, one.occurrence.labels) for path in served]
        return one.keep(unite(self.comparison.find_errors(edge).both for edge in edges))

    def _list_twins(self, path: TagPath) -> set[TagPath]:
        """Returns the tag paths of the operation and of its twins, of those that the program has."""
        tagged = self.provenance.intended.tagged
        return {path, *(other for other in self.provenance.twins.list_others(path) if other in tagged)}

    def _is_computed_again(self, one: Differing) -> bool:
        """Returns whether the operation has twins, and another instruction also computes one of them or the operation."""
        twins = self._list_twins(one.path)
        own = one.occurrence.instruction.id
        return len(twins) > 1 and any(
            seen.instruction.id != own for path in twins for seen in self.provenance.list_seen(path)
        )

    def _list_served(self, path: TagPath, instruction: HloInstruction) -> set[TagPath]:
        """Returns the tag paths of the twins for which the instruction is used; an empty set if that is unknown.

        path: tag path of an operation that the instruction may compute.
        """
        group, found = self._list_twins(path), set[TagPath]()
        module = self.provenance.evaluator.optimized
        pending, known = [instruction], {instruction.id}
        while pending:
            value = pending.pop()
            home = module.homes[value.id]
            users = home.users[value.id]
            if not users or value is home.root:
                return set()
            for user in users:
                used = self._list_used(user, group)
                if used:
                    found |= used
                elif user.opcode not in _TRANSPARENT:
                    return set()
                elif user.id not in known:
                    known.add(user.id)
                    pending.append(user)
        return found

    def _list_used(self, user: HloInstruction, group: set[TagPath]) -> set[TagPath]:
        """Returns the operations of the group that the user, if it is the author's operation, or a twin of it uses in
        the program. A value between them that the schedule lacks is looked through.
        """
        provenance = self.provenance
        path = provenance.evaluator.optimized.tags.get(user.id, ())
        if path not in provenance.intended.tagged:
            return set()
        here = [one for one in self.provenance.list_seen(path) if one.instruction.id == user.id]
        if not here or not all(provenance.is_authored(path, one) for one in here):
            return set()
        found: set[TagPath] = set()
        pending, known = list(self._list_twins(path)), set[TagPath]()
        while pending:
            current = pending.pop()
            for operand in provenance.intended.tagged[current].operands - known:
                known.add(operand)
                if operand in group:
                    found.add(operand)
                elif operand in provenance.intended.tagged and not any(self.provenance.list_seen(operand)):
                    pending.append(operand)
        return found
