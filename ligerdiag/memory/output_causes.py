"""Explains copies whose results are outputs of the program, and copies due to crosswise donation. In a crosswise donation,
JAX gives the bytes of one donated argument to an output that is computed from a second donated argument.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from ligerdiag.hlo.dataflow import Position
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.memory.copy_reason import CopyForm, CopyReason, describe_collected
from ligerdiag.memory.copy_sources import CopySources, Names, permutes
from ligerdiag.memory.moves import Move
from ligerdiag.memory.output_lines import find_element
from ligerdiag.memory.value_uses import UseRole, ValueUse, ValueUses
from ligerdiag.model.memory import CopyCause


class OutputCauses:
    """Finds the reasons for the copies in one module whose results are outputs of the program."""

    def __init__(self, uses: ValueUses, sources: CopySources, names: Names) -> None:
        self._uses = uses
        self._module = uses.module
        self._sources = sources
        self._names = names

    def explain_output(self, move: Move, uses: Sequence[ValueUse]) -> CopyReason | None:
        """Returns the reason for a copy whose result is an output of the program; None for any other copy.

        uses: the uses of the copy's result.
        """
        if move.computation is not self._module.entry:
            return None
        leaves = [index for index, _ in iterate_leaf_shapes(self._module.entry.root.shape)]
        results = [use.index for use in self._sources.follow(uses) if use.role is UseRole.RESULT]
        if not results or results[0] not in leaves:
            return None
        output = self._names.name_output(leaves.index(results[0]))
        source = self._sources.find_source(*move.source)
        argument = self._sources.get_argument(source)
        taken = self._uses.find_slice(self._module.entry.root, results[0])
        is_donated = taken is not None and taken.allocation in self._sources.donated.by_allocation
        if argument is not None:
            name = self._names.name_argument(argument)
            if taken is not None and is_donated:
                number, _ = self._uses.buffers.parameters[taken.allocation]
                if number == argument:
                    moved = self._list_transposed((move.instruction, move.index), source[0])
                    return self.explain_layout(source, moved, is_back=False) if moved else None
                other = self._names.name_argument(number)
                why = f"output {output} returns argument {name}, but in the bytes of the donated argument {other}"
                return CopyReason(cause=CopyCause.PAIRING, why=why, subject="rotated", form=CopyForm.RETURNED_ELSEWHERE)
            return self._explain_returned(output, source)
        returned = [use for use in self._uses.list_uses(*source) if use.role is UseRole.RESULT]
        if any(use.index not in results for use in returned):
            why = f"output {output} and another output return the same value, each in bytes of its own"
            return CopyReason(
                cause=CopyCause.RETURNED,
                why=why,
                subject=("returned", source[0].id),
                blamed=(find_element(self._module, source), source[0]),
                is_needed=True,
            )
        if not is_donated or taken is None:
            return None
        number, inner = self._uses.buffers.parameters[taken.allocation]
        parameter = self._module.entry.parameters[number]
        if self.is_rearranged(source, parameter):
            blamed = *self._list_transposed(source, parameter), source[0]
            return self.explain_layout((parameter, inner), blamed, is_back=move.is_transposed)
        if move.is_transposed and move.instruction.opcode != "copy":
            return None
        name = self._names.name_argument(number)
        if move.is_transposed:
            why = f"XLA computes `{self._sources.name(source[0])}` in another layout than output {output} has"
            is_needed = source[0].opcode == "custom-call"  # a library's routine has its own layout
            subject = "layout", source[0].id
            return CopyReason(
                cause=CopyCause.LAYOUT,
                why=why,
                subject=subject,
                blamed=(source[0],),
                is_needed=is_needed,
                form=CopyForm.OTHER_LAYOUT,
            )
        crossed = self._find_crossed(source, number)
        if crossed is not None:
            return self._describe_crossed(source, leaves.index(results[0]), number, crossed)
        if self.takes_apart(source[0], (parameter, inner)):
            why = describe_collected(f"argument {name}", f"output {output}")
            subject, form = ("donation", number), CopyForm.COLLECTED
            return CopyReason(cause=CopyCause.DONATION, why=why, subject=subject, blamed=(source[0],), form=form)
        why = (
            f"`{self._sources.name(source[0])}` cannot overwrite what it reads, so it computes output {output} in other"
            f" bytes, and XLA copies the output into the donated argument {name}"
        )
        blamed = find_element(self._module, source), source[0]
        return CopyReason(cause=CopyCause.DONATION, why=why, subject=("donation", number), blamed=blamed)

    def _explain_returned(self, output: str, source: Position) -> CopyReason:
        """Returns the reason for a copy of an argument that the program returns unchanged in new bytes. output: the name
        of that output. source: the argument.

        The program needs the copy if its caller keeps the argument, or if another output writes in place to the
        argument's bytes. If the other output is merely computed into these bytes, it could have bytes of its own.
        """
        parameter = source[0]
        number = parameter.proto.parameter_number
        name, subject = self._names.name_argument(number), ("returned", number)
        place = self._uses.find_slice(*source)
        other = None if place is None else self._sources.donated.by_allocation.get(place.allocation)
        if other is None:
            why = f"output {output} returns argument {name}, which the caller keeps"
            return CopyReason(cause=CopyCause.RETURNED, why=why, subject=subject, is_needed=True)
        root = self._module.entry.root
        leaf = [index for index, _ in iterate_leaf_shapes(root.shape)][other]
        value = self._sources.find_source(root, leaf)
        updated = list(self._sources.iterate_updated(value))
        return CopyReason(
            cause=CopyCause.RETURNED,
            why=f"output {output} returns argument {name}, but output {self._names.name_output(other)} has taken its bytes",
            subject=subject,
            blamed=(find_element(self._module, value), value[0]),
            is_needed=value[0].opcode == "conditional" or updated[-1][0] is parameter,
            form=CopyForm.RETURNED_AFTER,
        )

    def explain_layout(self, source: Position, blamed: Sequence[HloInstruction], *, is_back: bool) -> CopyReason:
        value = self._sources.describe_value(source)
        return CopyReason(
            cause=CopyCause.LAYOUT,
            why=(
                f"XLA keeps {value} in another layout than that in which it is passed in, and copies it there and back"
                if is_back
                else f"{value} is returned in another layout than that in which it is passed in, so it is copied twice"
            ),
            subject=("layout", source[0].id, source[1]),
            blamed=tuple(blamed),
            form=CopyForm.OTHER_LAYOUT if is_back else CopyForm.PLAIN,
        )

    def _find_crossed(self, source: Position, number: int) -> int | None:
        """Returns the number of a donated argument other than `number` from which an output is computed; None if there is
        none. source: the value of the output. number: the donated argument in whose bytes the output is.
        """
        first = self._sources.get_argument(list(self._sources.iterate_updated(source))[-1])
        if first is not None and first != number and first in self._sources.donated.numbers:
            return first
        return self._sources.donated.find_crossed(source, number)

    @cached_property
    def crossed(self) -> Mapping[int, int]:
        """Returns the outputs of crosswise donations by number of the argument. Both arguments of a donation are keys:
        the one whose bytes the output has, and the one from which the output is computed.
        """
        found: dict[int, int] = {}
        root = self._module.entry.root
        leaves = [index for index, _ in iterate_leaf_shapes(root.shape)]
        for allocation, output in self._sources.donated.by_allocation.items():
            number = self._uses.buffers.parameters[allocation][0]
            other = self._find_crossed(self._sources.find_source(root, leaves[output]), number)
            if other is not None:
                found.setdefault(number, output)
                found.setdefault(other, output)
        return found

    def explain_crossed(self, writer: HloInstruction) -> CopyReason | None:
        """Returns the reason for a copy that a crosswise donation causes. writer: the instruction that computes the
        output of the donation. Returns None if it computes no such output.
        """
        for allocation, number in self._sources.donated.by_allocation.items():
            leaf = [index for index, _ in iterate_leaf_shapes(self._module.entry.root.shape)][number]
            source = self._sources.find_source(self._module.entry.root, leaf)
            parameter = self._uses.buffers.parameters[allocation][0]
            crossed = self._find_crossed(source, parameter) if source[0] is writer else None
            if crossed is not None:
                return self._describe_crossed(source, number, parameter, crossed)
        return None

    def _describe_crossed(self, value: Position, output: int, parameter: int, crossed: int) -> CopyReason:
        why = (
            f"output {self._names.name_output(output)} has the bytes of the donated argument"
            f" {self._names.name_argument(parameter)}, but is computed from {self._names.name_argument(crossed)}, which is"
            " donated, too"
        )
        blamed = find_element(self._module, value), value[0]
        return CopyReason(cause=CopyCause.PAIRING, why=why, subject="pairing", blamed=blamed)

    def takes_apart(self, loop: HloInstruction, position: Position) -> bool:
        """Returns whether an array is an element of a loop's state that no iteration changes. An example is the array
        `xs` of a `scan`: each iteration reads one slice of it. position: the array.
        """
        if loop.opcode != "while":
            return False
        kept = self._module.computations[loop.called_computations[0]].kept_elements
        return any(
            use.user is loop and use.index[:1] and use.index[0] in kept for use in self._uses.list_uses(*position)
        )

    def is_rearranged(self, source: Position, parameter: HloInstruction) -> bool:
        values = list(self._sources.iterate_updated(source))
        return values[-1][0] is parameter and bool(self._list_transposed(source, parameter))

    def _list_transposed(self, source: Position, parameter: HloInstruction) -> tuple[HloInstruction, ...]:
        """Returns the values between an argument and an output whose elements have another order in memory."""
        return tuple([
            one
            for one, index in self._sources.iterate_updated(source)
            if one.opcode == "transpose"
            or ((move := self._sources.moves.get((one.id, index))) is not None and move.is_transposed)
            or (one is not parameter and permutes(self._module, one))
        ])  # fmt: skip
