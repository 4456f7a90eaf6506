"""Finds out which operation of the program computes each operand of an optimized instruction, and on which hidden
writes the operand depends (its dependence set).

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

The verdict compares an operand with the intended one, so the two must be matched. An operand is recognised by its tag, the
number that ligerdiag gave each operation before the compile. The operand, or the value that a fusion gets for it, must have
the tag of the intended operation; bitcasts and get-tuple-elements in between do not count. There are exceptions:

- XLA merges operations with the same value (twins, see `provenance.value_numbers`), and merges an operation with another one
  that only reshapes its result or takes one of a kernel's results: an operand with the tag of either is recognised. An
  operand with the tag of one of the author's barriers is recognised as a value that goes through the barrier. XLA may name a
  collective after a barrier across which it moved the value.
- An element of a loop's state has no tag: if the program and the schedule both have one as the same operand of the
  operation, they count as the same.
- An argument of the program needs no tag: XLA merges it with nothing.
- XLA may replace an operand by another operation of the author that has the same value, in a way that the twins do not
  show. An operand of a sum or product that depends on no hidden write may therefore be any operation.
- XLA may move a scalar factor to the other operand of a product. The operand is then `x` instead of `x * s`. The same
  holds for terms of a sum, and for casts and reshapes, which XLA may omit.
- A slice of a joined product (one product that XLA made of several) carries the name of one of them. It is recognised
  as this product only if none of the joined products depends on a hidden write, because nothing says which slice
  belongs to which product.

An instruction is the author's operation if its own name, and not only its metadata, comes from that operation. The
partitioner gives new names, such as `dot.2` for a `dot_general`, and keeps only the metadata; but passes also copy the
metadata to instructions that compute something else. So an instruction with only the metadata is the author's operation
if each operand that depends on a hidden write comes from the intended operation. A slice or a collective that XLA has moved
behind its users keeps its name, and is not the author's operation any more (see `moved_operations`); its users read its
operand instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ligerdiag.analysis.evaluated_pair import Evaluator
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import Actual, Occurrence
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.program_order import CARRIED, Intended, TaggedSet
from ligerdiag.analysis.verdict.moved_operations import MovedOperations
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.provenance.value_numbers import Twins, find_twins

_NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
RENAMED = PassThrough(bitcasts=True, tuples=True, fusions=True)
"""The operations through which a value is followed to its definition: they leave the value's bytes in place."""
_WHOLE = PassThrough(bitcasts=True, tuples=True, arguments=True, asynchronous=True)
_GATHERS = having(Trait.GATHERS)
_COMMUTATIVE, _BARRIERS = having(Trait.COMMUTES), having(Trait.BARRIER)

type OperandEdge = tuple[TagPath, Labels]
"""An operand: (tag path of the operation that computes it, or () if that is unknown; its dependence set)."""
_SLICES = frozenset({"slice", "dynamic-slice"})
"""Opcodes of slices. An evaluation may record no dependence set for a slice although it depends on a hidden write."""
_UNTOUCHED: OperandEdge = (), 0
"""Describes an operand that depends on no hidden write."""
_EXCHANGED, _RESHAPES_AND_CASTS = having(Trait.EXCHANGED), having(Trait.SAME_ELEMENTS, Trait.CASTS)
_RESHAPES = having(Trait.SAME_ELEMENTS)
_ANY_ORDER = having(Trait.COMMUTES) | _EXCHANGED
_FACTORS, _TERMS = having(Trait.MULTIPLIES), having(Trait.ADDS)
_NOTHING = frozenset[str]()
UNSEEN: OperandEdge = (), -1
"""Describes an operand whose operation and dependence set are both unknown."""


@dataclass(frozen=True, eq=False)
class OperandProvenance:
    """Finds out which operation of the program computes each operand of an optimized instruction."""

    intended: Intended
    actual: Actual
    evaluator: Evaluator

    def recognise(self, path: TagPath, occurrence: Occurrence) -> list[OperandEdge]:
        """Returns (tag path of the program's operation that computes it, dependence set) for each operand of an
        instruction. Returns `UNSEEN` for an operand if neither is known.

        path: tag path of the operation that the instruction computes.
        """
        tagged = self.intended.tagged[path]
        known = [
            _UNTOUCHED if self._is_untouched(operand, tagged) else self._recognise(operand, occurrence)
            for operand in occurrence.instruction.operands
        ]
        # XLA made an operand that has the operation's own tag on the way to the operation
        return [UNSEEN if one == path else (self._look_through(one, tagged), labels) for one, labels in known]

    def list_seen(self, path: TagPath) -> Iterator[Occurrence]:
        """Yields the instructions that may compute an operation. They have its tag, and its opcode or that of a custom call
        that may implement it.
        """
        opcode = self.intended.tagged[path].opcode
        for one in self.actual.occurrences.get(path, ()):
            if is_same_operation(opcode, one.instruction):
                yield one

    def operands_match(self, path: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether all operands that depend on a hidden write come from the intended operations. False if no operand
        depends on a hidden write.
        """
        tagged = self.intended.tagged[path]
        if len(tagged.edges) != len(occurrence.instruction.operands):
            return False
        operands = self.recognise(path, occurrence)
        known = unite(labels for _, labels in operands if labels != UNSEEN[1])
        if occurrence.labels & ~known & ~self.evaluator.carried.get(occurrence.instruction.id, 0):
            return False  # as if two products are joined
        return self._fits(tagged, operands)

    def is_authored(self, path: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether the instruction is the author's operation with this tag path. False if a pass made the
        instruction, and gave it the operation's metadata.
        """
        if self.evaluator.is_authored(path, occurrence.instruction):
            one = occurrence.instruction
            return not self.moved.is_moved(path, one) and not self.evaluator.computes_another(path, one)
        return self.operands_match(path, occurrence)

    def list_orders(
        self, tagged: TaggedSet, occurrence: Occurrence, operands: Sequence[OperandEdge]
    ) -> list[tuple[OperandEdge, ...]]:
        """Returns the orders in which XLA may have put an operation's operands. Returns [] if the operands cannot be
        distinguished.

        tagged: the operation, with its intended operands. occurrence: the instruction. operands: its recognised operands.
        """
        found: list[tuple[OperandEdge, ...]] = []
        orders = _list_orders(tagged)
        if len(orders) > 1:
            orders = [edges for edges in orders if not self._has_foreign_argument(edges, occurrence)]
        for edges in orders:
            elsewhere = [seen for (edge, _), (seen, _) in zip(edges, operands, strict=True) if seen and not edge]
            if any(edge and self._are_same_value(edge, seen) for seen in elsewhere for edge, _ in edges):
                continue
            if elsewhere and edges is not tagged.edges and tagged.opcode in _EXCHANGED:
                as_written = zip(tagged.edges, operands, strict=True)
                if any(edge and seen and self.may_replace(seen, edge, tagged) for (edge, _), (seen, _) in as_written):
                    continue
                return []
            found.append(edges)
        return found

    def _has_foreign_argument(self, edges: Sequence[OperandEdge], occurrence: Occurrence) -> bool:
        """Returns whether the instruction reads an argument of the program in place of an intended operand that is computed
        without this argument.
        """
        module = self.evaluator.optimized
        for (edge, _), operand in zip(edges, occurrence.instruction.operands, strict=True):
            if edge and edge != CARRIED:
                argument = _find_argument(find_bytes(operand, occurrence, self.evaluator)[0], module)
                if argument is not None and self.evaluator.is_foreign(edge, argument):
                    return True
        return False

    def may_replace(self, seen: TagPath, edge: TagPath, tagged: TaggedSet) -> bool:
        """Returns whether XLA may have put the operation `seen` in place of the intended operand `edge`. It may if `seen`
        is a twin of `edge` (the same value to XLA), a factor or a term of it, or a value that `edge` only casts or
        reshapes.
        """
        if self._are_same_value(edge, seen) or self.moved.is_movable_operand(edge, seen):
            return True
        chain = _FACTORS if tagged.opcode in _FACTORS else _TERMS if tagged.opcode in _TERMS else _NOTHING
        chain |= _RESHAPES_AND_CASTS
        pending, known = [edge], {edge}
        while pending:
            found = self.intended.tagged.get(pending.pop())
            above = found.operands - known if found is not None and found.opcode in chain else ()
            if any(self._are_same_value(one, seen) for one in above):
                return True
            known.update(above)
            pending += above
        return False

    def _are_same_value(self, one: TagPath, other: TagPath) -> bool:
        """Returns whether the two operations are one value to XLA: common subexpression elimination merges them (they
        are twins), or one only reshapes the other's result.
        """
        if self.twins.are_twins(one, other):
            return True
        return bool(one and other) and (self._find_source(one) == other or self._find_source(other) == one)

    def _find_source(self, path: TagPath) -> TagPath:
        """Returns the tag path of the operation whose result this one only reshapes, possibly through several reshapes;
        the given path if the operation is not a reshape.
        """
        while (found := self.intended.tagged.get(path)) and found.opcode in _RESHAPES:
            above = found.operands
            if len(above) > 1:  # with the kernels that overwrite the operand
                above -= {write.tag_path for write in self.evaluator.writes}
            if len(above) != 1:
                break
            (path,) = above
        return path

    @cached_property
    def moved(self) -> MovedOperations:
        """Returns the operations that XLA has moved behind their users."""
        return MovedOperations(self.intended, self.evaluator)

    @cached_property
    def twins(self) -> Twins:
        """Returns the groups of the program's operations that XLA takes for one value."""
        return find_twins(self.evaluator.program)

    @cached_property
    def _barriers(self) -> Mapping[int, tuple[TagPath, ...]]:
        """Maps the last tag of each of the author's optimization barriers to the tag paths of the operations whose
        results go through it.
        """
        program, found = self.evaluator.program, dict[int, tuple[TagPath, ...]]()
        flow = Dataflow(program, PassThrough(bitcasts=True, barriers=True, tuples=True))
        for one in program.instructions:
            path = program.tags.get(one.id, ())
            if one.opcode in _BARRIERS and path:
                leaves = [flow.find_definition(one, index)[0] for index in iterate_leaves(one.shape)]
                found[path[-1]] = tuple(own for leaf in leaves if (own := program.tags.get(leaf.id, ())))
        return found

    def _fits(self, tagged: TaggedSet, operands: Sequence[OperandEdge]) -> bool:
        for edges in _list_orders(tagged):
            pairs = list(zip(edges, operands, strict=True))
            is_like = [self._is_like(edge, seen) for (edge, labels), seen in pairs if labels]
            is_unlike = any(edge and seen and not self._are_same_value(edge, seen) for (edge, _), (seen, _) in pairs)
            if is_like and all(is_like) and not is_unlike:
                return True
        return False

    def _is_like(self, edge: TagPath, seen: OperandEdge) -> bool:
        """Returns whether an operand is as intended: the recognised operation is the intended one or has the same value
        for XLA, or both tag paths are (), as for arguments of the program. False for `UNSEEN`. edge: tag path of the
        intended operation. seen: the recognised operand.
        """
        return seen != UNSEEN and (self._are_same_value(edge, seen[0]) if edge and seen[0] else edge == seen[0])

    def _look_through(self, path: TagPath, tagged: TaggedSet) -> TagPath:
        """Returns the tag path of the first intended operand whose value goes through the barrier at `path`; `path`
        itself if there is none, or if the operation there is not a barrier.
        """
        leaves = self._barriers.get(path[-1], ()) if path else ()
        meant = (edge for edge, _ in tagged.edges if edge)
        return next(
            (edge for edge in meant for leaf in leaves if self._are_same_value((*path[:-1], leaf[-1]), edge)), path
        )

    def _is_untouched(self, operand: HloInstruction, tagged: TaggedSet) -> bool:
        """Returns whether the operand may be any operation: it is an operation of the author that depends on no hidden
        write and is no intended operand of this operation, so XLA has put it here.
        """
        path = self.evaluator.optimized.tags.get(operand.id, ())
        meant = self.intended.tagged.get(path)
        if tagged.opcode not in _COMMUTATIVE or meant is None or meant.labels or meant.opcode != operand.opcode:
            return False
        is_own = self.evaluator.is_authored(path, operand) and not self.moved.is_moved(path, operand)
        return is_own and all(path != edge for edge, _ in tagged.edges)

    def _recognise(self, operand: HloInstruction, occurrence: Occurrence) -> OperandEdge:
        """Returns the tag path and the dependence set of an operand.

        The path is () if it is unknown which operation the operand is; the result is `UNSEEN` if the operand is not
        read from memory either.
        """
        scheduled, one, is_part = occurrence.scheduled, operand, False
        while True:
            path = self._get_tag(one)
            if path:
                seen = next((s for s in self.actual.occurrences.get(path, ()) if s.instruction is one), None)
                if seen is not None and seen.scheduled is scheduled:
                    return UNSEEN if is_part and self.evaluator.space.any_fresh(seen.labels) else (path, seen.labels)
                if seen is None and self._is_label_free(one, path, occurrence):
                    return path, 0
            is_part |= self._is_part(one)
            if one.opcode in _NAMES or self._is_part(one):
                one = one.operands[0]
            elif one.opcode == "parameter" and occurrence.instruction is not scheduled:
                return self._describe_read(occurrence, one.proto.parameter_number, is_part=is_part)
            elif occurrence.instruction is scheduled:
                return self._describe_read(occurrence, scheduled.operands.index(operand))
            else:
                return UNSEEN

    def _is_label_free(self, value: HloInstruction, path: TagPath, occurrence: Occurrence) -> bool:
        """Returns whether the value is the author's operation, in the same fusion as the instruction, and depends
        neither on a hidden write nor on the contents from before one, so that the evaluation recorded no set for it.
        """
        meant, homes = self.intended.tagged.get(path), self.evaluator.optimized.homes
        is_beside = (
            homes[value.id] is homes[occurrence.instruction.id] and occurrence.instruction is not occurrence.scheduled
        )
        is_same = meant is not None and meant.opcode == value.opcode and value.opcode not in _SLICES
        is_own = self.evaluator.is_authored(path, value) and not self.moved.is_moved(path, value)
        return is_beside and is_same and is_own

    def _describe_read(self, occurrence: Occurrence, number: int, *, is_part: bool = False) -> OperandEdge:
        """Returns the tag path and the dependence set of the value that the scheduled instruction reads as its operand
        `number`.

        is_part: whether XLA has joined this value from several values, so that only a slice of it is used.
        """
        operand = occurrence.scheduled.operands[number]
        path = self._find_tag(operand)
        labels = unite(labels for read, _, labels in occurrence.reads if read == number)
        is_unseen = is_part and (not path or self.evaluator.space.any_fresh(labels))
        if is_unseen or (not path and _find_argument(operand, self.evaluator.optimized) is None):
            return UNSEEN
        return path, labels

    def _is_part(self, value: HloInstruction) -> bool:
        """Returns whether the value is a slice that XLA takes of a value which it has joined from several values."""
        return value.opcode == "slice" and self._is_made_by_xla(value)

    def _find_tag(self, value: HloInstruction) -> TagPath:
        """Returns the tag path of the operation that defines the value's bytes: for a fusion's result, that of the
        operation at the fusion's root; for an element of a loop's state, CARRIED.
        """
        module = self.evaluator.optimized
        flow = Dataflow(module, RENAMED)
        position: Position | None = (value, ())
        while position is not None:
            value = position[0]
            is_tagged = value.opcode == "bitcast" and value.id in module.tags
            position = None if is_tagged else next(flow.list_sources(*position), None)
        if value.opcode == "parameter" and _is_state(value, module):
            return CARRIED
        return self._get_tag(value)

    def _get_tag(self, value: HloInstruction) -> TagPath:
        """Returns the tag path that the instruction carries; () for a concatenation that XLA made."""
        is_made = value.opcode == "concatenate" and self._is_made_by_xla(value)
        return () if is_made else self.evaluator.optimized.tags.get(value.id, ())

    def _is_made_by_xla(self, value: HloInstruction) -> bool:
        """Returns whether XLA made the instruction: it has the tag of an author's operation, but another opcode."""
        meant = self.intended.tagged.get(self.evaluator.optimized.tags.get(value.id, ()))
        return meant is not None and meant.opcode != value.opcode


def _list_orders(tagged: TaggedSet) -> list[tuple[OperandEdge, ...]]:
    """Returns the operation's intended operands, once for each order in which XLA may put them."""
    return [tagged.edges, tagged.edges[::-1]] if tagged.opcode in _ANY_ORDER else [tagged.edges]


def _find_argument(value: HloInstruction, module: HloModule) -> HloInstruction | None:
    """Returns the parameter of the entry computation if the value is an argument of the program, or gathered from the
    argument's shards on all devices. Otherwise returns None.
    """
    flow = Dataflow(module, _WHOLE)
    value, _ = flow.find_definition(value)
    while value.opcode in _GATHERS:
        value, _ = flow.find_definition(value.operands[0])
    return value if value.opcode == "parameter" and module.homes[value.id] is module.entry else None


def _is_state(parameter: HloInstruction, module: HloModule) -> bool:
    callers = module.callers.get(module.homes[parameter.id].id, ())
    return any(caller.opcode == "while" for caller in callers)


def find_bytes(operand: HloInstruction, occurrence: Occurrence, evaluator: Evaluator) -> Position:
    """Returns the position that defines the bytes of an operand. If a fusion contains the instruction, this is the fusion's
    operand from which the instruction reads.
    """
    flow, scheduled = Dataflow(evaluator.optimized, RENAMED), occurrence.scheduled
    value, index = flow.find_definition(operand)
    if value.opcode == "parameter" and occurrence.instruction is not scheduled and not index:
        return flow.find_definition(scheduled.operands[value.proto.parameter_number])
    return value, index
