"""What cannot be told makes outputs unknown: see `doubts` for what that is.

An output is unknown for a hidden write W when it depends on a doubt about W. Findings that name such an output do not name
it any more. Nothing else is taken back: what another write does to the same output stands.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.actual import Actual, Sighting
from ligerdiag.analysis.carriers import is_carrier, is_same_operation
from ligerdiag.analysis.comparison import Cause, Comparison, OutputComparison
from ligerdiag.analysis.doubts import Doubt, Reason
from ligerdiag.analysis.evidence import Differing, find_own_sightings
from ligerdiag.analysis.labels import Labels
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.retag import Descent, Retagged
from ligerdiag.analysis.runner import Runner
from ligerdiag.analysis.search import Found, ReadFinding
from ligerdiag.findings import VERDICT_ORDER, Verdict
from ligerdiag.hlo.shape import count_elements, is_tuple
from ligerdiag.hlo.tags import TagPath

_NAMED = 16
"""Instructions of which one is named in a doubt about all that are alike."""
_MANY = 10_000
"""Pairs of a write and an unsure instruction, above which the instructions are not named."""

type Doubts = Mapping[str, frozenset[Doubt]]
"""Output name to what cannot be told about it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doubter:
    """Finds the doubts of each output."""

    outputs: Mapping[str, OutputComparison]
    """As they are without doubts."""
    intended: Intended
    actual: Actual
    differing: tuple[Differing, ...]
    comparison: Comparison
    run: Runner

    def find_doubts(self) -> Doubts:
        """All of them, by output."""
        found: dict[str, set[Doubt]] = {name: set() for name in self.outputs}
        for name, labels in zip(self.outputs, self.intended.outputs, strict=True):
            found[name] |= {key for key in self.run.space.marks_in(labels) if isinstance(key, Doubt)}
        retagged = self.run.retagged
        unclear = {} if retagged is None else self._find_unclear(retagged, self._find_open())
        for name, doubts in (*unclear.items(), *self._find_untraced()):
            known = {
                cause.write
                for cause in self.outputs[name].causes
                if retagged is None or cause.verdict is Verdict.STALE  # with tags what is found stands
            }
            found[name] |= {doubt for doubt in doubts if doubt.write not in known}  # it cannot get worse
        return {name: frozenset(doubts) for name, doubts in found.items()}

    def _find_unclear(self, retagged: Retagged, open_: Labels) -> dict[str, set[Doubt]]:
        """(4) and (5): by the operations that an instruction may be, and by the instruction that may carry the original.

        open_: the writes, a bit each, of which some output is not known to be stale; it cannot get worse than that.
        """
        operations: defaultdict[TagPath, set[Doubt]] = defaultdict(set)
        instructions: defaultdict[int, set[Doubt]] = defaultdict(set)
        for path, doubt in (*self._find_ambiguous(retagged, open_), *self._find_unsure(retagged, open_)):
            operations[path].add(doubt)
        for instruction, doubt in self._find_unclear_carriers(retagged, open_):
            instructions[instruction].add(doubt)
        if not operations and not instructions:
            return {}
        space = self.run.space.without_marks()
        known: dict[frozenset[Doubt], Labels] = {}

        def mark(doubts: set[Doubt]) -> Labels:
            key = frozenset(doubts)
            if key not in known:
                known[key] = _union(map(space.mark, key))
            return known[key]

        intended, actual = replace(self.run, space=space).with_marks(
            {path: mark(doubts) for path, doubts in operations.items()},
            {key: mark(doubts) for key, doubts in instructions.items()},
        )
        return {
            name: {key for key in space.marks_in(wanted | seen) if isinstance(key, Doubt)}
            for name, wanted, seen in zip(self.outputs, intended.outputs, actual.outputs, strict=True)
        }

    def _find_open(self) -> Labels:
        found = 0
        space = self.run.space
        for name, wanted, seen in zip(self.outputs, self.intended.outputs, self.actual.outputs, strict=True):
            labels = wanted | seen
            stale = space.bits_of(c.write for c in self.outputs[name].causes if c.verdict is Verdict.STALE)
            found |= (space.any_fresh(labels) | space.any_original(labels)) & ~stale
        return found

    def _find_untraced(self) -> Iterator[tuple[str, set[Doubt]]]:
        """(6): outputs that depend on a write of which no carrier is seen again.

        Where the tags are our own worker's, one operation that depends on it is enough: merged products carry nothing.
        """
        sought = {write for found in self.run.carriers.paths.values() for _, write in found}
        untraced = sought - set(self._find_traced())
        if untraced and self.run.retagged is None and not self.run.folded:
            untraced -= self._find_met(untraced)
        for name, wanted, seen in zip(self.outputs, self.intended.outputs, self.actual.outputs, strict=True):
            touched = {write for write in untraced if (wanted | seen) & self.run.space.all_fresh(write)}
            yield name, {Doubt(write, Reason.NO_METADATA, 0) for write in touched}

    def _find_met(self, writes: set[int]) -> set[int]:
        """Those of the writes that some operation depends on which is seen again."""
        seen = 0
        for path, tagged in self.intended.tagged.items():
            if path in self.actual.sightings:
                seen |= tagged.labels
        fresh = self.run.space.any_fresh(seen)
        return {write for write in writes if fresh & self.run.space.bits_of((write,))}

    def _find_traced(self) -> Iterator[int]:
        paths, tags = self.run.carriers.paths, self.run.optimized.tags
        for computation in self.run.optimized.computations.values():
            for instruction in computation.instructions:
                for operation, write in paths.get(tags.get(instruction.id, ()), ()):
                    if is_carrier(operation, instruction):
                        yield write

    def _find_ambiguous(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[TagPath, Doubt]]:
        """Operations that an instruction would be wrong as.

        Of instructions with the same candidates and opcode, all are asked about at once: layers that repeat have as many
        instructions as candidates.
        """
        space = self.run.space
        alike: dict[tuple[int, str], tuple[tuple[TagPath, ...], list[Sighting]]] = {}
        for tag, candidates in retagged.ambiguous.items() if open_ else ():
            for sighting in self.actual.sightings.get(tag, ()):
                alike.setdefault((id(candidates), sighting.instruction.opcode), (candidates, []))[1].append(sighting)
        open_ &= ~space.bits_of([write.index for write in self.run.writes if write.unknown])
        for candidates, sightings in alike.values():
            summary = self.comparison.summarize(dict.fromkeys(sighting.labels for sighting in sightings))
            wrong: dict[Labels, list[Doubt]] = {}
            for path in candidates:
                tagged = self.intended.tagged.get(path)
                if tagged is None or not is_same_operation(tagged.opcode, sightings[0].instruction):
                    continue
                if tagged.labels not in wrong:
                    bits = self.comparison.find_stale_among(tagged.labels, summary)
                    bits |= self.comparison.find_clobbered_among(tagged.labels, summary)
                    wrong[tagged.labels] = list(self._name(tagged.labels, bits & open_, sightings))
                yield from ((path, doubt) for doubt in wrong[tagged.labels])

    def _name(self, intended: Labels, wrong: Labels, sightings: list[Sighting]) -> Iterator[Doubt]:
        """A doubt for each write, with the first instruction that is wrong about it, if that is among the first few."""
        for sighting in sightings[:_NAMED]:
            if not wrong:
                return
            bits = wrong & (
                self.comparison.find_stale(intended, sighting.labels)
                | self.comparison.find_clobbered(intended, sighting.labels)
            )
            for write in self.run.space.writes_of(bits):
                yield Doubt(write, Reason.AMBIGUOUS, sighting.instruction.id)
            wrong &= ~bits
        for write in self.run.space.writes_of(wrong):
            yield Doubt(write, Reason.AMBIGUOUS, 0)

    def _find_unsure(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[TagPath, Doubt]]:
        never = self.comparison.moved | {write.index for write in self.run.writes if write.unknown}
        open_ &= ~self.run.space.bits_of(never)
        own = find_own_sightings(
            self.differing, lambda _, instruction: retagged.descents.get(instruction.id) is Descent.UNSURE
        )
        wrong = [(one, bits) for one in own if (bits := (one.stale | one.clobbered) & open_)]
        is_named = sum(bits.bit_count() for _, bits in wrong) <= _MANY
        for one, bits in wrong:
            for write in self.run.space.writes_of(bits):
                yield one.path, Doubt(write, Reason.UNSURE, one.sighting.instruction.id if is_named else 0)

    def _find_unclear_carriers(self, retagged: Retagged, open_: Labels) -> Iterator[tuple[int, Doubt]]:
        """Instructions that are a carrier as one of their candidates and not as another."""
        space, carriers = self.run.space, self.run.carriers.paths
        if not carriers or not open_:
            return
        carrying = {
            id(candidates): any(path in carriers for path in candidates)
            for candidates in {id(c): c for c in retagged.ambiguous.values()}.values()
        }
        tags = self.run.optimized.tags
        known: dict[tuple[int, str, int], Labels] = {}
        """By candidates, opcode and size, which is all that `is_carrier` looks at."""
        for computation in self.run.optimized.computations.values():
            for instruction in computation.instructions:
                candidates = retagged.ambiguous.get(tags.get(instruction.id, ()), ())
                if not carrying.get(id(candidates), False):
                    continue
                size = -1 if is_tuple(instruction.shape) else count_elements(instruction.shape)
                key = (id(candidates), instruction.opcode, size)
                if key not in known:
                    some, every = 0, -1
                    for path in candidates:
                        carried = space.bits_of(
                            [write for operation, write in carriers.get(path, ()) if is_carrier(operation, instruction)]
                        )
                        some |= carried
                        every &= carried
                    known[key] = some & ~every & open_
                for write in space.writes_of(known[key]):
                    yield instruction.id, Doubt(write, Reason.AMBIGUOUS, instruction.id)


def settle(found: Found, doubts: Doubts) -> Found:
    """The outputs' verdicts and the readers behind them, without what cannot be told."""
    unclear = {(name, doubt.write) for name, about in doubts.items() for doubt in about}
    if not unclear:
        return found
    return Found(
        {name: _settle_output(name, output, unclear) for name, output in found.outputs.items()},
        settle_reads(found.stale, unclear),
        settle_reads(found.clobbered, unclear),
    )


def add_crowded(doubts: Doubts, crowded: Mapping[str, set[int]]) -> Doubts:
    """Also what the search has given up."""
    return {
        name: doubts.get(name, frozenset()) | {Doubt(write, Reason.TOO_MANY, 0) for write in crowded.get(name, ())}
        for name in (*doubts, *[name for name in crowded if name not in doubts])
    }


def settle_reads(reads: Iterable[ReadFinding], unclear: set[tuple[str, int]]) -> tuple[ReadFinding, ...]:
    """Reads with the outputs that they surely reach; those that surely reach none are left out."""
    settled = [
        replace(read, outputs=tuple([name for name in read.outputs if (name, read.write.index) not in unclear]))
        for read in reads
    ]
    return tuple([read for read in settled if read.outputs])


def _settle_output(name: str, output: OutputComparison, unclear: set[tuple[str, int]]) -> OutputComparison:
    kept = tuple([cause for cause in output.causes if (name, cause.write) not in unclear])
    unknown = tuple([Cause(write, Verdict.UNKNOWN) for one, write in sorted(unclear) if one == name])
    causes = (*kept, *unknown)
    return OutputComparison(
        max((cause.verdict for cause in causes), key=VERDICT_ORDER.index, default=Verdict.FRESH), causes
    )


def _union(marks: Iterable[Labels]) -> Labels:
    labels = 0
    for mark in marks:
        labels |= mark
    return labels
