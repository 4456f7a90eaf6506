"""Explains the copies that branches of a conditional make to the bytes of the conditional's result: copies of an
operand, or of a value that the branch computes.

All branches put a result into the same bytes. A branch that returns its operand copies it there if another branch
computes the result elsewhere, or returns another operand.
"""

from collections.abc import Iterator, Sequence

from ligerdiag.hlo.dataflow import Position
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaf_shapes
from ligerdiag.memory.copy_reason import CopyReason
from ligerdiag.memory.copy_sources import CopySources, Names
from ligerdiag.memory.moves import Move
from ligerdiag.memory.value_uses import UseRole, ValueUse, ValueUses
from ligerdiag.model.memory import CopyCause


class BranchCauses:
    """Finds the reasons for copies in the branches of one module's conditionals."""

    def __init__(self, uses: ValueUses, sources: CopySources, names: Names) -> None:
        self._uses = uses
        self._module = uses.module
        self._sources = sources
        self._names = names

    def explain_in_branch(self, move: Move, uses: Sequence[ValueUse]) -> CopyReason | None:
        """Returns the reason for a copy inside a branch. uses: the uses of the copy's result.

        Explains copies that put an operand or a computed value into a result of the branch, and copies of an operand that
        the branch then updates. Returns None for any other copy.
        """
        conditional = self._uses.find_caller(move.computation)
        if conditional is None or conditional.opcode != "conditional":
            return None
        results = [use.index for use in self._sources.follow(uses) if use.role is UseRole.RESULT]
        source = self._sources.find_source(*move.source)
        if source[0].opcode != "parameter":
            return self._explain_computed(source, conditional, results) if results else None
        if not results:
            return self._explain_updated_in_branch(move, conditional)
        mine = self._sources.find_outer_source(*move.source)
        key = mine[0].id, mine[1]
        every = {index: self._list_returned(conditional, index) for index, _ in iterate_leaf_shapes(conditional.shape)}
        others = {one for index in results for one in every.get(index, ()) if one not in (None, key)}
        elsewhere = any(key in found for index, found in every.items() if index not in results)
        if others:
            return CopyReason(
                cause=CopyCause.BRANCH_EXCHANGED,
                why=(
                    "the branches return their operands in different positions"
                    if elsewhere
                    else f"one branch returns {self._sources.describe_value(mine)}, and another branch a different array"
                ),
                subject=("branch", conditional.id),
                blamed=(conditional,),
                is_needed=not elsewhere and self._is_kept(mine, conditional),
            )
        if (crossed := self._explain_crossed_in_branch(mine, conditional, results)) is not None:
            return crossed
        return self._explain_unchanged(mine, conditional)

    def _explain_unchanged(self, mine: Position, conditional: HloInstruction) -> CopyReason:
        return CopyReason(
            cause=CopyCause.BRANCH_UNCHANGED,
            why=(
                f"a branch returns {self._sources.describe_value(mine)} unchanged, while another branch computes its result"
                " in other bytes"
            ),
            subject=("branch", conditional.id),
            blamed=(conditional,),
            is_needed=self._is_kept(mine, conditional),
        )

    def _explain_updated_in_branch(self, move: Move, conditional: HloInstruction) -> CopyReason | None:
        """Returns the reason for a copy of an operand that the branch then updates, if another branch returns the
        operand unchanged; else None.
        """
        mine = self._sources.find_outer_source(*move.source)
        root = move.computation.root
        for index, _ in iterate_leaf_shapes(root.shape):
            updated = [one for one, _ in self._sources.iterate_updated(self._sources.find_source(root, index))]
            if move.instruction in updated and (mine[0].id, mine[1]) in self._list_returned(conditional, index):
                return self._explain_unchanged(mine, conditional)
        return None

    def _explain_crossed_in_branch(
        self, value: Position, conditional: HloInstruction, results: Sequence[ShapeIndex]
    ) -> CopyReason | None:
        """Returns the reason for copying a donated argument to a result that lies in the bytes of another donated
        argument; None for any other copy.

        value: the copied value, outside of the conditional. results: those leaves of the conditional's result that the
        copy becomes.
        """
        argument = self._sources.get_argument(value)
        if argument is None or not self._sources.is_donated(*value):
            return None
        root = self._module.entry.root
        uses = [use for index in results for use in self._sources.follow(self._uses.list_uses(conditional, index))]
        for use in uses:
            taken = self._uses.find_slice(root, use.index) if use.role is UseRole.RESULT and use.user is root else None
            if taken is None or taken.allocation not in self._sources.donated.by_allocation:
                continue
            number, _ = self._uses.buffers.parameters[taken.allocation]
            if number != argument:
                mine, other = self._names.name_argument(argument), self._names.name_argument(number)
                why = f"the branches return argument {mine} as an output that has the bytes of the donated argument {other}"
                return CopyReason(cause=CopyCause.PAIRING, why=why, subject="pairing", blamed=(conditional,))
        return None

    def _explain_computed(
        self, source: Position, conditional: HloInstruction, results: Sequence[ShapeIndex]
    ) -> CopyReason | None:
        """Returns the reason for copying a value that a branch computes to the bytes of an operand that another branch
        returns; None for any other copy.

        source: the copied value, inside of the branch. results: those leaves of the conditional's result that the copy
        becomes.
        """
        every = [one for index in results for one in self._list_returned(conditional, index)]
        if not any(every):
            return None
        return CopyReason(
            cause=CopyCause.BRANCH_UNCHANGED,
            why=(
                f"`{self._sources.name(source[0])}` computes the result of one branch, but not in the bytes of the operand"
                " that another branch returns unchanged"
            ),
            subject=("branch", conditional.id),
            blamed=(source[0], conditional),
        )

    def _is_kept(self, value: Position, writer: HloInstruction) -> bool:
        """Returns whether `writer` must not overwrite a value because the value's bytes belong to the program's caller
        or the value is read later.
        """
        if self._sources.get_argument(value) is not None and not self._sources.is_donated(*value):
            return True
        times = self._uses.times
        return any(
            use.role is UseRole.RESULT
            or (use.user is not writer and times.get(use.user.id, 0) > times.get(writer.id, 0))
            for use in self._uses.list_uses(*value)
            if self._module.homes[use.user.id] is self._module.homes[writer.id]
        )

    def _list_returned(self, conditional: HloInstruction, index: ShapeIndex) -> list[tuple[int, ShapeIndex] | None]:
        """Returns, for each branch, the value from outside of the conditional that the branch returns as this result,
        as (instruction id, leaf: the index of an array in the instruction's tuple); None for a branch that computes the
        result.
        """
        found: list[tuple[int, ShapeIndex] | None] = []
        for number in conditional.called_computations:
            root = self._module.computations[number].root
            if self._sources.find_source(root, index)[0].opcode == "parameter":
                outer = self._sources.find_outer_source(root, index)
                found.append((outer[0].id, outer[1]))
            else:
                found.append(None)
        return found

    def iterate_inside(self, conditional: HloInstruction) -> Iterator[HloComputation]:
        """Yields the branches of a conditional, and the branches of all conditionals inside of these branches."""
        for number in conditional.called_computations:
            branch = self._module.computations[number]
            yield branch
            for one in branch.instructions:
                if one.opcode == "conditional":
                    yield from self.iterate_inside(one)
