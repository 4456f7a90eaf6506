"""Builds the graph of a schedule's values in memory: which value is computed from which, all the way to the outputs,
with the kernels' hidden writes in it.

A node is a `Definition`: one leaf of the result of one scheduled instruction. The *step* of a node is the scheduled
instruction that computes it.

- A name of a value (a bitcast, a tuple, a parameter of a call) has no node of its own; it is followed to the definition
  that it names.
- A loop-carried value is computed from the value before the loop and from the body's result. Its step is the loop, for
  readers inside the loop and after it.
- A result of a fusion is computed from the operands that its own part of the fused computation reads.
- A kernel's write to an operand is a node of its own. An instruction that reads the operand's value after the kernel,
  or in a later iteration of a loop around the kernel, reads that node too.
- Instructions in an asynchronous computation have the start of that computation as their step.

The predicate of a loop or conditional does not count as a source of its results.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ligerdiag.analysis.def_use import Overwritten, ValueReaders
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.dataflow import Definition, find_shortest_path, is_operandwise, list_operands, search
from ligerdiag.hlo.module import HloComputation, HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves

_STARTS_COMPUTATION = having(Trait.STARTS_COMPUTATION)


def name_written(write: int, kernel: int) -> Definition:
    """Returns the node for the contents that a hidden write leaves in its operand. write: index of the hidden write.
    kernel: id of the step that runs the kernel.
    """
    return kernel, (-1 - write,)


@dataclass(slots=True, eq=False)
class ValueFlow:
    """The graph of the values of one schedule, computed on demand. A node is one leaf of an instruction's result, or the
    contents that a hidden write leaves in its operand. The step of a node is the scheduled instruction that computes it.
    Call `add_write` for all hidden writes before any query.
    """

    readers: ValueReaders
    homes: Mapping[int, HloComputation] = field(init=False)
    """Maps the id of an instruction to the computation that contains it."""
    callers: Mapping[int, HloInstruction] = field(init=False)
    """Maps the id of each computation that the schedule runs to an instruction that calls the computation."""
    instructions: Mapping[int, HloInstruction] = field(init=False)
    _sources: dict[Definition, tuple[Definition, ...]] = field(default_factory=dict[Definition, tuple[Definition, ...]])
    _written: dict[Definition, list[tuple[int, HloInstruction]]] = field(
        default_factory=dict[Definition, list[tuple[int, HloInstruction]]]
    )
    """Maps an overwritten definition to (index of the hidden write, the scheduled instruction that runs the kernel)."""
    _fused: dict[int, Mapping[ShapeIndex, tuple[int, ...]]] = field(
        default_factory=dict[int, Mapping[ShapeIndex, tuple[int, ...]]]
    )
    _reached: dict[Definition, int] | None = None
    _nodes: dict[int, list[Definition]] | None = None
    _users: dict[Definition, list[Definition]] | None = None

    def __post_init__(self) -> None:
        scheduled = [c for c in self.computations.values() if c.sequence]
        self.homes = {i.id: c for c in scheduled for i in c.sequence}
        self.instructions = {i.id: i for c in scheduled for i in c.sequence}
        callers: dict[int, HloInstruction] = {}
        for instruction in self.instructions.values():
            for callee in instruction.called_computations:
                callers.setdefault(callee, instruction)
        self.callers = callers

    @property
    def computations(self) -> Mapping[int, HloComputation]:
        return self.readers.context.optimized.computations

    def add_write(self, write: int, overwritten: Overwritten) -> None:
        """Adds to the graph a hidden write that the schedule performs."""
        self._written.setdefault(overwritten.definition, []).append((write, overwritten.kernel))

    def find_step(self, number: int) -> int:
        """Returns the id of an instruction's step. number: id of the instruction.

        The step of a parameter that holds a loop's state is the loop. The step of an instruction in an asynchronous
        computation is the start of the computation. Any other instruction is its own step.
        """
        home = self.homes.get(number)
        caller = self.callers.get(home.id) if home is not None else None
        if caller is None:
            return number
        if caller.opcode in _STARTS_COMPUTATION:
            return self.find_step(caller.id)
        is_carried = caller.opcode == "while" and self.instructions[number].opcode == "parameter"
        return self.find_step(caller.id) if is_carried else number

    def list_loops(self, number: int) -> tuple[int, ...]:
        """Returns the ids of the `while` instructions around an instruction, outermost first. number: the instruction's
        id.
        """
        found: list[int] = []
        home = self.homes.get(number)
        while home is not None and (caller := self.callers.get(home.id)) is not None:
            if caller.opcode == "while":
                found.append(caller.id)
            home = self.homes.get(caller.id)
        return tuple(reversed(found))

    def list_output_nodes(self) -> Iterator[tuple[Definition, ...]]:
        """Yields the nodes of each output of the program: its definition, and the hidden writes that overwrite it."""
        root = self.readers.context.optimized.entry.root
        for index in iterate_leaves(root.shape):
            yield self._see(self.readers.positions.resolve(root, index), None)

    def list_sources(self, node: Definition) -> tuple[Definition, ...]:
        """Returns the nodes from which a node is computed directly, each once."""
        found = self._sources.get(node)
        if found is None:
            found = self._sources[node] = tuple(dict.fromkeys(self._find_sources(node)))
        return found

    def find_time(self, number: int) -> int:
        """Returns the LogicalTime of the instruction with id `number`, its position in the flattened schedule. Returns
        -1 if it has none.
        """
        return self.readers.times.get(number, -1)

    def _see(self, definition: Definition, reader: HloInstruction | None) -> tuple[Definition, ...]:
        """Returns the node of this definition, and a node for each hidden write to it that this reader may see. reader:
        None for the program's end, which sees all of them.
        """
        if definition not in self._written:
            return (definition,)
        kernels = [(w, kernel) for w, kernel in self._written[definition] if self.is_seen(kernel, definition, reader)]
        return (*[name_written(write, self.find_step(kernel.id)) for write, kernel in kernels], definition)

    def is_seen(self, kernel: HloInstruction, definition: Definition, reader: HloInstruction | None) -> bool:
        """Returns whether a reader reads the bytes of a value after the kernel has overwritten them. A read in a later
        iteration counts. definition: the value. reader: None for an output of the program.
        """
        if reader is None:
            return True
        if reader.opcode == "parameter":  # a loop reads its state at the end of an iteration
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
        if index and index[0] < 0:  # the kernel computes its write from its operands
            yield from self._list_read(instruction, range(len(instruction.operands)))
            return
        carried = self._find_carrying(instruction)
        if carried is not None:
            body = self.computations[carried.called_computations[0]]
            yield self.readers.positions.resolve(carried.operands[0], index)
            yield from self._see(self.readers.positions.resolve(body.root, index), instruction)
        elif instruction.opcode == "conditional":
            for callee in instruction.called_computations:
                returned = self.readers.positions.resolve(self.computations[callee].root, index)
                yield from self._see(returned, instruction)
        elif instruction.opcode == "fusion":
            operands = self._find_fused(instruction).get(index)
            yield from self._list_read(instruction, operands or range(len(instruction.operands)))
        elif index and is_operandwise(instruction):
            yield from self._list_read(instruction, (index[-1],))
        elif instruction.opcode != "parameter":
            yield from self._list_read(instruction, range(len(instruction.operands)))

    def _find_carrying(self, instruction: HloInstruction) -> HloInstruction | None:
        """Returns the loop that carries the value that the instruction defines; None if no loop does."""
        if instruction.opcode == "while":
            return instruction
        home = self.homes[instruction.id]
        caller = self.callers.get(home.id) if instruction.opcode == "parameter" else None
        return caller if caller is not None and caller.opcode == "while" else None

    def _list_read(self, reader: HloInstruction, operands: Iterable[int]) -> Iterator[Definition]:
        for value in [reader.operands[number] for number in operands if number < len(reader.operands)]:
            for index in iterate_leaves(value.shape):
                yield from self._see(self.readers.positions.resolve(value, index), reader)

    def _find_fused(self, fusion: HloInstruction) -> Mapping[ShapeIndex, tuple[int, ...]]:
        """Maps each leaf of a fusion's result to the numbers of the operands from which the leaf is computed; empty if
        the result is not a tuple.
        """
        found = self._fused.get(fusion.id)
        if found is not None:
            return found
        computation = self.computations[fusion.called_computations[0]]
        result: dict[ShapeIndex, tuple[int, ...]] = {}
        if computation.root.opcode == "tuple":
            for number, value in enumerate(computation.root.operands):
                if not is_tuple(value.shape):
                    used = {o.proto.parameter_number for o in search([value], list_operands) if o.opcode == "parameter"}
                    result[number,] = tuple([n for n in range(len(fusion.operands)) if n in used])
        self._fused[fusion.id] = result
        return result

    def find_path(
        self, starts: tuple[Definition, ...], is_target: Callable[[Definition], bool]
    ) -> tuple[Definition, ...]:
        """Returns a shortest path that begins with a node for which `is_target` is true, and ends with a node in
        `starts`. Each node on the path is computed from the node before it. Both ends are included; returns () if there
        is no path.
        """
        return find_shortest_path(starts, self.list_sources, is_target)[::-1]

    def name_steps(self, path: tuple[Definition, ...]) -> tuple[int, ...]:
        """Returns the ids of the steps along a path of nodes. Consecutive nodes with the same step give one id."""
        steps = [self.find_step(number) for number, _ in path]
        return tuple([step for n, step in enumerate(steps) if n == 0 or steps[n - 1] != step])

    def compute_reach(self) -> Mapping[Definition, int]:
        """Returns, for each node, the outputs that are computed from it. They are the bits of an integer: bit n for output
        n.
        """
        if self._reached is not None:
            return self._reached
        reached = self._reached = {}
        pending: list[tuple[int, Definition]] = []
        waiting: set[Definition] = set()

        def add(node: Definition, bits: int) -> None:
            if bits & ~reached.get(node, 0):
                reached[node] = reached.get(node, 0) | bits
                if node not in waiting:
                    waiting.add(node)
                    heappush(pending, (-self.find_time(node[0]), node))

        for number, nodes in enumerate(self.list_output_nodes()):
            for node in nodes:
                add(node, 1 << number)
        while pending:  # late nodes first, so that few are met twice
            _, node = heappop(pending)
            waiting.discard(node)
            for source in self.list_sources(node):
                add(source, reached[node])
        return reached

    def list_nodes(self, step: int) -> tuple[Definition, ...]:
        """Returns the nodes of a step from which at least one output is computed. step: id of the step."""
        if self._nodes is None:
            self._nodes = {}
            for node in self.compute_reach():
                self._nodes.setdefault(self.find_step(node[0]), []).append(node)
        return tuple(self._nodes.get(step, ()))

    def find_shortest_paths(self, starts: Iterable[Definition]) -> Mapping[Definition, Definition | None]:
        """Finds shortest paths from `starts` in the direction of the outputs. Maps each node that is computed from
        a start to the node before it on a shortest path, and a start to None.
        """
        if self._users is None:
            self._users = {}
            for node in self.compute_reach():
                for source in self.list_sources(node):
                    self._users.setdefault(source, []).append(node)
        users = self._users
        return search(starts, lambda node: users.get(node, ()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PerformedWrite:
    """A hidden write that the schedule performs, and the value that the write overwrites."""

    write: HiddenWrite
    actual: ActualWrite
    overwritten: Overwritten
    kernel: int
    """Id of the step that runs the kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class FollowedWrites:
    """The graph of a schedule's values, with the hidden writes that the schedule performs."""

    flow: ValueFlow
    performed: tuple[PerformedWrite, ...]
    """The writes in program order; several calls that perform the same write are ordered by LogicalTime. () if the
    module is not scheduled.
    """


def follow_writes(pair: EvaluatedPair) -> FollowedWrites:
    """Builds the graph of the schedule's values, with a node for every hidden write that the schedule performs."""
    flow = ValueFlow(ValueReaders(pair))
    performed = tuple(_list_performed(pair, flow)) if pair.optimized.is_scheduled else ()
    for one in performed:
        flow.add_write(one.write.index, one.overwritten)
    return FollowedWrites(flow, performed)


def _list_performed(pair: EvaluatedPair, flow: ValueFlow) -> Iterator[PerformedWrite]:
    times = flow.readers.times
    for write in pair.writes:
        calls = [actual for actual in pair.matching.actual if actual.write == write.index]
        for actual in sorted(calls, key=lambda one: times.get(one.call.id, 0)):
            overwritten = flow.readers.find_overwritten(write, actual)
            kernel = flow.find_step(overwritten.kernel.id)
            yield PerformedWrite(write=write, actual=actual, overwritten=overwritten, kernel=kernel)
