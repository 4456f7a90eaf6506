"""Finds pairs of values that are alive at the same time in the same bytes, from the schedule and the buffer assignment.

One walk over the schedule executes every computation on the bytes of the assignment. Bytes hold the name of the value
that was written there last. A name is the position that defines the value, as XLA's buffer assignment lists it
(`dataflow`).

- An instruction reads its operands and then writes its results. A read must find the value of its operand. If it finds
  another value, two values were alive in the same bytes: the *lost* value, which is still read, and the *other* value. So
  a consumer may write over an operand that nobody reads later, and over no other live value.
- Two results of one instruction in the same bytes are written at once, so neither can be read, unless they are one
  value inside a fusion.
- A result in a part of an operand's bytes, or with another offset, is written while the operand is still read. So is a
  result in exactly the operand's bytes if other elements of the result still need elements of the operand
  (`overwriting`).
- Tuples, bitcasts, calls, barriers and the done of a start keep the name of their value. The state of a loop has one
  name from the entry to the result, and the result of a conditional one name for all branches: renaming writes nothing.
  The body and the condition of a loop must leave every element of the state in place. After a conditional, bytes hold
  what any of the branches may have left there.
- A done reads what its start has read: an operand stays until then, unless the start itself writes over it.
- At the end of the program its results are read, and the original value of each argument that the caller keeps.
- An output is wrong if it may depend on a read that found another value: through operands, through a leaf of a loop's
  state, or through predicates.

Not modelled: writes of kernels behind XLA's back, values without bytes, and computations that are applied or fused.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import (
    PASSED_ON,
    Dataflow,
    Definition,
    PassThrough,
    Position,
    Positions,
    find_start,
    is_operandwise,
    list_operands,
    list_running,
    search,
    unite,
)
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.overwriting import may_write_over
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

_LAUNCHES_NOTHING = having(Trait.LAUNCHES_NOTHING)
_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)
_WAITS = having(Trait.DONE, Trait.UPDATE)
_MOST_STEPS = 20
"""Most visits of the walk for each instruction of the module, on average. A module from XLA needs few, because XLA
gives each computation one caller.
"""
_MOST_ROUNDS = 8
"""Most walks over a loop's body to find which elements of its state depend on a wrong read; after that, all elements
count as dependent.
"""
_MOST_PAIRS = 64
"""Most pairs of conflicting values that are distinguished; the last one represents all additional pairs."""

type _Leaf = tuple[Definition, int] | None
"""The name of the value of a leaf, and the number of the slice of bytes that holds it; None if the leaf has no bytes.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedBytes:
    """Two values that XLA keeps in overlapping bytes at the same time, although both are still needed."""

    lost: Position
    """The value that is still read after the other value was written to its bytes."""
    lost_place: Slice
    other: Position
    """The value that is written over the lost value, or to the same bytes at the same time."""
    other_place: Slice
    reader: HloInstruction | None
    """The first instruction that reads the lost value and finds the other value. None if no instruction does, and only the
    end of the program still needs the lost value.
    """
    readers: int
    """Number of instructions that read the lost value and find the other value."""
    outputs: frozenset[int]
    """Numbers of the program's outputs that may depend on a read that finds the wrong value."""
    is_kept: bool
    """Whether the lost value is an argument that the caller keeps, and only the end of the program still needs it."""


class TooManyStepsError(Exception):
    """Raised if a module has too many paths of calls to follow. No module that XLA compiles has so many."""


def find_shared_bytes(
    module: HloModule, buffers: BufferAssignment, *, is_assigned: bool = True
) -> tuple[SharedBytes, ...]:
    """Returns the pairs of values that are needed at the same time in the same bytes. They are in the order of their
    first readers.

    is_assigned: whether `buffers` is XLA's own assignment. If not, it only says which values must share bytes. An
    instruction may then write over exactly the bytes of any operand, and the program over any argument. Raises
    TooManyStepsError if the module has too many paths of calls.
    """
    return _Walk(module, buffers, is_assigned=is_assigned).run()


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """The contents of a range of bytes at one point of the walk."""

    names: tuple[Definition, ...]
    """Name of the value in the bytes; several names if the bytes may hold any of these values, or parts of each."""
    wrong: int
    """The wrong reads on which the contents depend, as a bit set: bit n is the n-th pair of values that were found in the
    same bytes.
    """
    turn: int
    """Number of the step of the walk that wrote the contents; later steps have higher numbers."""


@dataclass(slots=True, eq=False)
class _Bytes:
    """The contents of one allocation, as ordered ranges that do not overlap."""

    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    held: list[_Held] = field(default_factory=list[_Held])

    def copy(self) -> "_Bytes":
        return _Bytes(self.starts.copy(), self.ends.copy(), self.held.copy())

    def find(self, first: int, end: int) -> tuple[int, int]:
        """Returns the ranges of an allocation that overlap the bytes from `first` to `end`, exclusive, as (number of the
        first range, number after the last).
        """
        low = bisect_right(self.starts, first) - 1
        if low < 0 or self.ends[low] <= first:
            low += 1
        return low, bisect_left(self.starts, end, low)

    def put(self, first: int, end: int, held: _Held) -> None:
        low, high = self.find(first, end)
        starts, ends, kept = [first], [end], [held]
        if low < high and self.starts[low] < first:
            starts.insert(0, self.starts[low])
            ends.insert(0, first)
            kept.insert(0, self.held[low])
        if low < high and self.ends[high - 1] > end:
            starts.append(end)
            ends.append(self.ends[high - 1])
            kept.append(self.held[high - 1])
        self.starts[low:high], self.ends[low:high], self.held[low:high] = starts, ends, kept


class _Memory:
    """The contents of all allocations; a copy of a _Memory shares the allocations that neither side changes."""

    def __init__(self, allocations: dict[int, _Bytes] | None = None) -> None:
        self._allocations = {} if allocations is None else allocations
        self._owned: set[int] = set()

    def copy(self) -> "_Memory":
        self._owned = set()
        return _Memory(dict(self._allocations))

    def look(self, place: Slice) -> tuple[_Bytes, int, int]:
        """Returns the contents of a slice's allocation, and the ranges that overlap the slice, as (contents, number of
        the first range, number after the last). The two numbers are equal if nothing was written to the slice.
        """
        found = self._allocations.get(place.allocation) or _NOTHING
        return found, *found.find(place.offset, place.offset + place.size)

    def put(self, place: Slice, held: _Held) -> None:
        found = self._allocations.get(place.allocation)
        if found is None or place.allocation not in self._owned:
            found = self._allocations[place.allocation] = _Bytes() if found is None else found.copy()
            self._owned.add(place.allocation)
        found.put(place.offset, place.offset + place.size, held)

    def join(self, others: "list[_Memory]") -> "_Memory":
        """Joins several memories into one. Each of its ranges may hold whatever the range may hold in any of them.

        others: changed copies of this memory, such as one for each branch of a conditional.
        """
        joined = dict(self._allocations)
        for number in dict.fromkeys(number for other in others for number in other._owned):
            found = [one for other in others if (one := other._allocations.get(number)) is not None]
            joined[number] = _join_bytes(found)
        return _Memory(joined)


_NOTHING = _Bytes()


def _join_bytes(found: list[_Bytes]) -> _Bytes:
    first, *others = found
    if all(one.starts == first.starts and one.held == first.held for one in others):
        return first
    bounds = sorted({bound for one in found for bound in (*one.starts, *one.ends)})
    joined = _Bytes()
    for start, end in pairwise(bounds):
        held = [one.held[low] for one in found for low, high in [one.find(start, end)] if low < high]
        if not held:
            continue
        names = tuple(dict.fromkeys(name for one in held for name in one.names))
        wrong = 0
        for one in held:
            wrong |= one.wrong
        last = joined.held[-1] if joined.held else None
        if last is not None and joined.ends[-1] == start and last.names == names and last.wrong == wrong:
            joined.ends[-1] = end  # parts of one value, which the other branches have left in several ranges
            continue
        joined.starts.append(start)
        joined.ends.append(end)
        joined.held.append(_Held(names, wrong, -1))
    return joined


@dataclass(slots=True, eq=False)
class _Pair:
    lost: Definition
    place: Slice
    other: Definition
    reader: HloInstruction | None
    readers: int = 1
    is_kept: bool = False


class _Joined:
    """The definitions (instructions and the values that each defines) of a buffer assignment, completed where needed.

    Each value that a loop or a conditional joins from several sources is a definition of its own. XLA lists these; a
    file, or an assignment derived from XLA's rules, may lack them.
    """

    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._module: Final = module
        self._flow: Final = Dataflow(module, PASSED_ON)
        self._positions: Final = Positions(module, buffers)
        self.definitions: dict[int, tuple[tuple[ShapeIndex, int], ...]] = dict(buffers.definitions)
        for computation in module.computations.values():  # callees come first
            for one in computation.instructions:
                if one.opcode == "while":
                    self._add_state(one)
                elif one.opcode == "conditional":
                    self._add_result(one)

    def _add_state(self, loop: HloInstruction) -> None:
        """Adds, as definitions, the elements of a loop's state that its body changes: all except those that it returns
        unchanged, or exchanges for an element with the same initial value.
        """
        callees = [self._module.computations[number] for number in loop.called_computations]
        body, state = callees[0].root, callees[0].parameters[0]
        given = {index: self._find_source((loop.operands[0], index)) for index in iterate_leaves(loop.shape)}
        left = {index: self._find_source((body, index), state) for index in given}
        kept = {index for index, source in left.items() if source[0] == state.id}
        while lost := {i for i in kept if left[i][1] not in kept or given[i] != given[left[i][1]]}:
            kept -= lost
        for index in given.keys() - kept:
            for holder in (loop, *(callee.parameters[0] for callee in callees)):
                self._add(holder, index, (loop.operands[0], index))

    def _add_result(self, conditional: HloInstruction) -> None:
        roots = [self._module.computations[number].root for number in conditional.called_computations]
        for index in iterate_leaves(conditional.shape):
            if len({self._find_source((root, index)) for root in roots}) > 1:
                self._add(conditional, index, (roots[0], index))

    def _find_source(self, position: Position, end: HloInstruction | None = None) -> Definition:
        """Returns the definition of the value at a position. end: a parameter at which the walk to the definition also
        ends.
        """
        while position[0] is not end and all(i != position[1] for i, _ in self.definitions.get(position[0].id, ())):
            source = next(self._flow.list_sources(*position), None)
            if source is None:
                break
            position = source
        return position[0].id, position[1]

    def _add(self, instruction: HloInstruction, index: ShapeIndex, source: Position) -> None:
        number, listed = self._positions.find(*source), self.definitions.get(instruction.id, ())
        if number is not None and all(known != index for known, _ in listed):
            self.definitions[instruction.id] = (*listed, (index, number))


class _Walk:
    def __init__(self, module: HloModule, buffers: BufferAssignment, *, is_assigned: bool) -> None:
        buffers = replace(buffers, definitions=_Joined(module, buffers).definitions)
        self._module: Final = module
        self._is_assigned: Final = is_assigned
        self._slices: Final = buffers.slices
        self._definitions: Final = buffers.definitions
        self._positions = Positions(module, buffers)
        self._flow = Dataflow(module, PassThrough(tuples=True))
        self._places = {(one, index): number for one, found in buffers.definitions.items() for index, number in found}
        self._names: dict[Definition, Definition] = {}
        """Maps a definition to the name of its value, where that is another definition."""
        self._leaves: dict[int, tuple[_Leaf, ...]] = {}
        self._memory = _Memory()
        self._turn = 0
        self._steps = _MOST_STEPS * module.instruction_count
        self._pairs: dict[tuple[Definition, Definition], _Pair] = {}
        self._bits: dict[tuple[Definition, Definition], int] = {}

    def run(self) -> tuple[SharedBytes, ...]:
        entry, outputs = self._module.entry, list[int]()
        running = list_running(self._module)
        for computation in running:
            for one in computation.instructions:
                self._give_names(one)
        constants = [one for computation in running for one in computation.instructions if one.opcode == "constant"]
        self._join_constants(constants)
        for one in (*entry.parameters, *constants):
            self._write(one, 0, frozenset())
        self._run(entry)
        for leaf in self._list_leaves(entry.root):
            outputs.append(self._read_leaf(leaf, None))
        if self._is_assigned:
            self._require_arguments(entry)
        return tuple(self._describe(outputs))

    def _give_names(self, instruction: HloInstruction) -> None:
        """Gives one name to leaves that are the same value: an element of a loop's state inside and after the loop, or
        equal results of a fusion.
        """
        if instruction.opcode == "while":
            callees = [self._module.computations[number] for number in instruction.called_computations]
            same = (instruction, *(callee.parameters[0] for callee in callees))
            for index in iterate_leaves(instruction.shape):
                listed = [(one.id, index) for one in same if (one.id, index) in self._places]
                self._names.update((name, listed[0]) for name in listed[1:])
        elif instruction.opcode == "fusion" and len(self._definitions.get(instruction.id, ())) > 1:
            root = self._module.computations[instruction.called_computations[0]].root
            first: dict[Definition, Definition] = {}
            for index in iterate_leaves(instruction.shape):
                value, rest = self._flow.find_definition(root, index)
                name = first.setdefault((value.id, rest), (instruction.id, index))
                if name != (instruction.id, index):
                    self._names[instruction.id, index] = name

    def _join_constants(self, constants: Iterable[HloInstruction]) -> None:
        """Gives one name to equal constants in the same bytes."""
        known: dict[int, HloInstruction] = {}
        for one in constants:
            for index, number in self._definitions.get(one.id, ()):
                first = known.setdefault(number, one)
                if first is not one and first.proto.literal == one.proto.literal:
                    self._names[one.id, index] = first.id, index

    def _list_leaves(self, value: HloInstruction) -> tuple[_Leaf, ...]:
        found = self._leaves.get(value.id)
        if found is None:
            found = tuple([self._find_leaf(value, index) for index in iterate_leaves(value.shape)])
            self._leaves[value.id] = found
        return found

    def _find_leaf(self, value: HloInstruction, index: tuple[int, ...]) -> _Leaf:
        name = self._positions.resolve(value, index)
        number = self._places.get(name)
        if number is None or not self._slices[number].size:
            return None
        return self._names.get(name, name), number

    def _run(self, computation: HloComputation) -> None:
        self._steps -= len(computation.instructions)
        if self._steps < 0:
            raise TooManyStepsError
        for instruction in computation.sequence or computation.instructions:
            opcode = instruction.opcode
            if opcode in _LAUNCHES_NOTHING:
                continue
            self._turn += 1
            if opcode == "while":
                self._run_loop(instruction)
                continue
            if opcode in _WAITS:
                self._wait(instruction)
                continue
            wrong, read = 0, set[Definition]()
            for operand in instruction.operands:
                for leaf in self._list_leaves(operand):
                    if leaf is not None:
                        read.add(leaf[0])
                        wrong |= self._read_leaf(leaf, instruction)
            if opcode == "conditional":
                self._run_branches(instruction)
                continue
            if opcode in _RUNS_SCHEDULED:
                for callee in instruction.called_computations:
                    self._run(self._module.computations[callee])
                self._turn += 1
                read.clear()
            if instruction.id in self._definitions:
                self._write(instruction, wrong, read)

    def _wait(self, done: HloInstruction) -> None:
        """Simulates the done of an asynchronous operation: reads the operands of its start."""
        results = self._list_leaves(done)
        names = frozenset([leaf[0] for leaf in results if leaf is not None])
        start = find_start(self._module, done) if done.opcode == "send-done" else None
        waited = (*done.operands, *(start.operands[:1] if start is not None and start.opcode == "send" else ()))
        leaves = [leaf for operand in waited for leaf in self._list_leaves(operand)]
        wrong = unite(self._read_leaf(leaf, done, names) for leaf in leaves if leaf is None or leaf[0] not in names)
        if wrong:
            self._rename(results, [wrong | (self._peek(leaf) if leaf is not None else 0) for leaf in results])

    def _run_loop(self, loop: HloInstruction) -> None:
        """Walks over a loop's body and condition until no more elements of the state turn out to depend on a wrong
        read.
        """
        body, condition = (self._module.computations[number] for number in loop.called_computations)
        state, left = self._list_leaves(body.parameters[0]), self._list_leaves(body.root)
        wrong = [self._read_leaf(leaf, loop) for leaf in self._list_leaves(loop.operands[0])]
        self._rename(self._list_leaves(condition.parameters[0]), wrong)
        self._rename(state, wrong)
        decided = 0
        for number in range(_MOST_ROUNDS):
            self._run(condition)
            decided |= self._read_all(condition.root, loop)
            self._run(body)
            after = [self._read_leaf(leaf, loop) for leaf in left]
            merged = [one | other for one, other in zip(wrong, after, strict=True)]
            if merged != wrong and number == _MOST_ROUNDS - 1:
                merged = [unite(merged)] * len(merged)
            is_settled, wrong = merged == wrong, merged
            self._rename(state, wrong)
            if is_settled:
                break
        self._run(condition)
        decided |= self._read_all(condition.root, loop)
        self._rename(self._list_leaves(loop), [one | decided for one in wrong])

    def _run_branches(self, conditional: HloInstruction) -> None:
        """Walks over each branch of a conditional from the same memory, and joins the resulting memories."""
        decided = self._read_all(conditional.operands[0], conditional)
        results, before = self._list_leaves(conditional), self._memory
        ends: list[_Memory] = []
        for number in conditional.called_computations:
            self._memory = before.copy()
            callee = self._module.computations[number]
            self._run(callee)
            wrong = [self._read_leaf(leaf, conditional) for leaf in self._list_leaves(callee.root)]
            self._rename(results, [one | decided for one in wrong])
            ends.append(self._memory)
        self._memory = before.join(ends)

    def _rename(self, leaves: tuple[_Leaf, ...], wrong: list[int]) -> None:
        for leaf, bits in zip(leaves, wrong, strict=True):
            if leaf is None:
                continue
            name, number = leaf
            found, low, high = self._memory.look(self._slices[number])
            if high - low == 1 and found.held[low].names == (name,) and found.held[low].wrong == bits:
                continue
            self._memory.put(self._slices[number], _Held((name,), bits, self._turn))

    def _read_all(self, value: HloInstruction, reader: HloInstruction) -> int:
        return unite(self._read_leaf(leaf, reader) for leaf in self._list_leaves(value))

    def _read_leaf(
        self, leaf: _Leaf, reader: HloInstruction | None, results: frozenset[Definition] = frozenset()
    ) -> int:
        """Reads a leaf's bytes, and returns the pairs of conflicting values that it depends on, one bit each. If the
        bytes hold another value than the leaf's, these two values are one of the pairs.

        results: names of the results of an asynchronous operation that the reader waits for.
        """
        if leaf is None:
            return 0
        name, number = leaf
        place = self._slices[number]
        found, low, high = self._memory.look(place)
        wrong = 0
        for rank in range(low, high):
            held = found.held[rank]
            wrong |= held.wrong
            if held.names == (name,) or (results and results.issuperset(held.names)):
                continue
            others = [one for one in held.names if one != name]
            wrong |= unite(self._note(name, place, one, reader) for one in others)
        return wrong

    def _write(self, instruction: HloInstruction, wrong: int, read: Iterable[Definition]) -> None:
        """Writes the instruction's results into memory, and notes each operand that a result overwrites while it is
        still read.

        wrong: the pairs of conflicting values that the results depend on, one bit each. read: names of the operands'
        values, if the instruction itself reads them; empty for a call, whose computation reads them.
        """
        defined = self._definitions.get(instruction.id, ())
        leaves = [(leaf[0], leaf[1]) for leaf in self._list_leaves(instruction) if leaf is not None] if defined else []
        own = {number for _, number in defined}
        several = len(leaves) > 1
        written = [(name, number) for name, number in leaves if number in own]
        depends = {name: wrong for name, _ in written}
        lost = [(one, name) for name, number in written for one in self._find_lost(instruction, name, number, read)]
        for name in depends if lost or (wrong and several) else ():
            given = self._list_given(instruction, name)
            read_here = {one for one, _ in given}
            pairs = [(one, other) for one, other in lost if one in read_here]
            bits = unite(self._note(one, self._place_of(one), other, instruction) for one, other in pairs)
            depends[name] = bits | unite(self._peek(leaf) for leaf in given)
        for name, number in written:
            place, names, bits = self._slices[number], [name], depends[name]
            found, low, high = self._memory.look(place)
            if several:
                names += [one for held in found.held[low:high] if held.turn == self._turn for one in held.names]
            self._memory.put(place, _Held(tuple(dict.fromkeys(names)), bits, self._turn))

    def _find_lost(
        self, instruction: HloInstruction, name: Definition, number: int, read: Iterable[Definition]
    ) -> Iterator[Definition]:
        """Yields the names of the operands that this result overwrites while the instruction still reads them.

        name: the name of the result. number: the number of the result's slice. read: names of the operands that the
        instruction reads.
        """
        place = self._slices[number]
        found, low, high = self._memory.look(place)
        for rank in range(low, high):
            is_whole = (found.starts[rank], found.ends[rank]) == (place.offset, place.offset + place.size)
            for lost in found.held[rank].names:
                if lost in read and not (is_whole and self._may_write_over(instruction, name, lost)):
                    yield lost

    def _may_write_over(self, instruction: HloInstruction, name: Definition, lost: Definition) -> bool:
        """Returns whether the instruction may write the result `name` over the operand `lost`, if both have exactly the
        same bytes; always true for buffers that are not XLA's own assignment, as these share bytes only if they must.
        """
        if not self._is_assigned:  # the assignment is derived from XLA's rules: what shares bytes must do so
            return True
        numbers = [
            number
            for number, operand in enumerate(instruction.operands)
            if any(leaf is not None and leaf[0] == lost for leaf in self._list_leaves(operand))
        ]
        may = [may_write_over(self._module, instruction, name[1], number) for number in numbers]
        return all(may) if instruction.opcode == "fusion" else any(may)

    def _list_given(self, instruction: HloInstruction, name: Definition) -> list[tuple[Definition, int]]:
        """Returns the leaves of the operands that the result `name` of the instruction depends on, each as (name of its
        value, number of its slice); leaves without bytes are left out.
        """
        (number, index), operands = name, instruction.operands
        is_one_of_several = number == instruction.id and index != ()
        if is_one_of_several and is_operandwise(instruction):
            operands = (instruction.operands[index[-1]],)
        elif is_one_of_several and instruction.opcode == "fusion":
            fused = self._module.computations[instruction.called_computations[0]]
            value, _ = self._flow.find_definition(fused.root, index)
            reached = search([value], list_operands)
            numbers = [one.proto.parameter_number for one in reached if one.opcode == "parameter"]
            operands = tuple([instruction.operands[one] for one in numbers])
        return [leaf for operand in operands for leaf in self._list_leaves(operand) if leaf is not None]

    def _peek(self, leaf: tuple[Definition, int]) -> int:
        """Returns the pairs of conflicting values, one bit each, that a leaf depends on: as `_read_leaf` does after it has
        read the leaf, but without counting one more reader. leaf: (name of its value, number of its slice).
        """
        name, number = leaf
        found, low, high = self._memory.look(self._slices[number])
        wrong = 0
        for held in found.held[low:high]:
            wrong |= held.wrong
            for one in held.names:
                wrong |= self._bits.get((name, one), 0)
        return wrong

    def _place_of(self, name: Definition) -> Slice:
        return self._slices[self._places[name]]

    def _note(self, lost: Definition, place: Slice, other: Definition, reader: HloInstruction | None) -> int:
        """Returns the bit of a pair of conflicting values, which it records if the pair is new.

        place: the bytes of the lost value. reader: finds the other value there; None for the end of the program.
        """
        key = lost, other
        known = self._pairs.get(key)
        if known is not None:
            known.readers += known.reader is not reader
            return self._bits[key]
        if key in self._bits:
            return self._bits[key]
        if len(self._pairs) < _MOST_PAIRS:
            self._pairs[key] = _Pair(lost, place, other, reader)
        self._bits[key] = 1 << len(self._pairs) - 1
        return self._bits[key]

    def _require_arguments(self, entry: HloComputation) -> None:
        """Reads, as if by the caller after the end of the program, each argument that the caller keeps."""
        given = {
            (one.parameter_number, tuple(one.parameter_shape_index)) for one in self._module.input_output_alias.entries
        }
        for parameter in entry.parameters:
            for index, leaf in zip(iterate_leaves(parameter.shape), self._list_leaves(parameter), strict=True):
                if leaf is None or (parameter.proto.parameter_number, index) in given:
                    continue
                known = len(self._pairs)
                self._read_leaf(leaf, None)
                for pair in list(self._pairs.values())[known:]:
                    pair.is_kept = True

    def _describe(self, outputs: list[int]) -> Iterator[SharedBytes]:
        if not self._pairs:
            return
        instructions = {one.id: one for one in self._module.instructions}
        for number, pair in enumerate(self._pairs.values()):
            yield SharedBytes(
                lost=(instructions[pair.lost[0]], pair.lost[1]),
                lost_place=pair.place,
                other=(instructions[pair.other[0]], pair.other[1]),
                other_place=self._place_of(pair.other),
                reader=pair.reader,
                readers=pair.readers,
                outputs=frozenset(place for place, wrong in enumerate(outputs) if wrong >> number & 1),
                is_kept=pair.is_kept,
            )
