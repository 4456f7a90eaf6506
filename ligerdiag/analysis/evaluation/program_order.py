"""Computes the dependence sets of the program as the author wrote it: program order, every value with its own storage.

A dependence set says on which hidden writes a value depends (see `labels`). In this evaluation, a *storage* is the
place of one array, identified by a number, and has a dependence set. Operations are identified by *tag path*: the tag
of the operation (the number that ligerdiag gave it before the compile), after the tags of the calls that lead to it.

- The order is that of the tags, which the compile worker numbers in program order; an instruction without a tag follows
  its operands.
- Every instruction that computes makes new storage. `tuple`, `get-tuple-element`, parameters of a `call` or of a
  `conditional`'s branch, and loop parameters that the body returns unchanged (closed-over values, for example) are
  other names for existing storage. A loop's other parameters have storage of the loop's own. The instructions at the
  edges of a shard_map are other names too: a kernel that overwrites a device's part of an array inside overwrites the
  array outside.
- A kernel's hidden write changes the storage of its operand for every later reader. An output with a declared alias
  that the schedule breaks (see `writes`) is a copy of the operand, which the kernel overwrites.
- In the program as written, snapshots (copies that ligerdiag adds, see `compile.lowering.intent`) show which version of a
  value autodiff means to read. In a program that MLIR has canonicalized, an operation that autodiff derived from an
  operation before the write reads the version from before it. Other doubts about the version get marks, extra bits in
  dependence sets (see `ambiguities`).
- A loop's results depend on its predicate. If the loop runs at least once, they do not depend on the initial values
  that they replace. Loops run to a fixpoint. The body of a loop that runs exactly once counts as code outside of a
  loop, because XLA inlines it. After a branch, and after a loop that may not run, alternatives meet (see
  `LabelSpace.meet`). A branch that is never taken and a loop that never runs (see `hlo.fixed_values`) do nothing.
- Each result of a collective of several operands depends on its own operand alone.
- A slice of a concatenation depends only on the operands from which it takes elements (the *pieces*), even if other
  operations come between the two (see `pieces`): XLA may compute each piece alone. The evaluation of the schedule
  follows pieces through the same operations.
- A program that was read from HLO may have fusions: fused instructions are evaluated one by one, and a fusion's results
  have their own storage.

Not modelled: infeed, send and recv count as operations on their operands alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType

from ligerdiag.analysis.evaluation.ambiguities import (
    CONSTANTS,
    AmbiguityMarker,
    StoredValue,
    compute_residual_lines,
    find_file_location,
    find_recomputed,
    has_names,
    is_derivative,
    list_leaves,
)
from ligerdiag.analysis.evaluation.carriers import Carriers
from ligerdiag.analysis.evaluation.labels import (
    Confluence,
    Labels,
    LabelSpace,
    decides,
    is_one_choice,
    list_unused,
    takes_part,
    transfer_call,
    unite,
)
from ligerdiag.analysis.evaluation.pieces import (
    ALL_REDUCES,
    ArrayRegion,
    Pieces,
    PiecewiseLabels,
    follow_pieces,
    union_of,
)
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite
from ligerdiag.hlo.counters import find_trips, runs_once
from ligerdiag.hlo.dataflow import is_operandwise, is_shard_edge
from ligerdiag.hlo.fixed_values import find_branch, never_runs, sort_branches
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto

CARRIED: TagPath = (-1,)
"""The tag path that `TaggedSet.edges` has for an operand that is an element of a loop's state."""


def name_leaf(path: TagPath, number: int) -> TagPath:
    """Returns a tag path for one leaf in the result of a loop or conditional. The leaf can then get a mark.

    path: tag path of the loop or conditional. number: number of the leaf. The last element is negative, `(5, -2)` for leaf 0
    of loop 5, and so is no operation's tag.
    """
    return (*path, -2 - number)


_NOTHING = frozenset[TagPath]()
_STRUCTURE = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT, Trait.CONTROL_FLOW) | {"fusion"}
_ONE_ARRAY = having(Trait.ONE_ARRAY)
_BARRIERS = having(Trait.BARRIER)
_OPERANDWISE = having(Trait.OPERANDWISE) - having(Trait.START)


@dataclass(slots=True)
class TaggedSet:
    """A tagged operation of the program with its dependence set, and the nearest tagged operations from which it is
    computed.
    """

    opcode: str
    labels: Labels
    operands: frozenset[TagPath]
    """Tag paths of the nearest tagged operations from which this one is computed, looking through untagged
    instructions.
    """
    edges: tuple[tuple[TagPath, Labels], ...] = ()
    """For an operation with several operands, one pair for each operand: the tag path of the nearest tagged operation
    from which the operand is computed, and the operand's dependence set when it is read. The path is CARRIED for an
    element of a loop's state as the loop passes it in, and () if there is no such operation, or more than one.
    """


def _take(value: StoredValue, number: int) -> StoredValue:
    return value[number] if isinstance(value, tuple) else value


def _replace(value: StoredValue, index: ShapeIndex, new: StoredValue) -> StoredValue:
    if not index or not isinstance(value, tuple):
        return new
    first, *rest = index
    return (*value[:first], _replace(value[first], tuple(rest), new), *value[first + 1 :])


@dataclass(frozen=True, slots=True, eq=False)
class Intended:
    """The result of `compute_intended`: the dependence sets of the program as written."""

    outputs: tuple[Labels, ...]
    """The dependence set of each leaf of the entry computation's root, in order."""
    tagged: Mapping[TagPath, TaggedSet]
    """Maps a tag path to the dependence set of the operation, for every operation that computes and has a tag."""
    operands: Mapping[int, tuple[Labels, ...]] = field(default_factory=dict[int, tuple[Labels, ...]])
    """Maps the index of a hidden write to the dependence sets of the operands of its kernel's call, when the call runs;
    each is the union over all iterations.
    """
    confluences: Mapping[TagPath, Confluence] = field(default_factory=dict[TagPath, Confluence])
    """Maps the tag path of a loop or conditional to the alternative values, one of which becomes its result."""


def compute_intended(
    module: HloModule,
    writes: tuple[HiddenWrite, ...],
    carriers: Carriers,
    effects_of: EffectsOf,
    space: LabelSpace,
    *,
    marked: Mapping[TagPath, Labels] | None = None,
    canonicalized: bool = False,
    has_snapshots: bool = True,
    records: bool = True,
    undecided: Labels = 0,
    rows: Mapping[int, ArrayRegion] = MappingProxyType({}),
    direct: bool = False,
    whole: Labels = 0,
) -> Intended:
    """Evaluates the unoptimized module in program order, and returns the dependence sets of its values.

    marked: maps the tag path of an operation to marks, extra bits in the set of its result. canonicalized: whether MLIR's
    canonicalizer has changed the module. has_snapshots: whether snapshots show which version of a value autodiff means to
    read; a canonicalized module has none. records: whether to fill `Intended.tagged` too, or only the outputs. undecided:
    marks that end at a decision (see `labels.decides`), and at a choice if one of its alternatives lacks them. rows: maps
    the index of a hidden write to the rows that it overwrites; a write without an entry overwrites all rows. direct: whether
    a set describes only the bytes of a value itself (see `labels.transfer_call`). whole: labels that end where an operation
    takes a part of an array (see `labels.takes_part`).
    """
    to_constants: frozenset[int] = frozenset()
    while True:
        evaluation = _Evaluation(
            module,
            writes,
            carriers,
            effects_of,
            space,
            marked or {},
            canonicalized,
            to_constants,
            has_snapshots=has_snapshots and not canonicalized,
            records=records,
            undecided=undecided,
            rows=rows,
            direct=direct,
            whole=whole,
        )
        intended = evaluation.run_entry()
        found = frozenset(evaluation.ambiguities.to_constants)
        if found == to_constants:
            return intended
        to_constants = found  # evaluate again: constants come before the writes to them


@dataclass(slots=True, eq=False)
class _Evaluation:
    module: HloModule
    writes: tuple[HiddenWrite, ...]
    carriers: Carriers
    effects_of: EffectsOf
    space: LabelSpace
    marked: Mapping[TagPath, Labels]
    canonicalized: bool
    to_constants: frozenset[int]
    """Indices of the hidden writes that overwrite a value computed from constants alone."""
    has_snapshots: bool = True
    records: bool = True
    undecided: Labels = 0
    rows: Mapping[int, ArrayRegion] = MappingProxyType({})
    direct: bool = False
    whole: Labels = 0
    tagged: dict[TagPath, TaggedSet] = field(default_factory=dict[TagPath, TaggedSet])
    confluences: dict[TagPath, Confluence] = field(default_factory=dict[TagPath, Confluence])
    _storage: list[Labels] = field(default_factory=list[Labels])
    _upstream: dict[int, frozenset[TagPath]] = field(default_factory=dict[int, frozenset[TagPath]])
    """Maps the number of a storage to the tag paths of the nearest tagged operations from which its value is computed.
    """
    _pieces: dict[int, Pieces] = field(default_factory=dict[int, Pieces])
    """Maps the number of a storage to the separate dependence sets of its value's pieces, for a concatenation or a
    value made from one.
    """
    _by_call: dict[tuple[TagPath, int], tuple[HiddenWrite, ...]] = field(
        default_factory=dict[tuple[TagPath, int], tuple[HiddenWrite, ...]]
    )
    _before: dict[int, tuple[int, Labels]] = field(default_factory=dict[int, tuple[int, Labels]])
    """Maps the number of an overwritten storage to (index of the hidden write, dependence set just before the write).
    """
    ambiguities: AmbiguityMarker = field(init=False)
    _carried: set[int] = field(default_factory=set[int])
    """Numbers of the storage that holds the states of the loops around the current instruction. An operand in such
    storage has the path CARRIED in `TaggedSet.edges`.
    """
    _seen: set[int] = field(default_factory=set[int])
    """Indices of the hidden writes met so far; in a loop or branch, of those met inside it."""
    _overwriting: frozenset[TagPath] = field(init=False)
    """Tag paths of the calls with hidden writes."""
    _carrying: frozenset[int] = field(init=False)
    """Ids of the carriers, instructions that hold the old value of a kernel's operand (see `carriers`), for any call
    path.
    """
    _given: dict[int, tuple[Labels, ...]] = field(default_factory=dict[int, tuple[Labels, ...]])
    """Collects the dependence sets of the operands of kernel calls, for `Intended.operands`."""
    _call_edges: tuple[tuple[TagPath, Labels], ...] = ()
    """The `TaggedSet.edges` of the current call, from before the call overwrites its operands."""
    _declared: list[tuple[ShapeIndex, StoredValue]] = field(default_factory=list[tuple[ShapeIndex, StoredValue]])
    """Outputs of the current call whose declared alias is broken: (index of the output, the storage that the output
    gets instead of the operand's).
    """

    def __post_init__(self) -> None:
        self._carrying = frozenset([number for _, number in self.carriers.instructions])
        self._overwriting = frozenset([write.tag_path for write in self.writes])
        recomputed = find_recomputed(self.module, () if self.has_snapshots else self.writes)
        self.ambiguities = AmbiguityMarker(
            self.module,
            self.space,
            compute_residual_lines(self.writes),
            self.canonicalized,
            self.canonicalized or self.has_snapshots or has_names(self.module),
            recomputed,
        )
        for write in self.writes:
            key = (write.tag_path, write.call.id)
            self._by_call[key] = (*self._by_call.get(key, ()), write)

    def run_entry(self) -> Intended:
        arguments: list[StoredValue] = []
        for parameter in self.module.entry.parameters:
            carried = self.carriers.parameters.get(parameter.proto.parameter_number, ())
            arguments.append(self.allocate(parameter.shape, unite(map(self.space.original, carried))))
        root = self.run(self.module.entry, arguments, (), 0)
        outputs = tuple(self.read_leaves(self.module.entry.root, root))
        return Intended(outputs, self.tagged, self._given, self.confluences)

    def allocate(self, shape: ShapeProto, labels: Labels) -> StoredValue:
        """Makes new storage for a value of shape `shape`. labels: the dependence set that every leaf gets."""
        if is_tuple(shape):
            return tuple([self.allocate(child, labels) for child in shape.tuple_shapes])
        self._storage.append(labels)
        return len(self._storage) - 1

    def leaves(self, value: StoredValue) -> list[Labels]:
        return [self._storage[index] for index in list_leaves(value)]

    def run(
        self, computation: HloComputation, arguments: list[StoredValue], prefix: TagPath, level: int
    ) -> StoredValue:
        """Evaluates a computation once; returns the value of its root. prefix: tags of the calls that lead to the
        computation. level: number of loops around the computation.
        """
        values: dict[int, StoredValue] = {}
        for instruction in self.module.sort_in_program_order(computation):
            opcode = instruction.opcode
            operands = [values[o.id] for o in instruction.operands]
            if opcode == "parameter":
                values[instruction.id] = arguments[instruction.proto.parameter_number]
            elif is_shard_edge(instruction):
                values[instruction.id] = tuple(operands) if is_tuple(instruction.shape) else operands[0]
            elif opcode in _STRUCTURE:
                values[instruction.id] = self._follow(instruction, operands, prefix, level)
            else:
                values[instruction.id] = self._compute(instruction, operands, prefix)
        return values[computation.root.id]

    def _follow(
        self, instruction: HloInstruction, operands: list[StoredValue], prefix: TagPath, level: int
    ) -> StoredValue:
        match instruction.opcode:
            case "tuple":
                return tuple(operands)
            case "get-tuple-element":
                whole = operands[0]
                assert isinstance(whole, tuple)
                return whole[instruction.proto.tuple_index]
            case "fusion":
                callee = self.module.computations[instruction.called_computations[0]]
                return self._copy(self.run(callee, operands, prefix, level))
            case "call":
                callee = self.module.computations[instruction.called_computations[0]]
                return self.run(callee, operands, (*prefix, *self.module.find_tag_path(instruction)), level)
            case "while" if never_runs(self.module, instruction):
                body, condition = (self.module.computations[c] for c in instruction.called_computations)
                state = self._copy_except(operands[0], body.kept_elements)
                self.run(condition, [state], prefix, level)
                return state
            case "while" if runs_once(self.module, instruction):
                return self._run_once(instruction, operands[0], prefix, level)
            case "while":
                return self._run_loop(instruction, operands[0], prefix, level + 1)
            case _:
                return self._run_branches(instruction, operands, prefix, level)

    def _compute(self, instruction: HloInstruction, operands: list[StoredValue], prefix: TagPath) -> StoredValue:
        opcode, pieces = instruction.opcode, None
        ambiguous = self.ambiguities.find(instruction, operands) if self.ambiguities.overwritten else 0
        tags = self.module.tags.get(instruction.id, ())
        path = (*prefix, *tags) if prefix else tags
        if opcode in _BARRIERS:
            return self._add(self._copy(operands[0]), ambiguous | self.marked.get(path, 0))
        labels = ambiguous
        if opcode == "custom-call":
            labels = self._call_kernel(instruction, operands, path, ambiguous)
        elif (
            not self.has_snapshots
            and self._before
            and not self._before.keys().isdisjoint(operands)
            and is_derivative(instruction)
        ):
            labels |= unite(self._read_before_write(instruction, operands))
        else:
            storage = self._storage
            for value in operands:
                labels |= storage[value] if isinstance(value, int) else self._union(value)
            if labels and (opcode == "concatenate" or not self._pieces.keys().isdisjoint(operands)):
                pieces = self._follow_pieces(instruction, operands)
                labels = ambiguous | union_of(pieces)
        started = ambiguous
        if instruction.id in self._carrying:
            started |= unite(map(self.space.original, self.carriers.instructions.get((path, instruction.id), ())))
        if self.marked:
            started |= self.marked.get(path, 0)
        if self.ambiguities.recomputed:
            started |= self.ambiguities.mark_recomputed(instruction)
        if self.to_constants and opcode in CONSTANTS:
            started |= self.ambiguities.mark_constants(self.to_constants)
        labels |= started
        if self.undecided & labels and (ended := self._find_ended(instruction, operands)):
            labels, pieces, started = labels & ~ended, None, started & ~ended
        if self.whole & labels and takes_part(instruction):
            labels, pieces, started = labels & ~self.whole, None, started & ~self.whole
        if opcode in _ONE_ARRAY or isinstance(pieces, Pieces):
            value = len(self._storage)
            self._storage.append(labels)
            if isinstance(pieces, Pieces):
                self._pieces[value] = pieces.add(started)
        elif opcode in _OPERANDWISE and is_operandwise(instruction):
            sets = self._read_before_write(instruction, operands)
            shapes = instruction.shape.tuple_shapes
            value = tuple([self.allocate(shape, one | started) for shape, one in zip(shapes, sets, strict=True)])
            if opcode in ALL_REDUCES:
                self._keep_pieces(operands, value, started)
        else:
            value = self.allocate(instruction.shape, labels)
            while self._declared:
                value = _replace(value, *self._declared.pop())
        if self.canonicalized:
            self.ambiguities.follow(instruction, operands, value)
        if self.records and (labels or tags):
            self._record(opcode, path if tags else (), labels, operands, value)
        return value

    def _find_ended(self, instruction: HloInstruction, operands: list[StoredValue]) -> Labels:
        """Returns the `undecided` marks that end at this instruction, because it makes a decision or a choice; 0 if it
        makes neither.
        """
        if decides(instruction):
            return self.undecided
        if is_one_choice(instruction):
            one, other = (self._union(value) for value in operands[1:])
            return self.undecided & ~(one & other)
        return 0

    def _follow_pieces(self, instruction: HloInstruction, operands: list[StoredValue]) -> PiecewiseLabels:
        """Returns the dependence set of a concatenation, or of a value made from one; if the pieces that come from the
        single operands of the concatenation are known, returns a set for each piece instead.
        """
        known = [self._pieces.get(value, self._storage[value]) for value in operands if isinstance(value, int)]
        found = follow_pieces(instruction, known)
        return unite(map(union_of, known)) if found is None else found

    def _keep_pieces(self, operands: list[StoredValue], results: tuple[StoredValue, ...], started: Labels) -> None:
        """Copies the pieces of each operand of a collective to the result that is computed from this operand. started:
        labels to add to every piece.
        """
        for operand, result in zip(operands, results, strict=True):
            if isinstance(operand, int) and isinstance(result, int) and operand in self._pieces:
                self._pieces[result] = self._pieces[operand].add(started)

    def _call_kernel(
        self, call: HloInstruction, operands: list[StoredValue], path: TagPath, ambiguous: Labels
    ) -> Labels:
        """Calls a kernel, whose hidden writes change the dependence sets of storage; returns the set that the call's
        results get. path: the call's tag path. ambiguous: marks to add to the sets of the operands.
        """
        own = self._by_call.get((path, call.id), ())
        certain = ~self.ambiguities.mark_constants(self.to_constants & {write.index for write in own})
        sets = [(one | ambiguous) & certain for one in self._read_before_write(call, operands)]
        # no CONSTANT mark of the call's own writes: the call certainly reads the value that it overwrites
        if self.records and len(operands) > 1:
            self._call_edges = self._describe_edges(operands)
        effects = self.effects_of(call)
        unused = list_unused(effects, call)
        transfer = transfer_call(effects, sets, own, self.space, direct=self.direct, unused=unused)
        for write in own:
            known = self._given.get(write.index, (0,) * len(sets))
            self._given[write.index] = tuple([one | new for one, new in zip(known, sets, strict=False)])
        for number, dropped, added in transfer.written:
            write = next(w for w in own if w.operand == number)
            written = operands[number] if write.output is None else self._copy(operands[number])
            if write.output is not None:
                self._declared.append((write.output, written))
            for index in list_leaves(written):
                self._before[index] = (write.index, self._storage[index])
                if not self.has_snapshots:
                    self.ambiguities.overwrite(write.index, index, len(self._storage))
                pieces, rows = self._pieces.pop(index, None), self.rows.get(write.index)
                if rows is None:
                    self._storage[index] = self._storage[index] & ~dropped | added | self.marked.get(path, 0)
                else:
                    self._pieces[index] = rows.replace(pieces or self._storage[index], dropped, added)
                    self._storage[index] = self._pieces[index].union
                self._upstream[index] = self._upstream.get(index, frozenset()) | {path}
        self._seen.update(write.index for write in own)
        return transfer.results

    def _describe_edges(self, operands: list[StoredValue]) -> tuple[tuple[TagPath, Labels], ...]:
        """Returns the entry of `TaggedSet.edges` for each of these operands: (tag path, dependence set). A kernel call
        that has overwritten an operand is skipped: the path is then that of the operation which defined the operand.
        """
        found: list[tuple[TagPath, Labels]] = []
        for operand in operands:
            if operand in self._carried:
                found.append((CARRIED, self._union(operand)))
                continue
            above = self._upstream.get(operand, _NOTHING) - self._overwriting if isinstance(operand, int) else _NOTHING
            found.append((next(iter(above)) if len(above) == 1 else (), self._union(operand)))
        return tuple(found)

    def _record(
        self, opcode: str, path: TagPath, labels: Labels, operands: list[StoredValue], value: StoredValue
    ) -> None:
        known = self._upstream
        above: list[frozenset[TagPath]] = []
        for operand in operands:
            for index in (operand,) if isinstance(operand, int) else list_leaves(operand):
                if index in known:
                    above.append(known[index])
        upstream = _NOTHING.union(*above) if len(above) > 1 else above[0] if above else _NOTHING
        if path:
            edges: tuple[tuple[TagPath, Labels], ...] = ()
            if opcode == "custom-call":
                edges, self._call_edges = self._call_edges, ()
            elif labels and len(operands) > 1:
                edges = self._describe_edges(operands)
            if path in upstream:  # several instructions here are one operation of the author's
                upstream = upstream - {path} | (self.tagged[path].operands if path in self.tagged else _NOTHING)
            self.tagged[path] = TaggedSet(opcode, labels, upstream, edges)
            upstream = frozenset((path,))
        for index in (value,) if isinstance(value, int) else list_leaves(value):
            known[index] = upstream

    def _read_before_write(self, reader: HloInstruction, operands: list[StoredValue]) -> list[Labels]:
        """Returns the dependence set of each operand. In a program without snapshots, an operation that autodiff derived
        from an operation before a write gets the operand's set from before this write.
        """
        sets = [self._union(value) for value in operands]
        if not self.has_snapshots and self._before and is_derivative(reader):
            location = find_file_location(self.module, reader)
            for number, value in enumerate(operands):
                if isinstance(value, int) and value in self._before:
                    write, before = self._before[value]
                    if location in self.ambiguities.lines[write].locations:
                        sets[number] = before
        return sets

    def read_leaves(self, reader: HloInstruction, value: StoredValue) -> list[Labels]:
        """Returns the dependence set of each leaf of a computation's result. The set has a mark for each ambiguity of the
        leaf, a reason why its intended version is unknown (see `ambiguities`). value: the result. reader: root of the
        computation; the marks name it as the reader.
        """
        return [self._storage[index] | self.ambiguities.find_of_storage(reader, index) for index in list_leaves(value)]

    def _add(self, value: StoredValue, labels: Labels) -> StoredValue:
        """Adds these labels to the dependence set of each leaf of the value; returns the value."""
        for index in list_leaves(value) if labels else ():
            self._pieces.pop(index, None)
            self._storage[index] |= labels
        return value

    def _put(self, value: StoredValue, sets: list[Labels]) -> None:
        for index, labels in zip(list_leaves(value), sets, strict=True):
            self._pieces.pop(index, None)
            self._storage[index] = labels

    def _copy(self, value: StoredValue) -> StoredValue:
        if isinstance(value, tuple):
            return tuple([self._copy(child) for child in value])
        self._storage.append(self._storage[value])
        copied = len(self._storage) - 1
        if value in self._carried:
            self._carried.add(copied)
        if value in self._upstream:
            self._upstream[copied] = self._upstream[value]
        if value in self._pieces:
            self._pieces[copied] = self._pieces[value]
        return copied

    def _copy_except(self, state: StoredValue, kept: frozenset[int]) -> StoredValue:
        """Returns a copy of a loop's state in new storage; the elements whose numbers are in `kept` keep their storage."""
        if not isinstance(state, tuple):
            return self._copy(state)
        return tuple([child if number in kept else self._copy(child) for number, child in enumerate(state)])

    def _union(self, value: StoredValue) -> Labels:
        if isinstance(value, int):
            return self._storage[value]
        return unite(self.leaves(value))

    def _run_loop(self, instruction: HloInstruction, initial: StoredValue, prefix: TagPath, level: int) -> StoredValue:
        body, condition = (self.module.computations[c] for c in instruction.called_computations)
        given = self.leaves(initial)
        if len(given) == len(body.rotated_elements):
            alternatives = [tuple([given[element] for element in chain]) for chain in body.rotated_elements]
            given = [
                labels | marks
                for labels, marks in zip(given, self._meet(instruction, prefix, alternatives), strict=True)
            ]
        head = given
        seen_outside = set(self._seen)
        kept, around = body.kept_elements, set(self._carried)
        shared = {index for number in kept for index in list_leaves(_take(initial, number))}
        while True:
            state = self._copy_except(initial, kept)
            self._put(state, head)
            self._carried.update(list_leaves(state))
            self._seen = set()
            going_on = self.run(condition, [state], prefix, level)
            predicate = self._union(going_on)
            self._add_upstream(going_on, [index for index in list_leaves(state) if index not in shared])
            result = self.run(body, [state], prefix, level)
            inside = frozenset(self._seen)
            leaves = zip(list_leaves(state), head, self.read_leaves(body.root, result), strict=True)
            ends = [
                self.space.advance(
                    after if index in shared and self._storage[index] == before else after | predicate, level, inside
                )
                for index, before, after in leaves
            ]
            following = [before | after for before, after in zip(head, ends, strict=True)]
            if following == head:
                self._seen |= seen_outside
                self._carried = around
                if instruction.id not in find_trips(self.module):
                    ends = [self.space.meet(alternatives, inside) for alternatives in zip(given, ends, strict=True)]
                self._put(state, ends)
                if (path := (*prefix, *self.module.find_tag_path(instruction))) in self.confluences:
                    self.confluences[path] = replace(self.confluences[path], ends=tuple(ends), kept=kept)
                for new, old in zip(list_leaves(state), list_leaves(result), strict=True):
                    self._upstream[new] = self._upstream.get(old, frozenset()) | self._upstream.get(new, frozenset())
                return state
            head = following

    def _add_upstream(self, decider: StoredValue, decided: list[int]) -> None:
        """Adds the tagged operations from which a loop's predicate is computed to those from which the loop's state is
        computed.

        decider: the predicate. decided: numbers of the state's storage.
        """
        above = _NOTHING.union(*[self._upstream.get(index, _NOTHING) for index in list_leaves(decider)])
        for index in decided if above else ():
            self._upstream[index] = self._upstream.get(index, _NOTHING) | above

    def _run_once(self, instruction: HloInstruction, initial: StoredValue, prefix: TagPath, level: int) -> StoredValue:
        """Runs the body of a loop that has one iteration; the loop's state gets storage of its own, as for any loop."""
        body = self.module.computations[instruction.called_computations[0]]
        state = self._copy_except(initial, body.kept_elements)
        result = self.run(body, [state], prefix, level)
        upstream = [self._upstream.get(index, _NOTHING) for index in list_leaves(result)]
        self._put(state, self.read_leaves(body.root, result))
        for index, paths in zip(list_leaves(state), upstream, strict=True):
            self._upstream[index] = paths
        return state

    def _meet(
        self,
        instruction: HloInstruction,
        prefix: TagPath,
        alternatives: list[tuple[Labels, ...]],
        *,
        records: bool = True,
    ) -> list[Labels]:
        """Records the alternative values of which one becomes the result of a loop or conditional. Returns, for each
        leaf of the result, the marks (extra bits in dependence sets) that the caller of the evaluation has asked for
        under the key `name_leaf`; 0 if none.

        prefix: tags of the calls that lead to the instruction. alternatives: for each leaf, the dependence set of each
        alternative.
        """
        path = (*prefix, *self.module.find_tag_path(instruction))
        if self.records and records and path:
            self.confluences[path] = Confluence(instruction=instruction.name, alternatives=tuple(alternatives))
        return [
            self.marked.get(name_leaf(path, number), 0) if self.marked else 0 for number in range(len(alternatives))
        ]

    def _run_branches(
        self, instruction: HloInstruction, operands: list[StoredValue], prefix: TagPath, level: int
    ) -> StoredValue:
        predicate = self._union(operands[0])
        before = list(self._storage)
        seen_outside = self._seen
        self._seen = set()
        leaves: list[list[Labels]] = []
        ends: list[list[Labels]] = []
        results: list[list[int]] = []
        branches = list(zip(instruction.called_computations, operands[1:], strict=True))
        taken = find_branch(self.module, instruction)
        for callee, operand in branches if taken is None else branches[taken : taken + 1]:
            self._storage[: len(before)] = before
            branch = self.module.computations[callee]
            result = self.run(branch, [operand], prefix, level)
            results.append(list_leaves(result))
            leaves.append(self.read_leaves(branch.root, result))
            ends.append(self._storage[: len(before)])
        inside = frozenset(self._seen)
        self._seen |= seen_outside
        for index, alternatives in enumerate(zip(*ends, strict=True)):
            decided = (
                predicate if any(one != before[index] for one in alternatives) else 0
            )  # the predicate decides whether it is overwritten
            self._storage[index] = self.space.meet(alternatives, inside) | decided  # it has no pieces any more
        value = self.allocate(instruction.shape, 0)
        if taken is None:
            leaves = [leaves[number] for number in sort_branches(instruction)]
        meeting: list[tuple[Labels, ...]] = list(zip(*leaves, strict=True))
        marks = self._meet(instruction, prefix, meeting, records=taken is None)
        sets = [self.space.meet(alternatives, inside) | predicate for alternatives in meeting]
        if self.undecided:
            both = [reduce(int.__and__, alternatives) for alternatives in meeting]
            sets = [labels & ~self.undecided | every & self.undecided for labels, every in zip(sets, both, strict=True)]
        self._put(value, [labels | mark for labels, mark in zip(sets, marks, strict=True)])
        for new, *old in zip(list_leaves(value), *results, strict=True):
            self._upstream[new] = _NOTHING.union(
                *(self._upstream.get(index, _NOTHING) for index in (*old, *list_leaves(operands[0])))
            )
        return value
