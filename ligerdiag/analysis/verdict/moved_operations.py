"""Finds operations of the author that XLA has moved behind other operations and that keep their name there.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

SliceSinker turns `x[:8] * y[:8]` and `x[8:] * y[8:]` into slices of `x * y`. AllReduceReassociate turns
`psum(x) + psum(y)` into `psum(x + y)`, and ReduceScatterReassociate does the same. Each new slice or collective is a clone
of the one whose result was the first factor or term, name and tag included. It is not this operation: it depends on `y`
as well, about which the author's slice of `x` says nothing.

The structure shows the move. The instruction is computed from an operation, the product, which the program computes from the
author's slice. This product reads `x`, the operand of the author's slice, and no slice with the tag. An instruction whose
operand is the one that the author gave it is not moved, nor is one of a loop that XLA has unrolled. There, the product of
the previous iteration reads the slice of the previous iteration, which has the same tag.

The move takes no read away. What the product reads of `x` is the version that the slice of `x` delivers, and so
`list_reads` returns it for the comparison with the version that the author means.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ligerdiag.analysis.evaluated_pair import Evaluator
from ligerdiag.analysis.evaluation.program_order import Intended
from ligerdiag.hlo.dataflow import Dataflow, PassThrough
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.provenance.value_numbers import find_twins

_MOVABLE = having(Trait.MOVES) | having(Trait.COLLECTIVE)
"""Opcodes of operations that XLA may move behind an elementwise operation."""
_ARITHMETIC = having(Trait.ELEMENTWISE) - _MOVABLE
_OMITTED = having(Trait.CASTS, Trait.SAME_ELEMENTS)
_PASSED_ON = PassThrough(bitcasts=True, tuples=True, fusions=True, arguments=True, asynchronous=True)
_AS_WRITTEN = PassThrough(bitcasts=True, barriers=True, tuples=True, calls=True, arguments=True, shards=True)

type _Source = tuple[str, HloInstruction]
"""The opcode of an operation, and the instruction of the program that defines its operand."""
type Read = tuple[HloInstruction, HloInstruction]
"""An instruction, and the operand of it that is read."""


@dataclass(frozen=True, eq=False)
class MovedOperations:
    """Finds operations that XLA has moved behind their users. The moved instruction has the name and the tag of the
    operation, but computes a different value.
    """

    intended: Intended
    evaluator: Evaluator
    _found: dict[tuple[TagPath, int], tuple[Read, ...]] = field(
        init=False, default_factory=dict[tuple[TagPath, int], tuple[Read, ...]]
    )

    def is_moved(self, path: TagPath, instruction: HloInstruction) -> bool:
        """Returns whether XLA has moved an operation behind one of its users. A user is an operation that is computed
        from it in the program. path: tag path of the operation. instruction: the instruction with its name.
        """
        return bool(self.list_reads(path, instruction))

    def list_reads(self, path: TagPath, instruction: HloInstruction) -> tuple[Read, ...]:
        """Returns the reads of a moved operation's operand, each as (instruction that reads it now, the instruction's
        operand). Returns () if the operation is not moved.
        """
        key = path, instruction.id
        if key not in self._found:
            self._found[key] = self._find_reads(path, instruction)
        return self._found[key]

    def list_computed(self, path: TagPath, instruction: HloInstruction) -> tuple[TagPath, ...]:
        """Returns the tag paths of the program's operations that a moved operation may compute now. They are its users with
        the opcode of the operation behind which XLA has moved it. Returns () if it is not moved, or moved behind several
        operations.
        """
        reads = self.list_reads(path, instruction)
        if not reads:
            return ()
        behind = _find_definition(self.evaluator.optimized, instruction.operands[0])
        if any(reader is not behind for reader, _ in reads):
            return ()  # behind several operations
        return tuple([one for one in self._users.get(path, ()) if self.intended.tagged[one].opcode == behind.opcode])

    def is_movable_operand(self, path: TagPath, operand: TagPath) -> bool:
        """Returns whether XLA may move an operation behind its users, so that the users read the operation's operand. path:
        tag path of the operation. operand: tag path of the operand.
        """
        found = self.intended.tagged.get(path)
        return found is not None and found.opcode in _MOVABLE and operand in found.operands

    def _find_reads(self, path: TagPath, instruction: HloInstruction) -> tuple[Read, ...]:
        tagged, tags = self.intended.tagged, self.evaluator.optimized.tags
        meant = tagged.get(path)
        if meant is None or instruction.opcode not in _MOVABLE or instruction.opcode != meant.opcode:
            return ()
        if len(instruction.operands) != 1:
            return ()
        pending: list[Read] = [(instruction, instruction.operands[0])]
        found: list[Read] = []
        known: set[int] = set()
        siblings = {path}
        is_behind_user = False
        while pending:
            reader, operand = pending.pop()
            value = _find_definition(self.evaluator.optimized, operand)
            own = tags.get(value.id, ())
            if self._is_operand(path, value):
                found.append((reader, operand))
            elif own in siblings:
                return ()
            elif value.id not in known and value.opcode in _ARITHMETIC:
                siblings = siblings if known else self._list_siblings(path)
                known.add(value.id)
                is_user = own in tagged and not siblings.isdisjoint(self._list_above(own))
                is_behind_user |= is_user
                if is_user or not own:
                    pending += [(value, one) for one in value.operands]
            if reader is instruction and not known:
                return ()  # the operation has the operand that the author gave it, or an unknown one
        return tuple(found) if is_behind_user else ()

    def _is_operand(self, path: TagPath, value: HloInstruction) -> bool:
        """Returns whether the value of the schedule is the operand of the program's operation."""
        own = self.evaluator.optimized.tags.get(value.id, ())
        if own:
            twins = find_twins(self.evaluator.program)
            return any(own == one or twins.are_twins(own, one) for one in self._list_equal_operands(path))
        source = self._sources.get(path[-1:])
        if value.opcode != "parameter" or source is None or source[1].opcode != "parameter":
            return False
        is_entry = _is_argument(self.evaluator.optimized, value)
        is_same = source[1].proto.parameter_number == value.proto.parameter_number
        return is_entry is _is_argument(self.evaluator.program, source[1]) and (is_same or not is_entry)

    def _list_equal_operands(self, path: TagPath) -> Iterator[TagPath]:
        """Yields the tag path of the operation's operand, and those of the operations that it only converts or reshapes,
        which XLA may omit.
        """
        tagged, pending = self.intended.tagged, [path]
        while pending:
            for one in tagged[pending.pop()].operands:  # with the kernels that overwrite the operand
                yield one
                if one in tagged and tagged[one].opcode in _OMITTED:
                    pending.append(one)

    def _list_siblings(self, path: TagPath) -> set[TagPath]:
        """Returns the tag paths of the operation and of the operations that take other parts of the same value; XLA
        merges the products that are computed from them.
        """
        source = self._sources.get(path[-1:])
        siblings = {(*path[:-1], *own) for own, one in self._sources.items() if self._are_one(source, one)}
        return siblings | {path}

    def _are_one(self, source: _Source | None, other: _Source) -> bool:
        """Returns whether two operations have the same opcode, and operands that are one value to XLA."""
        if source is None or source[0] != other[0]:
            return False
        own, another = (self.evaluator.program.tags.get(one[1].id, ()) for one in (source, other))
        return source == other or (own != () and find_twins(self.evaluator.program).are_twins(own, another))

    @cached_property
    def _sources(self) -> Mapping[TagPath, _Source]:
        """Maps the last tag of each movable operation to its opcode and the instruction that defines its operand."""
        program = self.evaluator.program
        return {
            path[-1:]: (one.opcode, _find_definition(program, one.operands[0], _AS_WRITTEN))
            for one in program.instructions
            if one.opcode in _MOVABLE and one.operands and (path := program.tags.get(one.id, ()))
        }

    @cached_property
    def _users(self) -> Mapping[TagPath, Sequence[TagPath]]:
        users = defaultdict[TagPath, list[TagPath]](list)
        for path, tagged in self.intended.tagged.items():
            for one in tagged.operands:
                users[one].append(path)
        return users

    def _list_above(self, path: TagPath) -> set[TagPath]:
        """Returns the tag paths of the operations from which this one is computed in the program."""
        tagged = self.intended.tagged
        pending, above = [path], set[TagPath]()
        while pending:
            found = tagged.get(pending.pop())
            new = found.operands - above if found is not None else ()
            above.update(new)
            pending += new
        return above


def _find_definition(module: HloModule, value: HloInstruction, through: PassThrough = _PASSED_ON) -> HloInstruction:
    """Returns the instruction that defines the value, looking through copies; the walk ends where there are several
    sources.
    """
    flow, position = Dataflow(module, through), (value, ())
    while True:
        sources = list(flow.list_sources(*position))
        if not sources and position[0].opcode == "copy":
            sources = [(position[0].operands[0], ())]
        if len(sources) != 1:
            return position[0]
        position = sources[0]


def _is_argument(module: HloModule, value: HloInstruction) -> bool:
    return module.homes[value.id] is module.entry
