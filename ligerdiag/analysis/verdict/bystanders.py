"""Drops bystanders: kernels on which a wrong value depends although every read of their bytes is right.

A kernel computes its result from operands that may be the results of other kernels. So a reader that wrongly sees (or
misses) what one kernel wrote also sees (or misses) the work of the kernels before it. All of these hidden writes are in
only one of the two dependence sets that are compared; the responsible kernel is the one whose bytes the reader reads.
Example: an optimizer overwrites a weight too early. It computed the new weight from a gradient, and the gradient from
the result that the loss kernel left in the logits; the reader of the weight never reads the logits.

Both programs are evaluated once more with *direct* dependence sets, which contain only the kernels that wrote the
value's own bytes (see `evaluation.labels`), and compared again. If the direct sets of an operation are wrong about some
writes, only these writes count for the operation; if they are wrong about none, the operation stays wrong about all of
its writes. A write is responsible for an output if the output's direct sets are wrong about it, or if a read that is
still wrong about the write reaches the output. An output with responsible writes keeps only these; an output without
any keeps all. So this step makes no output right.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.verdict.blame import Blamed, BlameSearch, ReadFinding
from ligerdiag.analysis.verdict.comparison import Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing, find_wrong_edges
from ligerdiag.analysis.verdict.merged_values import find_joined
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.hlo.module import TagPath

type _Place = tuple[TagPath, int]
"""The tag path of an operation, and the id of the instruction that computes the operation."""


@dataclass(frozen=True, slots=True, eq=False)
class DirectErrors:
    """For each operation and each output, the hidden writes whose bytes the operation or the output reads wrongly: it
    misses the write, or sees a write that it should not see.
    """

    stale: Mapping[_Place, Labels]
    """Maps (tag path of an operation, id of the instruction that computes the operation) to the writes that the
    operation misses, as bits (see `LabelSpace.bits_of`).
    """
    clobbered: Mapping[_Place, Labels]
    """Maps the same keys to the writes that the operation sees and should not see."""
    outputs: Mapping[str, frozenset[int]]
    """Maps the name of an output to the indices of the hidden writes about which the output's direct dependence sets
    are wrong.
    """

    def refine(self, differing: tuple[Differing, ...]) -> tuple[Differing, ...]:
        """Returns the wrong operations, each with only the writes whose bytes it reads wrongly. An operation that reads
        no kernel's bytes wrongly keeps all of its writes.
        """
        found: list[Differing] = []
        for every in differing:
            one, place = every, (every.path, every.occurrence.instruction.id)
            stale, clobbered = self.stale.get(place, 0), self.clobbered.get(place, 0)
            if stale | clobbered:
                one = replace(one, stale=one.stale & stale, clobbered=one.clobbered & clobbered)
            if one.stale | one.clobbered:
                found.append(one)
        return tuple(found)

    def drop_bystanders(self, found: Blamed) -> Blamed:
        """Returns a copy of the verdicts and of the blamed reads, without the writes that are not responsible for an
        output.
        """
        responsible = {name: set(self.outputs.get(name, ())) for name in found.outputs}
        for read in (*found.stale, *found.clobbered):
            place = None if read.wrong is None else (read.wrong.path, read.wrong.occurrence.instruction.id)
            if place in self.stale or place in self.clobbered:
                for name in read.outputs:
                    responsible[name].add(read.write.index)
        certain = {
            name: responsible[name]
            for name, output in found.outputs.items()
            if not responsible[name].isdisjoint(cause.write for cause in output.causes if cause.verdict.is_wrong)
        }
        return replace(
            found,
            outputs={name: _keep(output, certain.get(name)) for name, output in found.outputs.items()},
            stale=_keep_reads(found.stale, certain),
            clobbered=_keep_reads(found.clobbered, certain),
        )


def needs_direct_errors(differing: tuple[Differing, ...], outputs: Mapping[str, OutputVerdict]) -> bool:
    """Returns whether some operation or output is wrong about several writes, one of which may then be a bystander (a write
    whose bytes every reader reads correctly).
    """
    wrong: defaultdict[_Place, Labels] = defaultdict(int)
    for one in differing:
        wrong[one.path, one.occurrence.instruction.id] |= one.stale | one.clobbered
    return any(bits.bit_count() > 1 for bits in wrong.values()) or any(
        len(_list_wrong(output)) > 1 for output in outputs.values()
    )


def find_direct_errors(
    names: tuple[str, ...], *, pair: EvaluatedPair, evaluator: Evaluator, comparison: Comparison
) -> DirectErrors:
    """Evaluates both programs once more with direct dependence sets, which contain only the kernels that wrote a
    value's own bytes. Returns the writes whose bytes each operation and each output reads wrongly. names: names of the
    outputs.
    """
    direct = replace(evaluator, direct=True)
    intended = direct.run_intended()
    actual = direct.run_actual(frozenset(path for path, tagged in intended.tagged.items() if tagged.labels))
    provenance = OperandProvenance(intended, actual, evaluator)
    differing = find_differing(intended, actual, comparison)
    if evaluator.retagged is None and not evaluator.canonicalized:
        differing += (*find_wrong_edges(provenance, comparison), *find_joined(provenance, comparison))
    stale: defaultdict[_Place, Labels] = defaultdict(int)
    clobbered: defaultdict[_Place, Labels] = defaultdict(int)
    for one in differing:
        for found, bits in ((stale, one.stale), (clobbered, one.clobbered)):
            if bits:
                found[one.path, one.occurrence.instruction.id] |= bits
    search = BlameSearch(
        pair=replace(pair, intended=intended, actual=actual),
        differing=(),
        comparison=comparison,
        evaluator=evaluator,
        provenance=provenance,
        instructions={},
    )
    outputs = {
        name: comparison.compare(meant, seen)
        for name, meant, seen in zip(names, intended.outputs, actual.outputs, strict=False)
    }
    outputs = search.find_beside_operations(outputs)
    return DirectErrors(stale, clobbered, {name: _list_wrong(output) for name, output in outputs.items()})


def _list_wrong(output: OutputVerdict) -> frozenset[int]:
    return frozenset([cause.write for cause in output.causes if cause.verdict.is_wrong])


def _keep(output: OutputVerdict, responsible: set[int] | None) -> OutputVerdict:
    if responsible is None:
        return output
    causes = tuple([one for one in output.causes if not one.verdict.is_wrong or one.write in responsible])
    return OutputVerdict(find_worst(one.verdict for one in causes), causes)


def _keep_reads(reads: tuple[ReadFinding, ...], responsible: Mapping[str, set[int]]) -> tuple[ReadFinding, ...]:
    """Returns the reads on which an output is still blamed, each without the outputs for which the read's write is not
    responsible.

    responsible: maps an output name to the indices of the output's responsible writes; an output that is not in it
    keeps every read.
    """
    kept = [
        replace(
            read,
            outputs=tuple(
                [name for name in read.outputs if read.write.index in responsible.get(name, {read.write.index})]
            ),
        )
        for read in reads
    ]
    return tuple([read for read in kept if read.outputs])
