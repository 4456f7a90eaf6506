"""The search for ambiguities: which outputs depend on the marks that `ambiguities` defines.

The evaluation of the program marks (1) to (3), and `blame` finds (7). Here each operation or instruction that may be another
one, (4) and (5), gets a mark, both programs are evaluated once more, and an output has the ambiguities whose marks reach it;
(6) is asked of each write. Nothing is asked about a write that an output is stale for: it cannot get worse.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.evaluation.carriers import is_carrier, is_same_operation, list_ambiguous_carriers
from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.analysis.evaluation.memory import ActualWrite, Sighting
from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.provenance import Descent, Retagged
from ligerdiag.analysis.reaching_definitions import resolve_operand
from ligerdiag.analysis.verdict.comparison import Comparison, OutputVerdict
from ligerdiag.analysis.verdict.first_divergence import Differing, find_own_sightings
from ligerdiag.analysis.write_correspondence import locate_operand
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import Access
from ligerdiag.hlo.module import TagPath
from ligerdiag.model.findings import Verdict

_NAMED = 16
"""Instructions of which one is named in an ambiguity about all that are alike."""
_MANY = 10_000
"""Pairs of a write and an unsure instruction, above which the instructions are not named."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AmbiguitySearch:
    """Finds the ambiguities of each output."""

    outputs: Mapping[str, OutputVerdict]
    """As they are without ambiguities."""
    pair: EvaluatedPair
    differing: tuple[Differing, ...]
    comparison: Comparison
    run: Evaluations

    def find(self) -> Ambiguities:
        found: dict[str, set[Ambiguity]] = {name: set() for name in self.outputs}
        for name, labels in zip(self.outputs, self.pair.intended.outputs, strict=True):
            found[name] |= {key for key in self.run.space.marks_in(labels) if isinstance(key, Ambiguity)}
        retagged = self.run.retagged
        unclear = {} if retagged is None else self._find_unclear(retagged, self._find_open())
        for name, ambiguities in (*unclear.items(), *self._find_untraced()):
            known = {
                cause.write
                for cause in self.outputs[name].causes
                if retagged is None or cause.verdict is Verdict.STALE  # with tags what is found stands
            }
            found[name] |= {one for one in ambiguities if one.write not in known}  # it cannot get worse
        for name, ambiguities in self._find_twin_operands():
            wrong = {one.write for one in self.outputs[name].causes if one.verdict.is_wrong}
            found[name] |= {one for one in ambiguities if one.write not in wrong}
        return {name: frozenset(ambiguities) for name, ambiguities in found.items()}

    def _find_twin_operands(self) -> Iterator[tuple[str, set[Ambiguity]]]:
        """Finds (11): yields the outputs that depend on calls which get one value of the schedule as two of the program."""
        calls = {
            write.tag_path: Ambiguity(write.index, Reason.TWIN_OPERANDS, actual.call.id)
            for actual in self.pair.actual.writes
            for write in self.pair.writes
            if write.index == actual.write and write.tag_path and self._gets_twins(write, actual)
        }
        if not calls:
            return
        space = self.run.space
        marked = {path: space.mark(("call", path)) for path in calls}
        reached = self.run.run_intended(marked).outputs
        for name, labels in zip(self.outputs, reached, strict=True):
            if some := {one for path, one in calls.items() if labels & marked[path]}:
                yield name, some

    def _gets_twins(self, write: HiddenWrite, actual: ActualWrite) -> bool:
        """Returns whether another operand of the call stands where the kernel writes, and is another one to the program."""
        overlapping = self.pair.buffers.overlapping
        written = {hit for number in actual.slices if number >= 0 for hit in overlapping[number]}
        access = self.run.effects_of(actual.call).operands
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
        """Finds (4) and (5), by the operations that an instruction may be, and by what may carry the original.

        open_: the writes, a bit each, of which some output is not known to be stale; it cannot get worse than that.
        """
        operations: defaultdict[TagPath, set[Ambiguity]] = defaultdict(set)
        instructions: defaultdict[int, set[Ambiguity]] = defaultdict(set)
        for path, ambiguity in (*self._find_ambiguous(retagged, open_), *self._find_unsure(retagged, open_)):
            operations[path].add(ambiguity)
        for instruction, ambiguity in self._find_unclear_carriers(retagged, open_):
            instructions[instruction].add(ambiguity)
        if not operations and not instructions:
            return {}
        space = self.run.space.without_marks()
        known: dict[frozenset[Ambiguity], Labels] = {}

        def mark(ambiguities: set[Ambiguity]) -> Labels:
            key = frozenset(ambiguities)
            if key not in known:
                known[key] = unite(map(space.mark, key))
            return known[key]

        intended, actual = replace(self.run, space=space).with_marks(
            {path: mark(ambiguities) for path, ambiguities in operations.items()},
            {key: mark(ambiguities) for key, ambiguities in instructions.items()},
        )
        return {
            name: {key for key in space.marks_in(wanted | seen) if isinstance(key, Ambiguity)}
            for name, wanted, seen in zip(self.outputs, intended.outputs, actual.outputs, strict=True)
        }

    def _find_open(self) -> Labels:
        """Returns the writes, a bit each, of which some output is not known to be stale."""
        found, space = 0, self.run.space
        for name, wanted, seen in zip(self.outputs, self.pair.intended.outputs, self.pair.actual.outputs, strict=True):
            labels = wanted | seen
            stale = space.bits_of(c.write for c in self.outputs[name].causes if c.verdict is Verdict.STALE)
            found |= (space.any_fresh(labels) | space.any_original(labels)) & ~stale
        return found

    def _find_untraced(self) -> Iterator[tuple[str, set[Ambiguity]]]:
        """Finds (6): outputs that depend on a write of which no carrier is seen again.

        With tags of our own worker, one operation that depends on it is enough: merged products carry nothing.
        """
        sought = {write for found in self.run.carriers.paths.values() for _, write in found}
        untraced = sought - set(self._find_traced())
        if untraced and self.run.retagged is None and not self.run.folded:
            untraced -= self._find_met(untraced)
        for name, wanted, seen in zip(self.outputs, self.pair.intended.outputs, self.pair.actual.outputs, strict=True):
            touched = {write for write in untraced if (wanted | seen) & self.run.space.all_fresh(write)}
            yield name, {Ambiguity(write, Reason.NO_METADATA, 0) for write in touched}

    def _find_met(self, writes: set[int]) -> set[int]:
        """Returns the writes that some operation depends on which is seen again."""
        tagged, sightings = self.pair.intended.tagged, self.pair.actual.sightings
        fresh = self.run.space.any_fresh(unite(one.labels for path, one in tagged.items() if path in sightings))
        return {write for write in writes if fresh & self.run.space.bits_of((write,))}

    def _find_traced(self) -> Iterator[int]:
        paths, tags = self.run.carriers.paths, self.run.optimized.tags
        for instruction in self.run.optimized.instructions:
            for operation, write in paths.get(tags.get(instruction.id, ()), ()):
                if is_carrier(operation, instruction):
                    yield write

    def _find_ambiguous(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[TagPath, Ambiguity]]:
        """Finds operations that an instruction would be wrong as.

        Of instructions with the same candidates and opcode, all are asked about at once: layers that repeat have as many
        instructions as candidates.
        """
        space = self.run.space
        alike: dict[tuple[int, str], tuple[tuple[TagPath, ...], list[Sighting]]] = {}
        for tag, candidates in retagged.ambiguous.items() if open_ else ():
            for sighting in self.pair.actual.sightings.get(tag, ()):
                alike.setdefault((id(candidates), sighting.instruction.opcode), (candidates, []))[1].append(sighting)
        open_ &= ~space.bits_of([write.index for write in self.run.writes if write.unknown])
        for candidates, sightings in alike.values():
            summary = self.comparison.summarize(dict.fromkeys(sighting.labels for sighting in sightings))
            wrong: dict[Labels, list[Ambiguity]] = {}
            for path in candidates:
                tagged = self.pair.intended.tagged.get(path)
                if tagged is None or not is_same_operation(tagged.opcode, sightings[0].instruction):
                    continue
                if tagged.labels not in wrong:
                    bits = self.comparison.find_stale_among(tagged.labels, summary)
                    bits |= self.comparison.find_clobbered_among(tagged.labels, summary)
                    wrong[tagged.labels] = list(self._name(tagged.labels, bits & open_, sightings))
                yield from ((path, ambiguity) for ambiguity in wrong[tagged.labels])

    def _name(self, intended: Labels, wrong: Labels, sightings: list[Sighting]) -> Iterator[Ambiguity]:
        """Yields an ambiguity for each write, with the first instruction that is wrong about it, if it is near."""
        for sighting in sightings[:_NAMED]:
            if not wrong:
                return
            bits = wrong & (
                self.comparison.find_stale(intended, sighting.labels)
                | self.comparison.find_clobbered(intended, sighting.labels)
            )
            for write in self.run.space.writes_of(bits):
                yield Ambiguity(write, Reason.AMBIGUOUS, sighting.instruction.id)
            wrong &= ~bits
        for write in self.run.space.writes_of(wrong):
            yield Ambiguity(write, Reason.AMBIGUOUS, 0)

    def _find_unsure(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[TagPath, Ambiguity]]:
        never = self.comparison.moved | {write.index for write in self.run.writes if write.unknown}
        open_ &= ~self.run.space.bits_of(never)
        own = find_own_sightings(
            self.differing, lambda _, seen: retagged.descents.get(seen.instruction.id) is Descent.UNSURE
        )
        wrong = [(one, bits) for one in own if (bits := (one.stale | one.clobbered) & open_)]
        is_named = sum(bits.bit_count() for _, bits in wrong) <= _MANY
        for one, bits in wrong:
            for write in self.run.space.writes_of(bits):
                yield one.path, Ambiguity(write, Reason.UNSURE, one.sighting.instruction.id if is_named else 0)

    def _find_unclear_carriers(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[int, Ambiguity]]:
        """Finds instructions that are a carrier as one of their candidates and not as another."""
        run, space = self.run, self.run.space
        if not run.carriers.paths or not open_:
            return
        for one, some, every in list_ambiguous_carriers(run.optimized, run.carriers, retagged.ambiguous, space):
            for write in space.writes_of(space.any_original(some & ~every) & open_):
                yield one.id, Ambiguity(write, Reason.AMBIGUOUS, one.id)
