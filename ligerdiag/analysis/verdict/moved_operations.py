"""Finds operations of the author that XLA has moved behind other operations and that keep their name there.

SliceSinker turns `x[:8] * y[:8]` and `x[8:] * y[8:]` into slices of `x * y`. AllReduceReassociate turns
`psum(x) + psum(y)` into `psum(x + y)`, and ReduceScatterReassociate does the same. Each new slice or collective is a clone
of the one whose result was the first factor or term, name and tag included. It is not this operation: it depends on `y`
as well, about which the author's slice of `x` says nothing.

The structure shows the move. The instruction is computed from an operation, the product, that in the program is computed
from the author's slice; this product reads `x`, the operand of the author's slice, and no slice with the tag. An
instruction whose operand is the one that the author gave it is not moved, nor is one of a loop that XLA has unrolled: the
product of the previous iteration reads the slice of the previous iteration, which has the same tag.
"""

from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True, eq=False)
class MovedOperations:
    """Finds instructions of the schedule that have the name and the tag of an operation and compute another value,
    because XLA has moved the operation behind its users.
    """

    intended: Intended
    evaluator: Evaluator
    _found: dict[tuple[TagPath, int], bool] = field(init=False, default_factory=dict[tuple[TagPath, int], bool])

    def is_moved(self, path: TagPath, instruction: HloInstruction) -> bool:
        """Returns whether XLA has moved the operation with this tag path, whose name the instruction has, behind an
        operation that is computed from it in the program.
        """
        key = path, instruction.id
        if key not in self._found:
            self._found[key] = self._is_behind_user(path, instruction)
        return self._found[key]

    def is_movable_operand(self, path: TagPath, operand: TagPath) -> bool:
        """Returns whether XLA may move the operation at `path` behind its users, which then read the operation `operand`
        in its place.
        """
        found = self.intended.tagged.get(path)
        return found is not None and found.opcode in _MOVABLE and operand in found.operands

    def _is_behind_user(self, path: TagPath, instruction: HloInstruction) -> bool:
        tagged, tags = self.intended.tagged, self.evaluator.optimized.tags
        meant = tagged.get(path)
        if meant is None or instruction.opcode not in _MOVABLE or instruction.opcode != meant.opcode:
            return False
        if len(instruction.operands) != 1:
            return False
        pending = [(instruction, instruction.operands[0])]
        reads_operand = False
        known: set[int] = set()
        siblings = {path}
        is_behind_user = False
        while pending:
            reader, operand = pending.pop()
            value = _find_definition(self.evaluator.optimized, operand)
            own = tags.get(value.id, ())
            if self._is_operand(path, value):
                reads_operand = True
            elif own in siblings:
                return False
            elif value.id not in known and value.opcode in _ARITHMETIC:
                siblings = siblings if known else self._list_siblings(path)
                known.add(value.id)
                is_user = own in tagged and not siblings.isdisjoint(self._list_above(own))
                is_behind_user |= is_user
                if is_user or not own:
                    pending += [(value, one) for one in value.operands]
            if reader is instruction and not known:
                return False  # the operation has the operand that the author gave it, or an unknown one
        return reads_operand and is_behind_user

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
