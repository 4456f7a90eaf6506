"""Explains each copy of a schedule: what forces it, who is responsible, and whether the program needs it.

XLA's copies have no source line and no reason. Both follow from where the value comes from, where the copy goes, and
who else uses the value (`value_uses`). XLA makes a copy:

- to keep the old value for a reader after a write: one copy takes the value away from its bytes, and another copy
  may bring it back;
- in a branch, of an operand that the branch returns, if the other branches put the result into other bytes or return
  another operand there; or of a result that the branch computes elsewhere while another branch returns its operand;
- at the end of a loop's body, if the next value of the state was computed elsewhere or is another element of the state;
- before a write in place, if the value belongs to the caller, is a constant, is also the operand of another write in
  place, or is read later;
- at the end of the program, if the bytes of a donated argument get a value that was computed elsewhere;
- if the next value is computed in the bytes of a donated argument or of a loop's state while the old value is still
  read.

A copy whose result is copied again, directly or after updates in place, has the cause of that next copy. A copy is
*needed* if the program reads all of the old value after the write and depends on the new value, if the caller keeps an
argument that is returned, if the program starts two writes in place from one computed value, or if a branch selects an
array that stays in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ligerdiag.hlo.dataflow import Position, list_operands, look_through, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaf_shapes
from ligerdiag.memory.branch_causes import BranchCauses
from ligerdiag.memory.copy_reason import UNEXPLAINED, CopyForm, CopyReason, describe_collected
from ligerdiag.memory.copy_sources import CopySources, Names
from ligerdiag.memory.donated_outputs import measure
from ligerdiag.memory.moves import Move
from ligerdiag.memory.output_causes import OutputCauses
from ligerdiag.memory.value_uses import ASYNC_STARTS, UPDATES, OldValues, UseRole, ValueUse, ValueUses
from ligerdiag.model.memory import CopyCause

_VIEWS = having(Trait.MAKES_TUPLE) | {"bitcast"}
_COLLECTIVES = having(Trait.COLLECTIVE)
_ELSEWHERE = (having(Trait.REARRANGES, Trait.REDUCES, Trait.IN_PLACE) | {"transpose"}) - {"broadcast"}
"""Operations that compute an element of the result from operand elements at other positions."""
_CHEAP = 8
"""A value is cheap to compute again if it has at least this many times as many bytes as all its operands together."""
_CHEAP_OPCODES = having(Trait.FROM_NOTHING) | {"broadcast"}
_BROUGHT_BACK = (CopyCause.READ_LATER, CopyCause.RETURNED, CopyCause.EQUAL_VALUES)
"""Causes of a copy that takes a value away from its bytes. A later copy may bring the value back before anything has
overwritten these bytes. The later copy then changes nothing.
"""
_MOST_STEPS = 64


class CopyCauses:
    """Finds the reason for each copy in one module."""

    def __init__(self, uses: ValueUses, moves: Sequence[Move], names: Names) -> None:
        self.sources = CopySources(uses, moves, names)
        self._uses = uses
        self._module = uses.module
        self._names = names
        self._old = OldValues(uses)
        self._branches = BranchCauses(uses, self.sources, names)
        self._outputs = OutputCauses(uses, self.sources, names)
        self._known: dict[tuple[int, ShapeIndex], CopyReason] = {}

    @cached_property
    def _round_trips(self) -> tuple[tuple[Move, Move], ...]:
        """Returns pairs of copies: the first takes a value away, the second brings it back to the bytes from which the
        first one copied it.
        """
        found: list[tuple[Move, Move]] = []
        for move in self.sources.moves.values():
            earlier = self.sources.find_copied(*move.source)
            for _ in range(_MOST_STEPS):
                if earlier is None:
                    break
                if earlier.source_place == move.target_place:
                    found.append((earlier, move))
                    break
                earlier = self.sources.find_copied(*earlier.source)
        return tuple(found)

    @cached_property
    def _returns(self) -> Mapping[tuple[int, ShapeIndex], Move]:
        """Maps each copy (by instruction id and leaf, the index of an array in a tuple) to the last copy that brings
        its value back to the bytes from which it was copied.
        """
        return {(away.instruction.id, away.index): back for away, back in self._round_trips}

    @cached_property
    def _brought_back(self) -> Mapping[tuple[int, ShapeIndex], Move]:
        """Maps each copy (by instruction id and leaf) that brings a value back, to the copy that took the value away."""
        return {(back.instruction.id, back.index): away for away, back in self._round_trips}

    def explain(self, move: Move) -> CopyReason:
        """Returns the reason for a copy: its cause, whether the program needs it, and who is responsible."""
        key = move.instruction.id, move.index
        known = self._known.get(key)
        if known is None:
            self._known[key] = UNEXPLAINED  # the answer in a circle of copies, which ends there
            known = self._known[key] = self._see_in_loop(move, self._find_reason(move))
        return known

    def _find_reason(self, move: Move) -> CopyReason:
        key = move.instruction.id, move.index
        if key in self._returns and (found := self._explain_saved(move, self._list_readers(move))) is not None:
            return found
        if (back := self._returns.get(key)) is not None:
            written = [self._list_writers(one) for one in (move, back)]
            if all(written):
                return self._explain_equal(self.sources.find_source(*move.source), written[0][0])
        if (taken := self._brought_back.get(key)) is not None:
            reason = self.explain(taken)
            if reason.cause in _BROUGHT_BACK and not self._is_overwritten_between(taken, move):
                return replace(
                    reason,
                    cause=CopyCause.READ_LATER,
                    why=f"{reason.why}; this copy brings the unchanged value back to the bytes that it came from",
                    is_needed=False,
                    is_round_trip=True,
                )
        uses = self._uses.list_uses(move.instruction, move.index)
        if move.is_update:
            uses = [ValueUse(role=UseRole.OVERWRITTEN, user=move.instruction, index=()), *uses]
        explained = (
            self._branches.explain_in_branch(move, uses)
            or self._explain_after_branch(move)
            or self._explain_brought_home(move)
            or self._explain_carry(move, uses)
            or self._explain_overwritten(move, [use for use in uses if use.needs_bytes])
            or self._outputs.explain_output(move, uses)
            or self._explain_next(uses)
            or self._explain_saved(move, [use.user for use in uses if use.role is UseRole.READ])
            or self._explain_detour(move)
            or self._explain_kept(move)
            or self._explain_replaced(move, uses)
        )
        if explained is not None:
            return explained
        users = tuple([self.sources.find_fused_reader(use.user, move.source) for use in uses])
        if move.is_transposed:
            return CopyReason(
                cause=CopyCause.LAYOUT,
                why=(
                    "its reader needs another layout than"
                    f" {self.sources.describe_value(self.sources.find_source(*move.source))} has"
                ),
                subject=move.instruction.id,
                blamed=users,
                is_needed=True,
            )
        return replace(UNEXPLAINED, subject=move.instruction.id, blamed=(move.source[0], *users))

    def _list_readers(self, move: Move) -> list[HloInstruction]:
        """Returns the readers of the copied value that are not copies themselves."""
        return [
            use.user
            for use in self._uses.list_uses(move.instruction, move.index)
            if use.role is UseRole.READ and not self.sources.is_copy(use.user)
        ]

    def _explain_saved(self, move: Move, readers: Sequence[HloInstruction]) -> CopyReason | None:
        """Returns the reason for a copy that saves a value for `readers` because an operation updates the value in place,
        or a loop or conditional takes it over, in the value's own bytes; None for any other copy.

        readers: the readers of the copy's result.
        """
        readers = [one for one in readers if not self.sources.is_copy(one)]
        origin = self._uses.find_origin(*move.source)
        writers = [use.user for use in self._uses.list_uses(*origin) if use.needs_bytes]
        back = self._returns.get((move.instruction.id, move.index))
        if back is not None:
            for use in self._uses.list_uses(back.instruction, back.index):
                if use.needs_bytes:
                    writers.append(use.user)
            caller = self._uses.find_caller(back.computation)
            if caller is not None and back.computation is not move.computation:
                writers.append(caller)
        if not readers or not writers:
            return None
        return self._explain_read_later(origin, writers, readers)

    def _explain_read_later(
        self, origin: Position, writers: Sequence[HloInstruction], readers: Sequence[HloInstruction]
    ) -> CopyReason:
        home = self._module.homes[origin[0].id]
        writers = [one for one in writers if self._module.homes[one.id] is home] or list(writers)
        dependent = [
            reader
            for reader in readers
            if any(self._module.homes[reader.id] is self._module.homes[writer.id] for writer in writers)
            and any(self._uses.depends_on(reader, writer) for writer in writers)
        ]
        is_part = all(self._uses.reads_part(reader, origin) for reader in readers)
        is_needed = bool(dependent) and not is_part
        shown = self.sources.find_fused_reader(
            (dependent if is_needed else readers)[0], origin, writers if is_needed else ()
        )
        reader, writer = self.sources.name(shown), self.sources.name(writers[0])
        value = self.sources.describe_value(origin)
        old = f"the old value of {value}"
        end = "depends on the new value" if is_needed else "does not need the new value"
        form = CopyForm.NEEDS_BOTH if is_needed else CopyForm.PLAIN
        if is_part:
            why = f"`{reader}` reads a part of {old} after `{writer}` overwrites it"
        elif shown.opcode in ASYNC_STARTS:
            why = f"`{reader}`, which runs asynchronously, still reads {old} when `{writer}` overwrites it, and {end}"
        elif self._repeats_update(shown):
            form = CopyForm.REPEATED_UPDATE
            why = (
                f"XLA repeats `{writer}` in `{reader}`, which therefore reads {old} after it is overwritten, and {end}"
            )
        else:
            why = f"`{reader}` reads {old} after `{writer}` overwrites it, and {end}"
        return CopyReason(
            cause=CopyCause.READ_LATER,
            why=why,
            subject=("read later", origin[0].id, origin[1]),
            blamed=tuple(dict.fromkeys((shown, *readers, *writers))),
            is_needed=is_needed,
            form=form,
        )

    def _reads_elsewhere(self, written: Position, operand: HloInstruction) -> bool:
        """Returns whether an element of the written value is computed from operand elements at other positions."""
        writer, index = written
        if writer.opcode != "fusion":
            return True
        fused = self._module.computations[writer.called_computations[0]]
        root = fused.root.operands[index[0]] if index and fused.root.opcode == "tuple" else fused.root
        given = [one for one in fused.parameters if writer.operands[one.proto.parameter_number] is operand]
        needed, reached = search([root], list_operands), search(given, lambda one: fused.users[one.id])
        return any(one.opcode in _ELSEWHERE for one in needed.keys() & reached.keys())

    def _repeats_update(self, reader: HloInstruction) -> bool:
        """Returns whether a reader is a fusion that contains an update in place: XLA computes the update again where
        its result is read.
        """
        if reader.opcode != "fusion":
            return False
        return any(
            one.opcode in UPDATES for one in self._module.computations[reader.called_computations[0]].instructions
        )

    def _explain_replaced(self, move: Move, uses: Sequence[ValueUse]) -> CopyReason | None:
        """Returns the reason for a copy of a donated argument, or of a loop's state, whose bytes the next value takes over
        (see `_find_successor`) although its writer or a later instruction reads the old one; None for any other copy.

        Covers writers that compute a new value, unlike `_explain_saved`, which covers updates of the old one in place.
        uses: the uses of the copy's result.
        """
        origin = self._uses.find_origin(*move.source)
        successor = None if move.is_transposed else self._find_successor(origin)
        if successor is None:
            return None
        written = self.sources.find_source(*successor)
        writer = written[0]
        readers = [use.user for use in uses if use.role is UseRole.READ and not self.sources.is_copy(use.user)]
        time = self._uses.times.get(writer.id, 0)
        later = [one for one in readers if one is not writer and self._old.find_end(one) > time]
        is_exchange = self._uses.find_started(writer).opcode in _COLLECTIVES
        cannot_overwrite = writer in readers and (is_exchange or self._reads_elsewhere(written, move.instruction))
        if later and not cannot_overwrite:
            return self._explain_read_later(origin, [writer], later)
        if not cannot_overwrite and (crossed := self._outputs.explain_crossed(writer)) is not None:
            return crossed
        if writer not in readers:
            return None
        return CopyReason(
            cause=CopyCause.DONATION if move.computation is self._module.entry else CopyCause.CARRY_REBUILT,
            why=(
                f"`{self.sources.name(writer)}` cannot overwrite {self.sources.describe_value(origin)}, which it"
                f" {'moves to another device' if is_exchange else 'reads at other indices' if cannot_overwrite else 'reads'}"
            ),
            subject=("replaced", origin[0].id, origin[1]),
            blamed=(writer,),
        )

    def _find_successor(self, origin: Position) -> Position | None:
        """Returns the value that takes over the bytes of `origin`: the output in a donated argument's bytes, or the
        next value of an element of a loop's state.
        """
        value, index = origin
        if value.opcode != "parameter":
            return None
        home = self._module.homes[value.id]
        if home is self._module.entry:
            place = self._uses.find_slice(value, index)
            number = None if place is None else self.sources.donated.by_allocation.get(place.allocation)
            if number is None:
                return None
            return home.root, [leaf for leaf, _ in iterate_leaf_shapes(home.root.shape)][number]
        loop = self._uses.find_caller(home)
        if loop is None or loop.opcode != "while" or loop.called_computations[0] != home.id:
            return None
        return home.root, index

    def _explain_after_branch(self, move: Move) -> CopyReason | None:
        """Returns the reason for a copy of a conditional's result: the same as for the copies in the branches; None for
        any other copy.
        """
        conditional = self.sources.find_source(*move.source)[0]
        if conditional.opcode != "conditional":
            return None
        inside = {id(one) for one in self._branches.iterate_inside(conditional)}
        for one in [one for one in self.sources.moves.values() if id(one.computation) in inside]:
            reason = self.explain(one)
            if reason.cause in (CopyCause.BRANCH_UNCHANGED, CopyCause.BRANCH_EXCHANGED, CopyCause.PAIRING):
                return replace(reason, is_needed=False)
        return None

    def _explain_carry(self, move: Move, uses: Sequence[ValueUse]) -> CopyReason | None:
        """Returns the reason for a copy in a loop's body that becomes the next value of the loop's state; None for any
        other copy. uses: the uses of the copy's result.
        """
        loop = self._uses.find_caller(move.computation)
        if loop is None or loop.opcode != "while" or loop.called_computations[0] != move.computation.id:
            return None
        elements = [use.index for use in self.sources.follow(uses) if use.role is UseRole.RESULT]
        if not elements:
            return None
        value, index = self.sources.find_source(*move.source)
        subject = "carry", loop.id
        if value is move.computation.parameters[0]:
            if index in elements:
                return None
            why = "the loop returns one element of its state in the position of another one"
            return CopyReason(cause=CopyCause.CARRY_EXCHANGED, why=why, subject=subject, blamed=(loop, value))
        first, element = list(self.sources.iterate_updated((value, index)))[-1]
        if first is move.computation.parameters[0] and element not in elements:
            why = (
                f"the loop returns one element of its state, to which `{self.sources.name(value)}` writes, in the position"
                " of another one"
            )
            return CopyReason(cause=CopyCause.CARRY_EXCHANGED, why=why, subject=subject, blamed=(loop, value))
        returned = [use.index for use in self._uses.list_uses(value, index) if use.role is UseRole.RESULT]
        if any(one not in elements for one in returned):
            why = f"`{self.sources.name(value)}` becomes two elements of the loop's state, each in bytes of its own"
            blamed = (value, loop)
            return CopyReason(
                cause=CopyCause.EQUAL_VALUES, why=why, subject=("equal", value.id, index), blamed=blamed, is_needed=True
            )
        form, why = self._describe_rebuilt(value, elements[0], move)
        blamed = value, *value.operands, loop
        return CopyReason(cause=CopyCause.CARRY_REBUILT, why=why, subject=subject, blamed=blamed, form=form)

    def _describe_rebuilt(self, value: HloInstruction, element: ShapeIndex, move: Move) -> tuple[CopyForm, str]:
        name = self.sources.name(value)
        if self._outputs.takes_apart(value, (move.computation.parameters[0], element)):
            return CopyForm.COLLECTED, describe_collected("an element of the outer loop's state", "the next one")
        aliases = value.operand_output_aliases
        if value.opcode == "custom-call" and aliases:
            numbers = ", ".join(str(number) for number in sorted(aliases))
            why = f"`{name}` writes into the bytes of its operand {numbers}, which are not those of the loop's state"
            return CopyForm.ALIASED_ELSEWHERE, why
        return CopyForm.PLAIN, (
            f"`{name}` computes the next value of the state in other bytes, because it still reads the old value at other"
            " indices"
        )

    def _explain_overwritten(self, move: Move, writers: Sequence[ValueUse]) -> CopyReason | None:
        """Returns the reason for a copy that is made because one of `writers` would overwrite the value in place; None for
        any other copy, and without writers.
        """
        if not writers:
            return None
        writer = writers[0].user
        origin = self._uses.find_origin(*move.source)
        source = self.sources.find_source(*move.source)
        argument = self.sources.get_argument(source)
        name = self.sources.name(writer)
        if argument is not None and not self.sources.is_donated(*source) and not move.is_transposed:
            copies = [one for one in self.sources.list_copies(source) if self._is_overwritten_later(one)]
            if self.sources.is_copy(origin[0]) or (move in copies and move is not copies[0]):
                return self._explain_equal(source, writer)
            return CopyReason(
                cause=CopyCause.UNDONATED,
                why=f"`{name}` overwrites argument {self._names.name_argument(argument)}, which the caller keeps",
                subject=("argument", argument),
                blamed=(writer, *self._list_after(writer)),
            )
        if source[0].opcode == "constant":
            return CopyReason(
                cause=CopyCause.CONSTANT,
                why=f"`{name}` overwrites a constant of the program",
                subject=("constant", source[0].id),
                blamed=(writer, *self._list_after(writer)),
            )
        others = [
            use for use in self._uses.list_uses(*origin) if use.user is not move.instruction and use.user is not writer
        ]
        same = [use for use in self._uses.list_uses(*origin) if use.user is writer and use.needs_bytes]
        if same or any(use.needs_bytes for use in others):
            return self._explain_equal(source, writer)
        if any(self.sources.is_copy(use.user) for use in others if use.role is UseRole.READ):
            shared = [one for one in self.sources.list_copies(origin) if one is not move]
            if any(self._is_overwritten_later(one) for one in shared):
                return self._explain_equal(source, writer)
        readers = [use.user for use in others if use.role is UseRole.READ and self._is_after(use.user, writer)]
        if readers:
            return self._explain_read_later(origin, [writer], readers)
        if any(use.role is UseRole.RESULT for use in others):
            return CopyReason(
                cause=CopyCause.READ_LATER,
                why=f"`{name}` overwrites {self.sources.describe_value(origin)}, but the program also returns its old value",
                subject=("read later", origin[0].id, origin[1]),
                blamed=(writer, origin[0]),
                is_needed=True,
            )
        if move.is_transposed and argument is not None and self._is_returned_rearranged(source):
            back = self._find_successor(source)
            return self._outputs.explain_layout(
                source, (move.instruction, writer), is_back=back is not None and self._is_transposed(back)
            )
        return None

    def _is_transposed(self, position: Position) -> bool:
        """Returns whether the value is made by a copy that moves its elements into another order."""
        origin = self._uses.find_origin(*position)
        move = self.sources.moves.get((origin[0].id, origin[1]))
        return move is not None and move.is_transposed

    def _is_returned_rearranged(self, argument: Position) -> bool:
        successor = self._find_successor(argument)
        return successor is not None and self._outputs.is_rearranged(self.sources.find_source(*successor), argument[0])

    def _is_overwritten_later(self, move: Move) -> bool:
        return bool(self._list_writers(move))

    def _list_writers(self, move: Move) -> list[HloInstruction]:
        """Returns the operations that overwrite the result of a copy."""
        return [use.user for use in self._uses.list_uses(move.instruction, move.index) if use.needs_bytes]

    def _is_after(self, one: HloInstruction, other: HloInstruction) -> bool:
        return self._old.find_end(one) > self._uses.times.get(other.id, 0)

    def _list_after(self, writer: HloInstruction) -> tuple[HloInstruction, ...]:
        """Returns instructions inside of a writer that is a loop, a conditional or a fusion: if the writer has no source
        line, the report shows the line of one of these.
        """
        found: list[HloInstruction] = []
        for number in writer.called_computations:
            found += [one for one in self._module.computations[number].instructions if one.op_name]
        return tuple(found[-4:])

    def _explain_equal(self, source: Position, writer: HloInstruction) -> CopyReason:
        value = source[0]
        size = sum(measure(operand) for operand in value.operands)
        is_cheap = _find_operation(self._module, value).opcode in _CHEAP_OPCODES or _CHEAP * size <= measure(value)
        is_given = value.opcode == "parameter"
        return CopyReason(
            cause=CopyCause.EQUAL_VALUES,
            why=(
                f"two operations write in place to {self.sources.describe_value(source)}"
                if is_given
                else f"XLA computes `{self.sources.name(value)}` once, and two operations write in place to its result"
            ),
            subject=("equal", value.id, source[1]),
            blamed=(value, *value.operands, writer),
            is_needed=is_given or not is_cheap,
        )

    def _find_away(self, back: Move) -> Move | None:
        """Returns the earlier copy that took a value away from the bytes to which the copy `back` brings an update of
        it; None if there is none.
        """
        for value, index in self.sources.iterate_updated(back.source):
            away = self.sources.moves.get((value.id, index))
            if away is not None and not away.is_update and away.source_place == back.target_place:
                return away
        return None

    def _explain_brought_home(self, move: Move) -> CopyReason | None:
        """Returns the reason for a copy that brings an updated value back to the bytes of the old one: the same as for
        the copy that took the old value away; None for any other copy.
        """
        away = self._find_away(move)
        reason = None if away is None else self.explain(away)
        if reason is None or reason.cause not in (CopyCause.READ_LATER, CopyCause.CARRY_REBUILT):
            return None
        return replace(reason, is_needed=False)

    def _see_in_loop(self, move: Move, reason: CopyReason) -> CopyReason:
        """Returns `reason`, with the cause CARRY_REBUILT if `move` is a copy in a loop's body and another copy brings
        an update of the copied value back into the loop's state.
        """
        loop = self._uses.find_caller(move.computation)
        if reason.cause is not CopyCause.READ_LATER or loop is None or loop.opcode != "while":
            return reason
        inside = [one for one in self.sources.moves.values() if one.computation is move.computation]
        returned = [one for one in inside if self._find_away(one) is move and self._list_results(one)]
        if not returned:
            return reason
        return replace(reason, cause=CopyCause.CARRY_REBUILT, subject=("carry", loop.id), is_needed=False)

    def _list_results(self, move: Move) -> list[ShapeIndex]:
        uses = self._uses.list_uses(move.instruction, move.index)
        return [use.index for use in self.sources.follow(uses) if use.role is UseRole.RESULT]

    def _is_overwritten_between(self, away: Move, back: Move) -> bool:
        """Returns whether another instruction writes to a value's bytes between the copy away from them and the copy
        back, both in one computation.
        """
        if away.computation is not back.computation:
            return False
        times = self._uses.times
        start, end = times[away.instruction.id], times[back.instruction.id]
        return any(self._old.list_writers(away.computation, *away.source, after=start, until=end - 1))

    def _explain_detour(self, move: Move) -> CopyReason | None:
        """Returns the reason for a copy whose result is copied again, directly or after updates in place: the same as
        for the next copy; None for any other copy.
        """
        pending, seen = [(move.instruction, move.index)], set[tuple[int, ShapeIndex]]()
        while pending:
            value, index = pending.pop()
            if (value.id, index) in seen:
                continue
            seen.add((value.id, index))
            for use in self._uses.list_uses(value, index):
                following = self.sources.moves.get((use.user.id, ())) if use.role is UseRole.READ else None
                if following is not None and (reason := self.explain(following)).cause is not CopyCause.UNKNOWN:
                    return reason
                if use.role is UseRole.STATE:
                    pending.append((use.user, use.index))
                elif use.role is UseRole.OVERWRITTEN:
                    pending += [
                        (use.user, result)
                        for result, _ in iterate_leaf_shapes(use.user.shape)
                        if self._uses.find_slice(use.user, result) == move.target_place
                    ]
        return None

    def _explain_kept(self, move: Move) -> CopyReason | None:
        """Returns the reason for a copy of an old value into whose bytes, by the schedule, any instruction writes before the
        last reader of the copy has run (see `OldValues`); None for any other copy. `explain` asks this only after
        `_explain_saved`, which knows the reason for a write in place.
        """
        copied = move.instruction, move.index
        start = self._uses.times[move.instruction.id]
        last = self._old.find_last_use(*copied)
        writers = list(self._old.list_writers(move.computation, *move.source, after=start, until=last))
        readers = [use.user for use in self._uses.list_uses(*copied) if use.role is not UseRole.RESULT]
        if not writers or not readers:
            return None
        for writer in writers:
            other = self.sources.moves.get((writer.id, ()))
            if other is not None and (reason := self.explain(other)).cause is not CopyCause.UNKNOWN:
                return reason
        source = self.sources.find_source(*move.source)
        loop = self._uses.find_caller(move.computation)
        if loop is not None and loop.opcode == "while" and source[0] is move.computation.parameters[0]:
            exchanges = [one for one in writers if self._uses.find_started(one).opcode in _COLLECTIVES]
            why = (
                f"`{self.sources.name(exchanges[0])}` cannot overwrite the loop's state, which it moves to another device"
                if exchanges
                else f"`{self.sources.name(writers[0])}` writes to the bytes of the loop's state while"
                f" `{self.sources.name(readers[-1])}` still reads the old state"
            )
            return CopyReason(
                cause=CopyCause.CARRY_REBUILT,
                why=why,
                subject=("carry", loop.id),
                blamed=(*writers, *readers, loop),
            )
        argument = self.sources.get_argument(source)
        if argument is None or not self.sources.is_donated(*source):
            return None
        if readers_after := [one for one in readers if self._is_after(one, writers[-1])]:
            return self._explain_read_later(source, writers[-1:], readers_after)
        if (output := self._outputs.crossed.get(argument)) is not None:
            why = (
                f"output {self._names.name_output(output)} has the bytes of one donated argument, but is computed from"
                " another donated argument"
            )
            return CopyReason(cause=CopyCause.PAIRING, why=why, subject="pairing", blamed=(*writers, *readers))
        name = self._names.name_argument(argument)
        return CopyReason(
            cause=CopyCause.DONATION,
            why=(
                f"`{self.sources.name(writers[-1])}` writes to the bytes of the donated argument {name} while"
                f" `{self.sources.name(readers[-1])}` still reads it, so XLA copies the argument first"
            ),
            subject=("donation", argument),
            blamed=(*reversed(writers), *readers),
        )

    def _explain_next(self, uses: Sequence[ValueUse]) -> CopyReason | None:
        """Returns the reason for another copy that reads the result of this one; None if there is no such copy, or it
        has no known cause.
        """
        for use in uses:
            following = self.sources.moves.get((use.user.id, ())) if use.role is UseRole.READ else None
            if following is not None:
                reason = self.explain(following)
                if reason.cause is not CopyCause.UNKNOWN:
                    return reason
        return None


def _find_operation(module: HloModule, value: HloInstruction) -> HloInstruction:
    """Returns the last operation of a fusion, looking through tuples and bitcasts; for any other instruction, the
    instruction itself.
    """
    if value.opcode != "fusion":
        return value
    return look_through(module.computations[value.called_computations[0]].root, _VIEWS)
