"""Computes the dependence sets of the program as the GPU will run it: schedule order, on XLA's buffer assignment.

A dependence set says on which hidden writes a value depends; its elements are labels, such as ORIG for a dependence on
the contents from before a write (see `labels`).

- Computations run in the order of their sequence; a computation called by `while`, `call` or `conditional` runs at its
  caller. A fusion reads all of its operands at once, and its fused instructions are evaluated one by one, so that each
  of several outputs has its own set.
- Only instructions that define a buffer change memory: tuples, bitcasts and loop parameters are names of places, not
  copies.
- An asynchronous operation runs at its start. If a kernel may overwrite bytes while the operation reads them, its done
  gets a mark (an extra bit in the set), because the hardware decides which version the operation reads (see `races`).
- All devices run the same module in step, so a collective's result has the set of its operand.
- Loops run to a fixpoint, or once, as in the evaluation of the program; `labels` says which labels cross an iteration.
  A branch that is never taken and a loop that never runs (see `hlo.fixed_values`) do nothing.
- A custom call inside a fusion gets addresses: an operand that is a slice or bitcast of a fusion parameter is that
  parameter's memory.
- A read, after the kernel, of the slice that the kernel wrote sees the new value, so no ORIG starts at that read. If
  each iteration of a loop overwrites another slice, a read of this iteration's slice does not see earlier iterations'
  writes either.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.evaluation.carriers import Carriers
from ligerdiag.analysis.evaluation.fusions import FusionEvaluator, FusionSummaries, FusionSummary
from ligerdiag.analysis.evaluation.label_memory import (
    Actual,
    ActualWrite,
    LabelMemory,
    Occurrence,
    Places,
    Read,
    UnorderedRead,
    UnorderedReads,
    find_read_place,
)
from ligerdiag.analysis.evaluation.labels import (
    Confluence,
    InertInstructions,
    Labels,
    LabelSpace,
    list_unused,
    transfer_call,
    unite,
)
from ligerdiag.analysis.evaluation.loop_slices import forget_other_slices, is_made_outside
from ligerdiag.analysis.evaluation.pieces import ALL_REDUCES, Pieces, PiecewiseLabels, follow_pieces, union_of
from ligerdiag.analysis.evaluation.replaced_slices import find_replacing
from ligerdiag.analysis.writes import EffectsOf, Frame, Frames, HiddenWrite, list_entered
from ligerdiag.hlo.counters import find_trips, runs_once
from ligerdiag.hlo.dataflow import find_start, is_operandwise
from ligerdiag.hlo.fixed_values import never_runs, sort_branches
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex

_SILENT = having(Trait.LAUNCHES_NOTHING) - having(Trait.FROM_NOTHING)
"""Opcodes of instructions that move no bytes, and that the evaluation skips. Constants are not among them, because
labels may start at a constant.
"""

_SLICES = frozenset({"slice", "dynamic-slice"})
_FINISHES = having(Trait.DONE, Trait.UPDATE)


@dataclass(slots=True, eq=False)
class ScheduleEvaluation:
    """One evaluation of the optimized module in the order of its schedule; each run needs a new object."""

    module: HloModule
    fusions: FusionSummaries
    """Summaries of the module's fusions, shared by all evaluations."""
    space: LabelSpace
    carriers: Carriers
    effects_of: EffectsOf
    writes: Mapping[int, tuple[HiddenWrite, ...]]
    """Maps the id of a custom call in the optimized module to its hidden writes."""
    actual_writes: tuple[ActualWrite, ...]
    wanted: frozenset[TagPath]
    """Tag paths of the operations that are recorded even if they depend on no hidden write. (A tag path is the tag of
    an operation, after the tags of the calls that lead to it.)
    """
    marked: Mapping[int, Labels] = field(default_factory=dict[int, Labels])
    """Maps the id of an instruction, scheduled or fused, to marks: extra bits that the dependence sets of its results
    get.
    """
    carried: Mapping[int, Labels] = field(default_factory=dict[int, Labels])
    """Maps the id of a carrier, an instruction that holds the old value of a kernel's operand, to the ORIG labels that
    start there: they say that a value depends on these old contents (see `carriers`).
    """
    unrelated: Mapping[int, tuple[Labels, ...]] = field(default_factory=dict[int, tuple[Labels, ...]])
    """Maps the id of a call to one set for each of its operands: the ORIG labels (dependences on contents from before a
    write) that the operand cannot have.
    """
    records: bool = True
    """Whether the dependence sets of operations are recorded; otherwise only those of the outputs."""
    direct: bool = False
    """Whether a dependence set describes only the bytes of a value itself, and not the values from which they were
    computed (see `labels.transfer_call`).
    """
    raced: Mapping[int, Labels] = field(default_factory=dict[int, Labels])
    """Maps the id of an asynchronous start that races with a kernel to marks: extra bits that the dependence sets of
    its results get.
    """
    unordered: UnorderedReads = field(default_factory=dict[int, tuple[UnorderedRead, ...]])
    """The reads that no dependence orders with a hidden write to the same bytes."""
    memory: LabelMemory = field(init=False)
    places: Places = field(init=False)
    _occurrences: dict[TagPath, dict[int, Occurrence]] = field(init=False)
    _by_call: defaultdict[int, list[ActualWrite]] = field(init=False)
    _frames: dict[int, Frames] = field(default_factory=dict[int, Frames])
    _met: set[int] = field(default_factory=set[int])
    _traced: set[int] = field(default_factory=set[int])
    _pending: dict[int, Labels] = field(default_factory=dict[int, Labels])
    _started: frozenset[int] = field(init=False)
    """Ids of the instructions, scheduled or fused, at which labels or marks start."""
    _inert: InertInstructions = field(init=False)
    _made_outside: dict[tuple[ActualWrite, int], bool] = field(default_factory=dict[tuple[ActualWrite, int], bool])
    """Maps (write, slice number) to whether no instruction in the loop around the write defines a value in that slice
    of memory (see `is_made_outside`).
    """
    _distinct_slices: dict[int, list[ActualWrite]] = field(default_factory=dict[int, list[ActualWrite]])
    """Maps the number of a memory slice to the writes that overwrite a different part of that slice of memory in each
    iteration of a loop. Only writes with `ActualWrite.slice_tags` are listed: by these tags, other instructions that
    take the same part are recognized.
    """
    _replacing: dict[int, list[ActualWrite]] = field(init=False)
    """Maps the id of an update of a slice to the hidden writes of which it replaces every element."""
    _spread: dict[ActualWrite, bool] = field(default_factory=dict[ActualWrite, bool])
    """Maps a hidden write to whether other elements of its array depend on it too. They do if they already did when the
    kernel ran last, as in a loop that XLA has unrolled, or if a later kernel or one branch of a conditional may have
    computed them from what the write left.
    """
    _with_replacing: frozenset[int] = field(init=False)
    """Ids of the computations that contain one of these updates."""
    _lucky: Labels = field(init=False)
    """The marks of all lucky reads (reads that nothing orders with a hidden write), as one set."""
    _reads_pieces: frozenset[int] = field(init=False)
    """Ids of the instructions that make a lucky read (one that nothing orders with a hidden write) of an array of which
    the kernel overwrites only a known region.
    """
    _confluences: dict[TagPath, Confluence] = field(default_factory=dict[TagPath, Confluence])
    _entered: dict[int, Frames] = field(default_factory=dict[int, Frames])
    """Maps the id of a computation to the call path of its last run; if the next run has the same path, as in a loop's
    next iteration, the call paths of the instructions inside are kept.
    """

    def __post_init__(self) -> None:
        self._occurrences = defaultdict(dict)
        self._by_call = defaultdict(list)
        self._started = frozenset((*self.carried, *self.marked, *self.unordered))
        wanted = self.wanted if self.records else frozenset[TagPath]()
        self._inert = InertInstructions(self.module, self._started.union(self._list_raced_dones()), wanted)
        self.places = self.fusions.places
        self.memory = LabelMemory(self.module, self.places, self.space, self.unordered)
        unordered = [one for some in self.unordered.values() for one in some]
        self._lucky = unite(self.space.mark(one.lucky) for one in unordered)
        self._reads_pieces = frozenset(one.lucky.reader for one in unordered if one.region is not None)
        for write in self.actual_writes:
            self._by_call[write.call.id].append(write)
            for number in write.slices if write.distinct_per_iteration and write.slice_tags else ():
                self._distinct_slices.setdefault(number, []).append(write)

        self._replacing = find_replacing(self.module, self.actual_writes, self.writes)
        self._with_replacing = frozenset([self.module.homes[number].id for number in self._replacing])

    def _list_raced_dones(self) -> list[int]:
        """Returns the ids of the instructions that finish an asynchronous start which races with a kernel. They get the
        start's marks even if nothing that they read has labels.
        """
        finishing = [one for one in self.module.instructions if one.opcode in _FINISHES] if self.raced else []
        return [one.id for one in finishing if find_start(self.module, one).id in self.raced]

    def run(self) -> Actual:
        entry = self.module.entry
        for parameter in entry.parameters:
            carried = self.carriers.parameters.get(parameter.proto.parameter_number, ())
            labels = unite(map(self.space.original, carried))
            for number in self.places.locate(parameter):
                self.memory.put(number, labels)
        self._run_sequence(entry, (), 0)
        outputs = tuple([self.memory.sets.get(number, 0) for number in self.places.locate(entry.root)])
        return Actual(
            outputs,
            {path: tuple(found.values()) for path, found in self._occurrences.items()},
            self.actual_writes,
            self._frames,
            frozenset(self._traced),
            self._confluences,
        )

    def _run_sequence(self, computation: HloComputation, prefix: Frames, level: int) -> None:
        is_known = self._entered.get(computation.id) is prefix  # as in a loop's next iteration
        self._entered[computation.id] = prefix
        labelled, places, inert = self.memory.sets.keys(), self.places, self._inert
        for instruction in computation.sequence or computation.instructions:
            opcode = instruction.opcode
            if opcode in _SILENT:
                continue
            if is_known:
                frames = self._frames[instruction.id]
            else:
                frames = self._frames[instruction.id] = (*prefix, Frame(computation, instruction))
            if labelled.isdisjoint(places.list_read(instruction)) and inert.is_inert(instruction):
                self._skip_inert(instruction)
                continue
            match opcode:
                case "fusion":
                    self._run_fusion(instruction, frames)
                case "while" if runs_once(self.module, instruction):
                    for number in reversed(instruction.called_computations):  # the condition, then the body
                        self._run_sequence(self.module.computations[number], frames, level)
                case "while" if never_runs(self.module, instruction):
                    self._run_sequence(self.module.computations[instruction.called_computations[1]], frames, level)
                case "while":
                    self._run_loop(instruction, frames, level + 1)
                case "conditional":
                    self._run_branches(instruction, frames, level)
                case "call":
                    self._run_sequence(self.module.computations[instruction.called_computations[0]], frames, level)
                case "async-start":
                    self._start_async(instruction, frames, level)
                case "async-done" | "async-update":
                    self._finish_async(instruction)
                case "custom-call":
                    self._call_kernel(instruction, frames)
                case _:
                    self._compute(instruction, frames)

    def _skip_inert(self, instruction: HloInstruction) -> None:
        """Skips an inert instruction, one whose operands have no labels and at which none starts: empties the
        dependence sets of the memory slices that it defines, and records the operations in `wanted` that it computes.
        """
        for number in self.places.list_defined(instruction):
            self.memory.put(number, 0)
        sought = self._inert.list_sought(instruction)
        if sought:
            reads = tuple([(operand, place, 0) for operand, place in self.places.list_operands(instruction)])
            for operation in sought:
                self._occurrences[self.module.tags[operation.id]][operation.id] = Occurrence(
                    operation, instruction, 0, reads
                )

    def _read_operands(self, instruction: HloInstruction) -> tuple[Read, ...]:
        return self.memory.read_all(self.places.list_operands(instruction), instruction)

    def _compute(self, instruction: HloInstruction, frames: Frames) -> None:
        reads = self._read_operands(instruction)
        if instruction.id in self._replacing:
            reads = self._forget_replaced(instruction, instruction, reads)
        labels = 0
        for _, _, one in reads:
            labels |= one
        if self.raced and instruction.opcode in _FINISHES:
            raced = self.raced.get(find_start(self.module, instruction).id, 0)
            labels |= raced
            for number in self.places.locate(instruction) if raced else ():  # bytes that the start defined
                self.memory.put(number, self.memory.sets.get(number, 0) | raced)
        value = None
        if self.memory.pieces or instruction.id in self._reads_pieces or instruction.opcode == "concatenate":
            value = follow_pieces(instruction, self._list_piecewise(instruction, reads))
        if value is not None:
            labels = union_of(value)
        starting = self._find_starting(instruction, instruction, reads)
        labels |= starting
        if value is not None:
            started = starting | self.marked.get(instruction.id, 0)  # in each piece, whatever one of them has
            for number in self.places.list_defined(instruction):
                self.memory.put(number, value | started if isinstance(value, int) else value.add(started))
        elif is_operandwise(instruction):
            self._define_elements(instruction, reads)
        else:
            self._define(instruction, labels)
        self.record(instruction, instruction, labels, reads)

    def _list_piecewise(self, instruction: HloInstruction, reads: tuple[Read, ...]) -> list[PiecewiseLabels]:
        """Returns the dependence set of each operand; for an operand whose pieces are known, one set for each piece."""
        values: list[PiecewiseLabels] = [0] * len(instruction.operands)
        for number, place, labels in reads:
            pieces = self.memory.find_pieces(place, instruction, number)
            if pieces is None:
                values[number] = union_of(values[number]) | labels
            else:
                values[number] = pieces.add(labels & ~pieces.union)
        return values

    def _define_elements(self, collective: HloInstruction, reads: tuple[Read, ...]) -> None:
        """Stores the dependence sets of the results of a collective with several operands. Each result gets the set of
        one operand, whose number is the last entry of the result's ShapeIndex.
        """
        marks = self.find_started(collective, collective, reads)
        sets = self._list_piecewise(collective, reads)
        if collective.opcode not in ALL_REDUCES:
            sets = [union_of(one) for one in sets]
        for index, number in self.places.buffers.definitions.get(collective.id, ()):
            own = sets[index[-1]] if index else 0
            self.memory.put(number, own | marks if isinstance(own, int) else own.add(marks))

    def _define(self, instruction: HloInstruction, labels: Labels) -> None:
        labels |= self.marked.get(instruction.id, 0)
        for number in self.places.list_defined(instruction):
            self.memory.put(number, labels)

    def finish_fused(
        self, instruction: HloInstruction, scheduled: HloInstruction, labels: Labels, reads: tuple[Read, ...]
    ) -> Labels:
        """Returns the dependence set of a fused instruction, including the labels and marks that start at the instruction
        itself. Records the set if the instruction has a tag.
        """
        is_itself = True
        if instruction.id in self._replacing:
            reads = self._forget_replaced(instruction, scheduled, reads)
        if labels and instruction.opcode == "dynamic-slice" and self._distinct_slices:
            labels = self._forget_other_iterations(instruction, scheduled, labels, reads)
        if self.carried:
            started = self._find_starting(instruction, scheduled, reads)
            is_itself = started == self.carried.get(instruction.id, 0)
            labels |= started
        if self.records and is_itself:
            self.record(instruction, scheduled, labels, reads)
        return labels | self.marked.get(instruction.id, 0) if self.marked else labels

    def _find_starting(self, instruction: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]) -> Labels:
        """Returns the ORIG labels that start at an instruction, which say that its value depends on contents from
        before a write; without those of a write that has already overwritten everything that the instruction reads.
        """
        labels = self.carried.get(instruction.id, 0)
        if not labels or instruction.opcode not in _SLICES or not self.memory.raw:
            return labels
        place = find_read_place(self.module, instruction, scheduled, reads)
        return labels if place is None else labels & ~self.memory.list_overwritten(place, instruction)

    def find_started(self, instruction: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]) -> Labels:
        """Returns the ORIG labels and the marks that start at an instruction. ORIG labels are dependences on contents
        from before a write, marks are extra bits.
        """
        return self._find_starting(instruction, scheduled, reads) | self.marked.get(instruction.id, 0)

    def record(
        self, instruction: HloInstruction, scheduled: HloInstruction, labels: Labels, reads: tuple[Read, ...]
    ) -> None:
        """Records the dependence set of a tagged operation. Does nothing if the set is empty and the operation is not in
        `wanted`.
        """
        path = self.module.tags.get(instruction.id) if self.records else None
        if path and (labels or path in self.wanted):
            self._occurrences[path][instruction.id] = Occurrence(instruction, scheduled, labels, reads)

    def _run_fusion(self, instruction: HloInstruction, frames: Frames) -> None:
        reads = self._read_operands(instruction)
        pieces = (
            self._find_pieces(instruction, reads) if self.memory.pieces or instruction.id in self._reads_pieces else {}
        )
        is_followed = pieces or self._reads_distinct_slice(reads) or self._replaces_slice(instruction)
        summary = None if is_followed else self.fusions.find(instruction)
        if summary is not None and self._started.isdisjoint(summary.computed):
            self._run_summarized(instruction, summary, reads)
            return
        leaves = FusionEvaluator(self.module, self, instruction, reads, pieces).run()
        marks = self.marked.get(instruction.id, 0)
        for number, value in self._place_leaves(instruction, leaves):
            self.memory.put(number, value | marks if isinstance(value, int) else value.add(marks))

    def _reads_distinct_slice(self, reads: tuple[Read, ...]) -> bool:
        """Returns whether one of these reads is of memory in which a kernel overwrites a different slice in each
        iteration of a loop.
        """
        return bool(self._distinct_slices) and any(place in self._distinct_slices for _, place, _ in reads)

    def _replaces_slice(self, fusion: HloInstruction) -> bool:
        return bool(self._with_replacing) and not self._with_replacing.isdisjoint(fusion.called_computations)

    def find_replaced(self, update: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]) -> Labels:
        """Returns the labels FRESH of the hidden writes of which the update replaces every element, if they have overwritten
        the array that it updates since the schedule last defined that array.
        """
        place = find_read_place(self.module, update, scheduled, reads) if update.id in self._replacing else None
        raw = () if place is None else self.memory.raw.get(place, ())
        return unite(
            self.space.fresh(write.write)
            for write in self._replacing.get(update.id, ())
            if place in write.slices and any(one is write for one in raw) and not self._spread.get(write, True)
        )

    def _forget_replaced(
        self, update: HloInstruction, scheduled: HloInstruction, reads: tuple[Read, ...]
    ) -> tuple[Read, ...]:
        """Returns the reads of an update of a slice; the updated array is without the writes that the update replaces."""
        replaced = self.find_replaced(update, scheduled, reads)
        place = find_read_place(self.module, update, scheduled, reads)
        number = 0 if update is scheduled else update.operands[0].proto.parameter_number
        return tuple(
            [
                (operand, at, labels & ~replaced if (operand, at) == (number, place) else labels)
                for operand, at, labels in reads
            ]
        )

    def _forget_other_iterations(
        self, instruction: HloInstruction, scheduled: HloInstruction, labels: Labels, reads: tuple[Read, ...]
    ) -> Labels:
        """Returns the dependence set of a dynamic-slice without the labels of writes in earlier iterations, because
        these writes went to other slices.
        """
        place = find_read_place(self.module, instruction, scheduled, reads)
        path = self.module.tags.get(instruction.id)
        if not path or place is None:
            return labels
        for write in self._distinct_slices.get(place, ()):
            if write.slice_tags != path:
                continue
            key = (write, place)
            if key not in self._made_outside:
                self._made_outside[key] = is_made_outside(self.module, self.places, write, place)
            depth = next((own.loop_depth for own in self.writes[write.call.id] if own.index == write.write), 0)
            if depth and self._made_outside[key]:
                labels &= ~(self.space.fresh(write.write) << depth)
        return labels

    def _find_pieces(self, instruction: HloInstruction, reads: tuple[Read, ...]) -> dict[int, Pieces]:
        return {
            number: found
            for number, place, _ in reads
            if (found := self.memory.find_pieces(place, instruction, number)) is not None
        }

    def _run_summarized(self, fusion: HloInstruction, summary: FusionSummary, reads: tuple[Read, ...]) -> None:
        united = summary.unite([labels for _, _, labels in reads])
        for path, operation, combination in summary.tagged if self.records else ():
            labels = united[combination]
            if labels or path in self.wanted:
                self._occurrences[path][operation.id] = Occurrence(operation, fusion, labels, reads)
        marks = self.marked.get(fusion.id, 0)
        for number, combination in summary.results:
            self.memory.put(number, united[combination] | marks)

    def _place_leaves(
        self, fusion: HloInstruction, leaves: list[PiecewiseLabels]
    ) -> Iterable[tuple[int, PiecewiseLabels]]:
        """Returns the number of each memory slice that the fusion defines, with the dependence set of the result leaf
        in it. leaves: the set of each leaf of the fusion's result.
        """
        definitions, places = self.places.buffers.definitions.get(fusion.id), self.places.locate(fusion)
        if not definitions:
            return zip(places, leaves, strict=True)
        if len(places) == len(leaves):
            by_place = dict(zip(places, leaves, strict=True))
            return [(number, by_place.get(number, 0)) for _, number in definitions]
        union = unite(map(union_of, leaves))
        return [(number, union) for _, number in definitions]

    def _call_kernel(self, instruction: HloInstruction, frames: Frames) -> None:
        reads = self._read_operands(instruction)
        operands = [0] * len(instruction.operands)
        for number, _, labels in reads:
            operands[number] |= labels
        product = follow_pieces(instruction, self._list_piecewise(instruction, reads)) if self.memory.pieces else None
        labels = self.call_fused(instruction, operands) | self.carried.get(instruction.id, 0)
        self._define(instruction, labels)
        if isinstance(product, Pieces):
            self._define_product(instruction, product, reads)
        self.record(instruction, instruction, labels, reads)

    def _define_product(self, call: HloInstruction, product: Pieces, reads: tuple[Read, ...]) -> None:
        """Stores the dependence sets of the first result of a library's matrix product, one set for each known piece of
        the result.
        """
        started = self.find_started(call, call, reads)
        for index, number in self.places.buffers.definitions.get(call.id, ()):
            if not any(index):
                self.memory.put(number, product.add(started))

    def call_fused(self, call: HloInstruction, operands: list[Labels]) -> Labels:
        """Performs the hidden writes of a custom call, and returns the dependence set of its results. operands: the
        dependence set of each operand.
        """
        own = self.writes.get(call.id, ())
        unrelated = self.unrelated.get(call.id, ())
        if len(unrelated) != len(operands):
            unrelated = (0,) * len(operands)
        operands = [labels & ~foreign for labels, foreign in zip(operands, unrelated, strict=True)]
        operands = forget_other_slices(operands, own, self._by_call.get(call.id, ()), self.space)
        effects = self.effects_of(call)
        unused = list_unused(effects, call)
        transfer = transfer_call(effects, operands, own, self.space, direct=self.direct, unused=unused)
        placed: dict[int, list[ActualWrite]] = {}
        for actual in self._by_call.get(call.id, ()):
            if actual.call is call:
                placed.setdefault(actual.write, []).append(actual)
        for (_, dropped, added), write in zip(transfer.written, own, strict=True):
            self._met.add(write.index)
            if operands[write.operand] & self.space.all_original(write.index):
                self._traced.add(write.index)
            for actual in placed.get(write.index, ()):
                if self._replacing:
                    self._note_spread(actual, added)
                luck = operands[write.operand] & self._lucky  # kept even if the kernel only writes
                self.memory.overwrite(
                    actual, dropped | unrelated[write.operand], added | luck | self.marked.get(call.id, 0)
                )
        lucky = [number for number in call.operand_output_aliases if number < len(operands)]
        # two calls that nothing orders may also run at once: a workspace that both use is then no longer their own
        lucky += [w.operand for w in own if effects.operands[w.operand].reads and w.operand not in unused]
        return transfer.results | unite(operands[number] & self._lucky for number in lucky)

    def _note_spread(self, actual: ActualWrite, added: Labels) -> None:
        """Notes, before a hidden write, which writes its array depends on (see `_spread`). added: the labels that the array
        gains.
        """
        for number in {hit for one in actual.slices for hit in self.memory.overlapping(one)}:
            for earlier in self.memory.raw.get(number, ()):
                if added & self.space.fresh(earlier.write):
                    self._spread[earlier] = True
        fresh = self.space.fresh(actual.write)
        self._spread[actual] = any(self.memory.sets.get(one, 0) & fresh for one in actual.slices)

    def list_missed(self, call: HloInstruction) -> Mapping[ShapeIndex, Labels]:
        """Returns the outputs of a custom call whose declared alias is broken. The schedule keeps output and operand in
        different bytes, so the output misses the kernel's write. Maps the index of each output to this write's ORIG label.
        """
        own = [write for write in self.writes.get(call.id, ()) if write.output is not None and not write.unknown]
        return {write.output: self.space.original(write.index) for write in own if write.output is not None}

    def _start_async(self, instruction: HloInstruction, frames: Frames, level: int) -> None:
        callee = self.module.computations[instruction.called_computations[0]]
        self._run_sequence(callee, frames, level)
        labels = self._unite_slices(callee.root)
        self._pending[instruction.id] = labels
        for number in self.places.list_defined(instruction):
            self.memory.put(number, labels)

    def _unite_slices(self, value: HloInstruction) -> Labels:
        """Returns the union of the dependence sets of all slices that hold the value."""
        return unite(self.memory.sets.get(number, 0) for number in self.places.locate(value))

    def _finish_async(self, instruction: HloInstruction) -> None:
        start = find_start(self.module, instruction)
        raced = self.raced.get(start.id, 0)
        labels = self._pending.get(start.id, 0) | raced
        defined = self.places.list_defined(instruction)
        for number in defined:
            self.memory.put(number, labels)
        for number in self.places.locate(instruction) if raced else ():
            if number not in defined:
                self.memory.put(number, self.memory.sets.get(number, 0) | raced)

    def _run_loop(self, instruction: HloInstruction, frames: Frames, level: int) -> None:
        memory = self.memory
        body, condition = (self.module.computations[c] for c in instruction.called_computations)
        given_state = self._list_leaves(instruction.operands[0])
        chains = body.rotated_elements if len(body.rotated_elements) == len(given_state) else ()
        places = Counter(self.places.locate(instruction))
        alternatives = [tuple([given_state[element] for element in chain]) for chain in chains]
        self._keep_confluence(
            instruction, alternatives, frozenset(number for number, count in places.items() if count > 1)
        )
        met_outside = set(self._met)
        outer_journal = memory.journal
        raw_outside = dict(memory.raw)
        given: dict[int, Labels] = {}
        luck = memory.find_luck(instruction, 0)
        while True:
            memory.journal = {}
            memory.raw = dict(raw_outside)  # nothing is raw from an earlier iteration: that order is forced
            self._met = set()
            self._run_sequence(condition, frames, level)
            predicate = self._unite_slices(condition.root) | luck
            self._run_sequence(body, frames, level)
            inside = frozenset(self._met)
            changed, ends = False, dict[int, Labels]()
            given = memory.journal | given
            for number, before in memory.journal.items():
                after = ends[number] = self.space.advance(memory.sets.get(number, 0) | predicate, level, inside)
                head = before | after
                changed = changed or head != before
                memory.settle(number, head)
            if outer_journal is not None:
                for number, before in memory.journal.items():
                    outer_journal.setdefault(number, before)
            if not changed:
                break
        for number, after in ends.items():
            runs = instruction.id in find_trips(self.module)
            memory.settle(number, after if runs else self.space.meet((given[number], after), inside))
        memory.journal = outer_journal
        self._met |= met_outside

    def _list_leaves(self, value: HloInstruction) -> tuple[Labels, ...]:
        return tuple([self.memory.sets.get(number, 0) for number in self.places.locate(value)])

    def _keep_confluence(
        self, instruction: HloInstruction, alternatives: list[tuple[Labels, ...]], shared: frozenset[int] = frozenset()
    ) -> None:
        path = self.module.tags.get(instruction.id) if self.records else None
        if path:
            self._confluences[path] = Confluence(
                instruction=instruction.name, alternatives=tuple(alternatives), shared=shared
            )

    def _run_branches(self, instruction: HloInstruction, frames: Frames, level: int) -> None:
        memory = self.memory
        predicate = self._unite_slices(instruction.operands[0]) | memory.find_luck(instruction, 0)
        met_outside = self._met
        self._met = set()
        outer_journal, raw_before = memory.journal, dict(memory.raw)
        ends: list[tuple[dict[int, Labels], dict[int, Labels]]] = []
        raw_after: dict[int, tuple[ActualWrite, ...]] = {}
        results: list[tuple[Labels, ...]] = []
        entered = list_entered(self.module, instruction)
        for callee in entered:
            memory.journal, memory.raw = {}, dict(raw_before)
            self._run_sequence(self.module.computations[callee], frames, level)
            results.append(self._list_leaves(self.module.computations[callee].root))
            journal = memory.journal
            ends.append((journal, {number: memory.sets.get(number, 0) for number in journal}))
            for number, found in memory.raw.items():
                raw_after[number] = tuple(dict.fromkeys((*raw_after.get(number, ()), *found)))
            for number in journal.keys() & raw_before.keys():
                gone = set(raw_before[number]) - set(memory.raw.get(number, ()))
                self._spread |= dict.fromkeys(gone, True)  # another branch may leave the array unchanged
            for number, before in journal.items():
                memory.settle(number, before)
        if len(entered) == len(instruction.called_computations):
            meeting = [results[number] for number in sort_branches(instruction)]
            self._keep_confluence(instruction, list(zip(*meeting, strict=True)))
        memory.journal, memory.raw = outer_journal, raw_after
        inside = frozenset(self._met)
        self._met |= met_outside
        for number in {n for journal, _ in ends for n in journal}:
            before = memory.sets.get(number, 0)
            if outer_journal is not None:
                outer_journal.setdefault(number, before)
            memory.settle(number, predicate | self.space.meet([end.get(number, before) for _, end in ends], inside))
