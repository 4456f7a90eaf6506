"""Holds the program and the schedule of one compilation, each with its dependence sets (on which hidden writes each
value depends), and evaluates either one again with marks.

A mark is an additional bit in dependence sets. It is put on one operation or instruction, and spreads to all values that are
computed from it. Operations are identified by *tag path*: the tag of the operation (the number that ligerdiag gave it before
the compile), after the tags of the calls that lead to it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ligerdiag.analysis.evaluation.carriers import Carriers
from ligerdiag.analysis.evaluation.fusions import FusionSummaries
from ligerdiag.analysis.evaluation.label_memory import Actual, ActualWrite, LuckyRead, UnorderedReads
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.evaluation.order import compute_logical_times
from ligerdiag.analysis.evaluation.pieces import ArrayRegion, find_rows
from ligerdiag.analysis.evaluation.program_order import Intended, compute_intended
from ligerdiag.analysis.evaluation.schedule_order import ScheduleEvaluation
from ligerdiag.analysis.evaluation.unordered_reads import find_unordered_reads
from ligerdiag.analysis.provenance import Authorship, Retagged
from ligerdiag.analysis.races import Concurrency, Race, join_marks, mark_races
from ligerdiag.analysis.write_correspondence import Matching
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite, call_tags_of
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Positions, find_rounding_pairs, is_shard_edge, unite
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.provenance.identification import Identification, identify_arrays
from ligerdiag.provenance.value_numbers import number_values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounding:
    """A workaround of the author's that adds a term to an overwritten value and subtracts it again. It forces XLA to read
    the value after the kernel's write, but rounds the value.
    """

    write: HiddenWrite
    addition: HloInstruction
    subtraction: HloInstruction
    term: HloInstruction
    """The value that is added and subtracted again."""
    path: TagPath
    """Tag path of the subtraction."""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluatedPair:
    """The program and the schedule, each evaluated in its own order, with the dependence sets of both."""

    program: HloModule
    """The unoptimized module; the optimized module if there is no program as written."""
    optimized: HloModule
    buffers: BufferAssignment
    positions: Positions
    """The place of each value of the optimized module in `buffers`."""
    writes: tuple[HiddenWrite, ...]
    matching: Matching
    space: LabelSpace
    """The layout of all dependence sets of the pair: which bit represents which label."""
    intended: Intended
    """The evaluation in program order; without any outputs if there is no program as written, or no hidden write."""
    actual: Actual
    """The evaluation in schedule order."""
    concurrency: Concurrency = field(default_factory=Concurrency)
    """Reads that may run while a kernel overwrites the bytes that they read."""

    @cached_property
    def logical_times(self) -> Mapping[int, int]:
        """Returns the LogicalTime of each optimized instruction by its id. This is its position in XLA's flattened
        schedule.
        """
        return compute_logical_times(self.optimized)

    @property
    def has_program(self) -> bool:
        """Returns whether the program as written was evaluated. False if there is no program, or if it has no hidden
        writes and so needs no evaluation.
        """
        return bool(self.intended.outputs)

    @property
    def undecided(self) -> frozenset[int]:
        """Returns the indices of the undecided hidden writes. The memory of such a write, its intended
        readers, or whether it happens, is unknown. Every value that depends on it is unknown.
        """
        unplaced = frozenset(write.index for write in self.matching.unplaced)
        return unplaced | self.matching.ambiguous | self.matching.order_unknown | self.matching.conditional

    def optimized_call(self, write: HiddenWrite) -> HloInstruction | None:
        """Returns the custom call of the optimized module that performs a hidden write; None if there is none."""
        return next((w.call for w in self.actual.writes if w.write == write.index), None)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluates the program or the schedule of one compilation as often as needed. An evaluation may have marks: extra bits
    in dependence sets, which show which values depend on chosen operations.
    """

    program: HloModule
    optimized: HloModule
    fusions: FusionSummaries
    """For each fusion of the optimized module, a summary that says which labels of its operands its results get."""
    writes: tuple[HiddenWrite, ...]
    """The hidden writes. Two writes have the same index if XLA merges their calls and both calls see the same versions
    (`Matching.identical`).
    """
    space: LabelSpace
    carriers: Carriers
    effects_of: EffectsOf
    matching: Matching
    retagged: Retagged | None = None
    """Both modules with tags that were computed from XLA's metadata, if the compile worker did not tag them."""
    canonicalized: bool = False
    """Whether MLIR's canonicalizer has changed the program, so that some of the author's operations are folded or
    merged in it.
    """
    races: tuple[Race, ...] = ()
    carried: Mapping[int, Labels] = field(default_factory=dict[int, Labels])
    """Maps the id of an optimized instruction that holds an operand's contents from before a write to the labels that
    start there; these labels (ORIG) say that a value depends on such contents.
    """
    unrelated: Mapping[int, tuple[Labels, ...]] = field(default_factory=dict[int, tuple[Labels, ...]])
    """Maps the id of an optimized call to the ORIG labels (dependences on contents from before a write) that each
    operand cannot have, operand by operand (see `find_unrelated`).
    """
    has_snapshots: bool = True
    """Whether snapshots in the program show which version of a value autodiff means to read (see
    `compile.lowering.intent`). A canonicalized program has none, nor has one that JAX lowered before ligerdiag got it.
    """
    direct: bool = False
    """Whether the dependence set of a value describes only the value's own bytes, and not the values from which they
    were computed (see `labels.transfer_call`).
    """

    @property
    def is_tagged(self) -> bool:
        """Returns whether the program is as the author wrote it, and the compile worker gave each operation a tag."""
        return self.retagged is None and not self.canonicalized

    @cached_property
    def unordered(self) -> UnorderedReads:
        """Returns the reads that nothing forces to come before or after a hidden write. Computed once for all
        evaluations.
        """
        return find_unordered_reads(
            self.optimized, self.fusions.places, self.matching.actual, self.matching.by_call, self.effects_of
        )

    def is_authored(self, path: TagPath, instruction: HloInstruction) -> bool:
        """Returns whether an optimized instruction is certainly the author's operation with tag path `path`, or a clone
        of it.
        """
        if self.retagged is None:
            return is_named_after(path, instruction)
        return self.retagged.authorship.get(instruction.id) is Authorship.AUTHORED

    @cached_property
    def identification(self) -> Identification:
        """Returns the `Identification`: it says which value of the program an array of the schedule equals."""
        return identify_arrays(self.program, self.optimized)

    def computes_another(self, path: TagPath, instruction: HloInstruction) -> bool:
        """Returns whether an instruction surely does not compute the value of the operation with tag path `path`. The
        instruction has this operation's name. False if tags were computed from metadata.
        """
        return self.retagged is None and self.identification.is_another(instruction, path)

    def is_foreign(self, path: TagPath, instruction: HloInstruction) -> bool:
        """Returns whether an instruction depends on an argument or kernel on which the operation with tag path `path` does
        not depend. False if tags were computed from metadata.
        """
        return self.retagged is None and self.identification.is_foreign(instruction, path)

    def list_others(self, path: TagPath, instruction: HloInstruction) -> list[TagPath]:
        """Returns the tag paths of the operations that an instruction surely computes in place of a given operation. They
        are in program order. path: tag path of the given operation. Returns [] if the instruction may compute it, or if
        tags come from metadata.
        """
        return [] if self.retagged is not None else self.identification.list_others(instruction, path)

    def with_marks(
        self, operations: Mapping[TagPath, Labels], instructions: Mapping[int, Labels]
    ) -> tuple[Intended, Actual]:
        """Evaluates program and schedule with marks on some operations and instructions. The marks in the dependence set of
        an output show on which of the marked operations or instructions the output depends.

        operations: maps the tag path of a program operation to its marks. instructions: maps the id of an optimized
        instruction to its marks.
        """
        return self.run_intended(operations), self.run_actual(frozenset(), instructions, records=False)

    def run_intended(self, marked: Mapping[TagPath, Labels] | None = None) -> Intended:
        """Evaluates the program as written. marked: maps the tag path of an operation to the marks of its result. If
        `marked` is given, only the dependence sets of the outputs are recorded.
        """
        arguments = self.program, self.writes, self.carriers, self.effects_of, self.space
        return compute_intended(
            *arguments,
            marked=marked,
            canonicalized=self.canonicalized,
            has_snapshots=self.has_snapshots,
            records=marked is None,
            direct=self.direct,
        )

    def find_dependents(self, paths: Iterable[TagPath]) -> tuple[frozenset[TagPath], ...]:
        """Returns, for each output, the given operations on which the output depends in the program. paths: tag paths of
        operations, or names of leaves (`name_leaf`).
        """
        marks = {path: self.space.mark(("operation", path)) for path in paths}
        outputs = self.run_intended(marks).outputs
        return tuple([frozenset(path for path, mark in marks.items() if labels & mark) for labels in outputs])

    def find_undecided(self, paths: Iterable[TagPath]) -> tuple[bool, ...]:
        """Returns, for each output, whether a path without a decision leads to it from one of the given operations. A
        decision is an operation such as a comparison: it mostly gives the same result for slightly different operands
        (see `labels.decides`).
        """
        mark = self.space.mark("undecided")
        arguments = self.program, self.writes, self.carriers, self.effects_of, self.space
        marked = dict.fromkeys(paths, mark)
        run = compute_intended(
            *arguments,
            marked=marked,
            canonicalized=self.canonicalized,
            has_snapshots=self.has_snapshots,
            records=False,
            undecided=mark,
        )
        return tuple([bool(labels & mark) for labels in run.outputs])

    def find_read_whole(self, writes: Iterable[int]) -> tuple[Labels, ...]:
        """Returns, for each output, those of the given hidden writes, as bits, whose operand the program uses for it as a
        whole: the old or the new contents reach the output without a slice or gather of some elements. writes: indices.
        """
        some = tuple(writes)
        own = unite(self.space.all_fresh(write) | self.space.all_original(write) for write in some)
        arguments = self.program, self.writes, self.carriers, self.effects_of, self.space
        run = compute_intended(
            *arguments,
            canonicalized=self.canonicalized,
            has_snapshots=self.has_snapshots,
            records=False,
            whole=own,
        )
        any_of = self.space.any_fresh, self.space.any_original
        return tuple([unite(find(labels & own) for find in any_of) for labels in run.outputs])

    def find_disjoint_rows(self) -> tuple[Labels, tuple[Labels, ...]]:
        """Finds, for each output, the hidden writes that change no row that the output uses.

        Considers the writes that cover only some rows of their operand. Returns the bits of all of them, and for each
        output the bits of those whose rows it uses neither in the program nor in the schedule (see `LabelSpace.bits_of`).
        Returns no write if tags were computed from metadata, if MLIR canonicalized the program, or if it has a shard_map.
        """
        if not self.is_tagged or any(map(is_shard_edge, self.program.instructions)):
            return 0, ()
        placed = [w for w in self.matching.actual if len(w.slices) == 1 and not w.partial and w.region is None]
        known = {w.index: w for w in self.writes}
        placed = [w for w in placed if _is_as_defined(self.optimized, w, known[w.write].operand)]
        rows = {w.index: found for w in self.writes if (found := _find_rows(w.call, w, self.effects_of)) is not None}
        written = self.space.bits_of(rows)
        regions = {w: _find_rows(w.call, known[w.write], self.effects_of) for w in placed if w.write in rows}
        left = {w.write for w in self.matching.actual if regions.get(w) is None}
        rows = {index: found for index, found in rows.items() if index not in left | self.matching.ambiguous}
        if not rows:
            return written, ()
        actual = tuple([replace(w, region=regions[w]) if w.write in rows else w for w in self.matching.actual])
        arguments = self.program, self.writes, self.carriers, self.effects_of, self.space
        meant = compute_intended(*arguments, records=False, rows=rows).outputs
        by_rows = replace(self, matching=replace(self.matching, actual=actual))  # finds `unordered` anew, with the rows
        seen = by_rows.run_actual(frozenset(), records=False).outputs
        followed = self.space.bits_of(rows)
        return written, tuple(
            followed & ~self.space.any_fresh(one | other) & ~self._list_lucky(other)
            for one, other in zip(meant, seen, strict=True)
        )

    def _list_lucky(self, labels: Labels) -> Labels:
        """Returns the hidden writes for which a value with this set depends on a read that nothing orders with the
        write, as bits (see `LabelSpace.bits_of`).
        """
        return self.space.bits_of({one.write for one in self.space.marks_in(labels) if isinstance(one, LuckyRead)})

    def find_roundings(self, writes: tuple[HiddenWrite, ...], names: tuple[str, ...]) -> tuple[Rounding, ...]:
        """Finds the places where the author adds a term to an overwritten value and subtracts it again. Returns one record
        for each subtraction, with the names of the outputs that depend on the subtraction.

        names: names of all outputs, in their order.
        """
        pairs = {found.subtraction.id: found for write in writes for found in _find_pairs(write)}
        if not pairs:
            return ()
        reached = self.find_dependents(pair.path for pair in pairs.values() if pair.path)
        return tuple(
            replace(pair, outputs=tuple(name for name, paths in zip(names, reached, strict=True) if pair.path in paths))
            for pair in pairs.values()
        )

    def run_actual(
        self, wanted: frozenset[TagPath], marked: Mapping[int, Labels] | None = None, *, records: bool = True
    ) -> Actual:
        """Evaluates the schedule.

        wanted: tag paths of operations to record even if they depend on no hidden write. marked: maps the id of an
        instruction to the marks of its result. records: whether to record the dependence sets of operations; if False,
        only those of outputs are computed.
        """
        in_flight, others = mark_races(self.races, self.space)
        return ScheduleEvaluation(
            module=self.optimized,
            fusions=self.fusions,
            space=self.space,
            carriers=self.carriers,
            effects_of=self.effects_of,
            writes=self.matching.by_call,
            actual_writes=self.matching.actual,
            wanted=wanted,
            marked=join_marks(marked or {}, others),
            raced=in_flight,
            carried=self.carried,
            unrelated=self.unrelated,
            direct=self.direct,
            unordered=self.unordered,
            records=records,
        ).run()


def find_unrelated(intended: Intended, matching: Matching, space: LabelSpace) -> Mapping[int, tuple[Labels, ...]]:
    """Returns the ORIG labels that the operands of a call in the optimized module cannot have. Maps the id of a call to one
    set of labels for each operand. ORIG says that a value depends on the contents from before a write (see `comparison`).

    XLA keeps the dependences that it can see. If an operand of the program depends neither on the old nor on the new
    contents of a write, it does not depend on the old contents in the schedule either. If it seems to depend on them, XLA
    has joined one of the operand's operations with an operation that has the old contents, for example two products with a
    common factor.
    """
    found: dict[int, tuple[Labels, ...]] = {}
    for call, writes in matching.by_call.items():
        given = [intended.operands.get(write.index) for write in writes if write.index not in matching.ambiguous]
        if not given or len(given) < len(writes) or None in given:
            continue
        operands = [0] * max(len(one) for one in given if one is not None)
        for one in given:
            operands = [known | new for known, new in zip(operands, one or (), strict=False)]
        found[call] = tuple([_list_untouched(labels, space) for labels in operands])
    return found


def _list_untouched(labels: Labels, space: LabelSpace) -> Labels:
    """Returns the ORIG labels (dependences on contents from before a write) of every hidden write on which a value with
    this set does not depend.
    """
    originals = 0
    for write in range(space.writes):
        if not labels & (space.all_fresh(write) | space.all_original(write)):
            originals |= space.all_original(write)
    return originals


def _find_rows(call: HloInstruction, write: HiddenWrite, effects_of: EffectsOf) -> ArrayRegion | None:
    """Returns the rows of the write's operand that the call may overwrite; None if it may overwrite all of them."""
    uses = effects_of(call).operand_uses
    span = (
        uses[write.operand].span if write.operand < len(uses) and not write.unknown and write.output is None else None
    )
    return None if span is None else find_rows(call.operands[write.operand].shape, span)


_CALL_PATHS = PassThrough(tuples=True, calls=True, branches=True, loop_entry=True, arguments=True)


def _is_as_defined(module: HloModule, write: ActualWrite, operand: int) -> bool:
    """Returns whether the call's operand is a value with the layout in which it was computed, and not a bitcast of
    another one: the rows of a transposed array are not the rows of the array.
    """
    value = write.call.operands[operand]
    for outer in reversed(write.frames[:-1]):
        if outer.instruction.opcode != "fusion":
            break
        if value.opcode != "parameter":
            return False
        value = outer.instruction.operands[value.proto.parameter_number]
    return Dataflow(module, _CALL_PATHS).find_definition(value)[0].opcode != "bitcast"


def is_named_after(path: TagPath, instruction: HloInstruction) -> bool:
    """Returns whether an instruction's name contains the last tag of `path`, the operation's own: `ld17` for tag 17.

    XLA names an instruction of the program after its op_name, which contains the tag. So the operation and its clones have
    the tag in their names; an instruction that a pass has made has not.
    """
    sought, name = f"ld{path[-1]}", instruction.name
    at = name.find(sought)
    while at >= 0:
        if not name[at + len(sought) : at + len(sought) + 1].isdecimal():
            return True
        at = name.find(sought, at + 1)
    return False


def _find_pairs(write: HiddenWrite) -> Iterator[Rounding]:
    """Yields each addition of a term to the operand of this write with the subtraction that undoes it, both in the
    computation that contains the write's call. The subtracted term may also be another operation with the same value as
    the added term. `Rounding.outputs` is still empty.
    """
    computation = write.frames[-1].computation
    numbers = number_values(computation)
    for pair in find_rounding_pairs(
        computation, write.call, write.operand, lambda one, other: numbers[one.id] == numbers[other.id]
    ):
        own = write.module.find_tag_path(pair.subtraction)
        yield Rounding(
            write=write,
            addition=pair.addition,
            subtraction=pair.subtraction,
            term=pair.term,
            path=(*call_tags_of(write.module, write.frames[:-1]), *own) if own else (),
        )
