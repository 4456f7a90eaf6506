"""Bystanders: kernels that a wrong value depends on, and whose bytes nobody reads wrongly.

A kernel that overwrites an operand has computed what it leaves there from operands of its own, and these from what other
kernels left in theirs. So a reader that sees one kernel's bytes where it should see the original (or does not see them where
it should) sees (or misses) the others' work with them. All of these hidden writes are in the one dependence set and not in
the other; guilty is the kernel whose bytes it reads. Take an optimizer that overwrites a weight too early: what it wrote was
computed from a gradient, that from what the loss kernel left in the logits, and the reader of the weight has never seen the
logits.

Both programs are evaluated once more, with sets that say whose bytes a value is (`labels`, (5)), and compared again.
  (1) An operation that is wrong about some write by these sets, too, is wrong about such writes alone. One that is not,
      stays wrong about all.
  (2) A write is guilty of an output if the output is wrong about it by these sets, or a read about it that (1) leaves
      reaches it. An output with guilty writes keeps these alone. One without keeps all: no output becomes right here.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.verdict.blame import Blame, Blamed, ReadFinding
from ligerdiag.analysis.verdict.comparison import Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing, find_wrong_edges
from ligerdiag.analysis.verdict.one_value import find_joined
from ligerdiag.analysis.verdict.operands import Operands
from ligerdiag.hlo.module import TagPath

type _Place = tuple[TagPath, int]
"""An operation, and the id of the instruction that stands for it."""


@dataclass(frozen=True, slots=True, eq=False)
class WhoseBytes:
    """The writes that operations and outputs are wrong about by whose bytes they read and are."""

    stale: Mapping[_Place, Labels]
    """A bit for each write (see `LabelSpace.bits_of`)."""
    clobbered: Mapping[_Place, Labels]
    outputs: Mapping[str, frozenset[int]]
    """Output name to HiddenWrite indices."""

    def refine(self, differing: tuple[Differing, ...]) -> tuple[Differing, ...]:
        """Takes back, by (1), the writes that operations are not wrong about."""
        found: list[Differing] = []
        for every in differing:
            one, place = every, (every.path, every.sighting.instruction.id)
            stale, clobbered = self.stale.get(place, 0), self.clobbered.get(place, 0)
            if stale | clobbered:
                one = replace(one, stale=one.stale & stale, clobbered=one.clobbered & clobbered)
            if one.stale | one.clobbered:
                found.append(one)
        return tuple(found)

    def acquit(self, found: Blamed) -> Blamed:
        """Takes back, by (2), the writes and reads that outputs are not wrong by."""
        guilty = {name: set(self.outputs.get(name, ())) for name in found.outputs}
        for read in (*found.stale, *found.clobbered):
            place = None if read.wrong is None else (read.wrong.path, read.wrong.sighting.instruction.id)
            if place in self.stale or place in self.clobbered:
                for name in read.outputs:
                    guilty[name].add(read.write.index)
        settled = {
            name: guilty[name]
            for name, output in found.outputs.items()
            if not guilty[name].isdisjoint(cause.write for cause in output.causes if cause.verdict.is_wrong)
        }
        return replace(
            found,
            outputs={name: _keep(output, settled.get(name)) for name, output in found.outputs.items()},
            stale=_keep_reads(found.stale, settled),
            clobbered=_keep_reads(found.clobbered, settled),
        )


def are_asked_for(
    differing: tuple[Differing, ...], outputs: Mapping[str, OutputVerdict], comparison: Comparison
) -> bool:
    """Returns whether some operation or output is wrong about several writes."""
    wrong: defaultdict[_Place, Labels] = defaultdict(int)
    for one in differing:
        wrong[one.path, one.sighting.instruction.id] |= one.stale | one.clobbered
    return any(bits.bit_count() > 1 for bits in wrong.values()) or any(
        len(_list_wrong(output)) > 1 for output in outputs.values()
    )


def find_whose_bytes(
    names: tuple[str, ...], *, pair: EvaluatedPair, run: Evaluations, comparison: Comparison
) -> WhoseBytes:
    """Evaluates both programs once more, and compares whose bytes their values are."""
    direct = replace(run, direct=True)
    intended = direct.run_intended()
    actual = direct.run_actual(frozenset(path for path, tagged in intended.tagged.items() if tagged.labels))
    known = Operands(intended, actual, run)
    differing = find_differing(intended, actual, comparison)
    if run.retagged is None and not run.folded:
        differing += (*find_wrong_edges(known, comparison), *find_joined(known, comparison))
    stale: defaultdict[_Place, Labels] = defaultdict(int)
    clobbered: defaultdict[_Place, Labels] = defaultdict(int)
    for one in differing:
        for found, bits in ((stale, one.stale), (clobbered, one.clobbered)):
            if bits:
                found[one.path, one.sighting.instruction.id] |= bits
    blame = Blame(
        pair=replace(pair, intended=intended, actual=actual),
        differing=(),
        comparison=comparison,
        run=run,
        known=known,
        instructions={},
    )
    outputs = {
        name: comparison.compare(meant, seen)
        for name, meant, seen in zip(names, intended.outputs, actual.outputs, strict=False)
    }
    outputs = blame.find_beside_operations(outputs)
    return WhoseBytes(stale, clobbered, {name: _list_wrong(output) for name, output in outputs.items()})


def _list_wrong(output: OutputVerdict) -> frozenset[int]:
    return frozenset([cause.write for cause in output.causes if cause.verdict.is_wrong])


def _keep(output: OutputVerdict, guilty: set[int] | None) -> OutputVerdict:
    if guilty is None:
        return output
    causes = tuple([one for one in output.causes if not one.verdict.is_wrong or one.write in guilty])
    return OutputVerdict(find_worst(one.verdict for one in causes), causes)


def _keep_reads(reads: tuple[ReadFinding, ...], guilty: Mapping[str, set[int]]) -> tuple[ReadFinding, ...]:
    """Keeps the outputs that do not take back the read's write, and the reads that have one."""
    kept = [
        replace(
            read,
            outputs=tuple([name for name in read.outputs if read.write.index in guilty.get(name, {read.write.index})]),
        )
        for read in reads
    ]
    return tuple([read for read in kept if read.outputs])
