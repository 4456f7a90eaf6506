"""Which value of a schedule is computed from which, in memory.

A node is a Definition, one leaf of what one scheduled instruction computes; a step is the instruction that stands for it.
(1) Names (bitcasts, tuples, parameters of calls) are followed to the definition that they name.
(2) A value that a loop carries is computed from what stood there before the loop and from what the body returns. The loop
    is its step, whether it is used inside or behind.
(3) A result of a fusion is computed from the operands that its own part of the fused computation reads.
(4) What a kernel leaves in an operand is a node of its own; who reads the operand's value behind the kernel, or in a later
    iteration of a loop around it, reads that node, too.
(5) What runs inside of an asynchronous computation has the start as its step.
What decides how often a loop runs, or which branch, is no source.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.value_readers import Overwritten, ValueReaders
from ligerdiag.hlo.dataflow import list_operands, search
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.positions import Definition
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves

_OPERANDWISE = having(Trait.OPERANDWISE)
_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)


def name_written(write: int, kernel: int) -> Definition:
    """The node of what this hidden write leaves in its operand, (4). kernel: id of the kernel's step."""
    return kernel, (-1 - write,)


@dataclass(slots=True, eq=False)
class ValueSources:
    """The graph of one schedule, computed as it is asked for. `add_write` comes before all questions."""

    readers: ValueReaders
    homes: Mapping[int, HloComputation] = field(init=False)
    """Instruction id to its computation."""
    callers: Mapping[int, HloInstruction] = field(init=False)
    """Id of a computation that is run as part of the schedule to an instruction that calls it."""
    instructions: Mapping[int, HloInstruction] = field(init=False)
    _resolved: dict[tuple[int, ShapeIndex], Definition] = field(
        default_factory=dict[tuple[int, ShapeIndex], Definition]
    )
    _sources: dict[Definition, tuple[Definition, ...]] = field(default_factory=dict[Definition, tuple[Definition, ...]])
    _written: dict[Definition, list[tuple[int, HloInstruction]]] = field(
        default_factory=dict[Definition, list[tuple[int, HloInstruction]]]
    )
    """Overwritten definition to (HiddenWrite index, the scheduled instruction that runs the kernel)."""
    _fused: dict[int, Mapping[ShapeIndex, tuple[int, ...]]] = field(
        default_factory=dict[int, Mapping[ShapeIndex, tuple[int, ...]]]
    )

    def __post_init__(self) -> None:
        module = self.readers.context.optimized
        scheduled = [c for c in module.computations.values() if c.sequence]
        self.homes = {i.id: c for c in scheduled for i in c.sequence}
        self.instructions = {i.id: i for c in scheduled for i in c.sequence}
        callers: dict[int, HloInstruction] = {}
        for instruction in self.instructions.values():
            for callee in instruction.called_computations:
                callers.setdefault(callee, instruction)
        self.callers = callers

    def add_write(self, write: int, overwritten: Overwritten) -> None:
        """A hidden write that is performed."""
        self._written.setdefault(overwritten.definition, []).append((write, overwritten.kernel))

    def find_step(self, number: int) -> int:
        """Id of the instruction that stands for this one, (2) and (5)."""
        home = self.homes.get(number)
        caller = self.callers.get(home.id) if home is not None else None
        if caller is None:
            return number
        if caller.opcode in _STARTS_COMPUTATION:
            return self.find_step(caller.id)
        is_carried = caller.opcode == "while" and self.instructions[number].opcode == "parameter"
        return self.find_step(caller.id) if is_carried else number

    def list_loops(self, number: int) -> tuple[int, ...]:
        """Ids of the `while` instructions around it, outermost first."""
        found: list[int] = []
        home = self.homes.get(number)
        while home is not None and (caller := self.callers.get(home.id)) is not None:
            if caller.opcode == "while":
                found.append(caller.id)
            home = self.homes.get(caller.id)
        return tuple(reversed(found))

    def list_output_nodes(self) -> Iterator[tuple[Definition, ...]]:
        """For each output of the program the nodes that it is, (4) included."""
        root = self.readers.context.optimized.entry.root
        for index in iterate_leaves(root.shape):
            yield self._see(self._resolve(root, index), None)

    def list_sources(self, node: Definition) -> tuple[Definition, ...]:
        """What the node's value is computed from, each once."""
        found = self._sources.get(node)
        if found is None:
            found = self._sources[node] = tuple(dict.fromkeys(self._find_sources(node)))
        return found

    def find_time(self, number: int) -> int:
        """LogicalTime of an instruction."""
        return self.readers.times.get(number, -1)

    def _resolve(self, value: HloInstruction, index: ShapeIndex) -> Definition:
        key = (value.id, index)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self.readers.positions.resolve(value, index)
        return found

    def _see(self, definition: Definition, reader: HloInstruction | None) -> tuple[Definition, ...]:
        """The definition, and what kernels left in its place that this reader may see; None is the program's end."""
        if definition not in self._written:
            return (definition,)
        kernels = [(w, kernel) for w, kernel in self._written[definition] if self.is_seen(kernel, definition, reader)]
        return (*[name_written(write, self.find_step(kernel.id)) for write, kernel in kernels], definition)

    def is_seen(self, kernel: HloInstruction, definition: Definition, reader: HloInstruction | None) -> bool:
        """Whether what the kernel leaves in place of the definition is there when the reader reads, (4)."""
        if reader is None:
            return True
        if reader.opcode == "parameter":  # what a loop carries is read when an iteration is over: the loop comes last
            reader = self.instructions[self.find_step(reader.id)]
        if self.find_time(reader.id) > self.find_time(kernel.id):
            return True
        around = set(self.list_loops(kernel.id)) & set(self.list_loops(reader.id))
        return bool(around - set(self.list_loops(definition[0])))

    def _find_sources(self, node: Definition) -> Iterator[Definition]:
        number, index = node
        instruction = self.instructions.get(number)
        if instruction is None:
            return
        if index and index[0] < 0:  # (4): the kernel computes it from its operands
            yield from self._list_read(instruction, range(len(instruction.operands)))
            return
        carried = self._find_carrying(instruction)
        if carried is not None:
            body = self.readers.context.optimized.computations[carried.called_computations[0]]
            yield self._resolve(carried.operands[0], index)
            yield from self._see(self._resolve(body.root, index), instruction)
        elif instruction.opcode == "conditional":
            for callee in instruction.called_computations:
                yield from self._see(
                    self._resolve(self.readers.context.optimized.computations[callee].root, index), instruction
                )
        elif instruction.opcode == "fusion":
            operands = self._find_fused(instruction).get(index)
            yield from self._list_read(instruction, operands or range(len(instruction.operands)))
        elif instruction.opcode in _OPERANDWISE and len(instruction.operands) > 1 and index:
            yield from self._list_read(instruction, (index[-1],))
        elif instruction.opcode != "parameter":
            yield from self._list_read(instruction, range(len(instruction.operands)))

    def _find_carrying(self, instruction: HloInstruction) -> HloInstruction | None:
        """The loop that carries what is defined here, (2)."""
        if instruction.opcode == "while":
            return instruction
        home = self.homes[instruction.id]
        caller = self.callers.get(home.id) if instruction.opcode == "parameter" else None
        return caller if caller is not None and caller.opcode == "while" else None

    def _list_read(self, reader: HloInstruction, operands: "tuple[int, ...] | range") -> Iterator[Definition]:
        for operand in operands:
            value = reader.operands[operand] if operand < len(reader.operands) else None
            for index in iterate_leaves(value.shape) if value is not None else ():
                yield from self._see(self._resolve(value, index), reader) if value is not None else ()

    def _find_fused(self, fusion: HloInstruction) -> Mapping[ShapeIndex, tuple[int, ...]]:
        """Leaf of a fusion's result to the operands that it is computed from, (3); empty where there is one leaf only."""
        found = self._fused.get(fusion.id)
        if found is not None:
            return found
        computation = self.readers.context.optimized.computations[fusion.called_computations[0]]
        result: dict[ShapeIndex, tuple[int, ...]] = {}
        if computation.root.opcode == "tuple":
            for number, value in enumerate(computation.root.operands):
                if not is_tuple(value.shape):
                    used = {o.proto.parameter_number for o in search([value], list_operands) if o.opcode == "parameter"}
                    result[number,] = tuple([n for n in range(len(fusion.operands)) if n in used])
        self._fused[fusion.id] = result
        return result
