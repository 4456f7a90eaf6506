"""Finds the outputs that depend on an ambiguity, which is something unknown about the author's intention or about an
instruction. `ambiguities` defines the kinds of ambiguities.

The evaluation of the program marks some kinds already, and `blame` finds outputs with too many wrong operations to search.
This module puts a mark (an extra bit in dependence sets) on each operation and each instruction whose match is uncertain. It
evaluates both programs once more, and adds the ambiguities whose marks spread to an output. It also checks for each write
that some carrier (an operation that holds the operand's value from before the write) is found again in the schedule. An
output that is already stale for a write gets no ambiguity about this write, because it cannot get worse.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.evaluation.carriers import is_carrier, is_same_operation, list_ambiguous_carriers
from ligerdiag.analysis.evaluation.label_memory import ActualWrite, Occurrence
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.provenance import Authorship, Retagged
from ligerdiag.analysis.reaching_definitions import resolve_operand
from ligerdiag.analysis.verdict.blame import Blamed
from ligerdiag.analysis.verdict.compared_edges import Differing, find_authored_occurrences
from ligerdiag.analysis.verdict.comparison import ComparedEdge, Comparison, OutputVerdict
from ligerdiag.analysis.write_correspondence import locate_operand
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import Access
from ligerdiag.hlo.module import TagPath
from ligerdiag.model.findings import VERDICT_ORDER, Verdict

_NAMED = 16
"""Largest number of similar instructions that are searched for the one that an ambiguity names in its message."""
_MANY = 10_000
"""Largest number of (write, unclear instruction) pairs for which ambiguities still name an instruction."""


@dataclass(frozen=True, slots=True)
class _AmbiguityKey:
    """Key of a mark, an extra bit in dependence sets, for all ambiguities of one operation or instruction with one
    reason.

    A mark for each ambiguity would need a mark for each pair of an operation and a write.
    """

    reason: Reason
    about: tuple[tuple[int, Labels], ...]
    """Pairs of (`Ambiguity.instruction`, the hidden writes that the ambiguity is about, as bits)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AmbiguitySearch:
    """Finds the ambiguities of each output of one schedule: the unknown facts on which the verdict on the output
    depends.
    """

    blamed: Blamed
    """The verdicts on all outputs before any ambiguity is considered."""
    pair: EvaluatedPair
    differing: tuple[Differing, ...]
    comparison: Comparison
    evaluator: Evaluator

    def find(self, possible: Mapping[int, Labels]) -> Ambiguities:
        """Returns the ambiguities of all outputs by name. possible: maps the id of an instruction without a trusted name to
        the ORIG labels that may start there (see `_find_unidentified`).
        """
        found: dict[str, set[Ambiguity]] = {name: set() for name in self.outputs}
        for name, labels in zip(self.outputs, self.pair.intended.outputs, strict=True):
            wrong = self.outputs[name].wrong
            found[name] |= {
                key
                for key in self.evaluator.space.marks_in(labels)
                if isinstance(key, Ambiguity) and (key.reason is not Reason.NO_NAMES or key.write not in wrong)
            }
        retagged = self.evaluator.retagged
        unclear = {} if retagged is None else self._find_unclear(retagged, self._find_open())
        for name, ambiguities in (*unclear.items(), *self._find_untraced()):
            known = {
                cause.write
                for cause in self.outputs[name].causes
                if retagged is None or cause.verdict is Verdict.STALE  # with the worker's tags every cause stands
            }
            found[name] |= {one for one in ambiguities if one.write not in known}  # it is as bad already
        for name, ambiguities in (*self._find_twin_operands(), *self._find_mixed()):
            found[name] |= {one for one in ambiguities if one.write not in self.outputs[name].wrong}
        for name, writes in self.blamed.unsearched.items():
            found[name] |= {Ambiguity(write, Reason.TOO_MANY, 0) for write in writes}
        for name, ambiguities in self._find_unidentified(possible):
            found[name] |= ambiguities
        return {name: frozenset(ambiguities) for name, ambiguities in found.items()}

    @property
    def outputs(self) -> Mapping[str, OutputVerdict]:
        """Returns the verdict on each output, by the output's name, before any ambiguity is considered."""
        return self.blamed.outputs

    def _find_mixed(self) -> Iterator[tuple[str, set[Ambiguity]]]:
        """Yields each output that depends on a loop or conditional which may return one merged value for another, if
        the schedule does not show whether it does.
        """
        for name, mixed in self.blamed.mixed.items():
            writes = unite(one.writes for one in mixed if one.verdict is Verdict.UNKNOWN)
            yield name, {Ambiguity(write, Reason.MIXED, 0) for write in self.comparison.space.writes_of(writes)}

    def _find_unidentified(self, possible: Mapping[int, Labels]) -> Iterator[tuple[str, set[Ambiguity]]]:
        """Yields each output that would get worse if instructions without a trusted name were carriers, that is, held
        the value of an operand from before a write. The schedule is evaluated once more to find them.

        possible: maps the id of such an instruction to the ORIG labels that would start there.
        """
        if not possible:
            return
        carried = dict(self.evaluator.carried)
        for number, labels in possible.items():
            carried[number] = carried.get(number, 0) | labels
        actual = replace(self.evaluator, carried=carried).run_actual(frozenset(), records=False)
        sets = zip(self.outputs.items(), self.pair.intended.outputs, actual.outputs, strict=False)
        for (name, output), meant, delivered in sets:
            were = {cause.write: cause.verdict for cause in output.causes}
            for cause in self.comparison.compare(ComparedEdge(meant, delivered)).causes:
                if _is_worse(cause.verdict, were.get(cause.write, Verdict.FRESH)):
                    original = self.evaluator.space.all_original(cause.write)
                    first = min(number for number, labels in possible.items() if labels & original)
                    yield name, {Ambiguity(cause.write, Reason.UNIDENTIFIED, first)}

    def _find_twin_operands(self) -> Iterator[tuple[str, set[Ambiguity]]]:
        """Yields each output that depends on a kernel call which gets one value of the schedule for two operands that
        are different values in the program, with the ambiguities of all such calls.
        """
        calls = {
            write.tag_path: Ambiguity(write.index, Reason.TWIN_OPERANDS, actual.call.id)
            for actual in self.pair.actual.writes
            for write in self.pair.writes
            if write.index == actual.write and write.tag_path and self._gets_twins(write, actual)
        }
        if not calls:
            return
        for name, paths in zip(self.outputs, self.evaluator.find_dependents(calls), strict=True):
            yield name, {calls[path] for path in paths}

    def _gets_twins(self, write: HiddenWrite, actual: ActualWrite) -> bool:
        """Returns whether the kernel may read another operand of the call in the bytes that this write overwrites,
        although that operand is a different value in the program.
        """
        overlapping = self.pair.buffers.overlapping
        written = {hit for number in actual.slices if number >= 0 for hit in overlapping[number]}
        access = self.evaluator.effects_of(actual.call).operands
        for other in range(len(actual.call.operands)):
            place = locate_operand(self.pair.optimized, actual.frames, other, self.pair.positions)
            if other == write.operand or place is None or place[1] or actual.partial or written.isdisjoint(place[0]):
                continue
            if other < len(access) and access[other] is Access.NONE:
                continue
            own, others = (resolve_operand(write.module, write.frames, n) for n in (write.operand, other))
            if own != others:
                return True
        return False

    def _find_unclear(self, retagged: Retagged, open_: Labels) -> dict[str, set[Ambiguity]]:
        """Maps output names to the ambiguities of instructions that may compute one of several operations, or may hold
        the contents from before a write.

        open_: the hidden writes, as bits, for which some output is not known to be stale.
        """
        operations: defaultdict[TagPath, set[_AmbiguityKey]] = defaultdict(set)
        instructions: defaultdict[int, set[_AmbiguityKey]] = defaultdict(set)
        for path, key in (*self._find_ambiguous(retagged, open_), *self._find_unsure(retagged, open_)):
            operations[path].add(key)
        for instruction, key in self._find_unclear_carriers(retagged, open_):
            instructions[instruction].add(key)
        if not operations and not instructions:
            return {}
        space = self.evaluator.space.without_marks()
        intended, actual = replace(self.evaluator, space=space).with_marks(
            {path: unite(map(space.mark, keys)) for path, keys in operations.items()},
            {number: unite(map(space.mark, keys)) for number, keys in instructions.items()},
        )
        found = {
            name: _join([key for key in space.marks_in(wanted | seen) if isinstance(key, _AmbiguityKey)])
            for name, wanted, seen in zip(self.outputs, intended.outputs, actual.outputs, strict=True)
        }
        is_named = all(sum(bits.bit_count() for bits in joined.values()) <= _MANY for joined in found.values())
        return {
            name: {
                Ambiguity(write, reason, instruction)
                for (reason, instruction), bits in (joined if is_named else _forget_names(joined)).items()
                for write in space.writes_of(bits)
            }
            for name, joined in found.items()
        }

    def _find_open(self) -> Labels:
        """Returns the hidden writes, as bits, for which at least one output that depends on them is not yet known to be
        stale.
        """
        found, space = 0, self.evaluator.space
        for name, wanted, seen in zip(self.outputs, self.pair.intended.outputs, self.pair.actual.outputs, strict=True):
            labels = wanted | seen
            stale = space.bits_of(c.write for c in self.outputs[name].causes if c.verdict is Verdict.STALE)
            found |= (space.any_fresh(labels) | space.any_original(labels)) & ~stale
        return found

    def _find_untraced(self) -> Iterator[tuple[str, set[Ambiguity]]]:
        """Yields each output that depends on a write all of whose carriers are gone from the schedule, with an
        ambiguity for each such write. A carrier is an operation that holds the operand's value from before the write.

        If the compile worker made the tags, a write does not count if some operation that depends on it is found again
        in the schedule: its carriers are then gone because XLA merged them with other products.
        """
        sought = {write for found in self.evaluator.carriers.paths.values() for _, write in found}
        untraced = sought - set(self._find_traced())
        if untraced and self.evaluator.is_tagged:
            untraced -= self._find_met(untraced)
        for name, wanted, seen in zip(self.outputs, self.pair.intended.outputs, self.pair.actual.outputs, strict=True):
            touched = {write for write in untraced if (wanted | seen) & self.evaluator.space.all_fresh(write)}
            yield name, {Ambiguity(write, Reason.NO_METADATA, 0) for write in touched}

    def _find_met(self, writes: set[int]) -> set[int]:
        """Returns the given writes for which an operation that depends on the write is found again in the schedule."""
        tagged, occurrences = self.pair.intended.tagged, self.pair.actual.occurrences
        fresh = self.evaluator.space.any_fresh(unite(one.labels for path, one in tagged.items() if path in occurrences))
        return {write for write in writes if fresh & self.evaluator.space.bits_of((write,))}

    def _find_traced(self) -> Iterator[int]:
        paths, tags = self.evaluator.carriers.paths, self.evaluator.optimized.tags
        for instruction in self.evaluator.optimized.instructions:
            for operation, write in paths.get(tags.get(instruction.id, ()), ()):
                if is_carrier(operation, instruction):
                    yield write

    def _find_ambiguous(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[TagPath, _AmbiguityKey]]:
        """Yields the tag path of each operation that an ambiguous instruction (one that may compute any of several
        operations, its candidates) may compute and for which the instruction's value would be wrong, with the key of
        the mark to put on the operation.

        Instructions with the same candidates and opcode share one key: repeated layers have as many instructions as
        candidates.
        """
        space = self.evaluator.space
        alike: dict[tuple[int, str], tuple[tuple[TagPath, ...], list[Occurrence]]] = {}
        for tag, candidates in retagged.ambiguous.items() if open_ else ():
            for occurrence in self.pair.actual.occurrences.get(tag, ()):
                alike.setdefault((id(candidates), occurrence.instruction.opcode), (candidates, []))[1].append(
                    occurrence
                )
        open_ &= ~space.bits_of([write.index for write in self.evaluator.writes if write.unknown])
        for candidates, occurrences in alike.values():
            summary = self.comparison.summarize(dict.fromkeys(occurrence.labels for occurrence in occurrences))
            wrong: dict[Labels, _AmbiguityKey | None] = {}
            for path in candidates:
                tagged = self.pair.intended.tagged.get(path)
                if tagged is None or not is_same_operation(tagged.opcode, occurrences[0].instruction):
                    continue
                if tagged.labels not in wrong:
                    bits = self.comparison.find_errors_among(tagged.labels, summary).both
                    named = tuple(self._name(tagged.labels, bits & open_, occurrences))
                    wrong[tagged.labels] = _AmbiguityKey(Reason.AMBIGUOUS, named) if named else None
                key = wrong[tagged.labels]
                if key is not None:
                    yield path, key

    def _name(self, intended: Labels, wrong: Labels, occurrences: list[Occurrence]) -> Iterator[tuple[int, Labels]]:
        """Finds, for each of the `wrong` writes, the first of several similar instructions whose value is wrong about
        it.

        Yields (instruction id, writes as bits) pairs, with the id 0 for the writes for which none is found. intended:
        the set that the program has for the operation. wrong: hidden writes, as bits. occurrences: the instructions;
        only the first ones are tried.
        """
        for occurrence in occurrences[:_NAMED]:
            if not wrong:
                return
            bits = wrong & self.comparison.find_errors(ComparedEdge(intended, occurrence.labels)).both
            if bits:
                yield occurrence.instruction.id, bits
            wrong &= ~bits
        if wrong:
            yield 0, wrong

    def _find_unsure(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[TagPath, _AmbiguityKey]]:
        never = self.comparison.loop_depth_differs | {write.index for write in self.evaluator.writes if write.unknown}
        open_ &= ~self.evaluator.space.bits_of(never)
        own = find_authored_occurrences(
            self.differing, lambda _, seen: retagged.authorship.get(seen.instruction.id) is Authorship.UNSURE
        )
        wrong = [(one, bits) for one in own if (bits := one.errors.both & open_)]
        is_named = sum(bits.bit_count() for _, bits in wrong) <= _MANY
        for one, bits in wrong:
            yield one.path, _AmbiguityKey(Reason.UNSURE, ((one.occurrence.instruction.id if is_named else 0, bits),))

    def _find_unclear_carriers(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[int, _AmbiguityKey]]:
        """Yields each instruction that is a carrier if it computes one of its candidates, and not if it computes
        another one, with the key of the mark to put on it. A carrier holds the value of an operand from before a write.
        """
        evaluator, space = self.evaluator, self.evaluator.space
        if not evaluator.carriers.paths or not open_:
            return
        for one, some, every in list_ambiguous_carriers(
            evaluator.optimized, evaluator.carriers, retagged.ambiguous, space
        ):
            if bits := space.any_original(some & ~every) & open_:
                yield one.id, _AmbiguityKey(Reason.AMBIGUOUS, ((one.id, bits),))


def _is_worse(verdict: Verdict, was: Verdict) -> bool:
    """Returns whether `verdict` is worse than `was`, and `was` is fresh or latent."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)


def _join(keys: list[_AmbiguityKey]) -> dict[tuple[Reason, int], Labels]:
    """Unites what the keys are about: maps (reason, instruction id) to the hidden writes, as bits, for which some key
    with this reason names this instruction.
    """
    joined: defaultdict[tuple[Reason, int], Labels] = defaultdict(int)
    for key in keys:
        for instruction, bits in key.about:
            joined[key.reason, instruction] |= bits
    return dict(joined)


def _forget_names(joined: Mapping[tuple[Reason, int], Labels]) -> dict[tuple[Reason, int], Labels]:
    found: defaultdict[tuple[Reason, int], Labels] = defaultdict(int)
    for (reason, _), bits in joined.items():
        found[reason, 0] |= bits
    return dict(found)
