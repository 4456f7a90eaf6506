"""Drops bystanders: kernels on which a wrong value depends although every read of their bytes is right.

A kernel computes its result from operands that may be the results of other kernels. So a reader that wrongly sees (or
misses) what one kernel wrote also sees (or misses) the work of the kernels before it. All of these hidden writes are in
only one of the two dependence sets that are compared; the responsible kernel is the one whose bytes the reader reads.
Example: an optimizer overwrites a weight too early. It computed the new weight from a gradient, and the gradient from
the result that the loss kernel left in the logits; the reader of the weight never reads the logits.

Both programs are evaluated once more with *direct* dependence sets, which contain only the kernels that wrote the value's
own bytes (see `evaluation.labels`), and compared again. If the direct sets of an operation are wrong about some writes, only
these writes count for the operation. If they are wrong about none, the operation stays wrong about all of its writes. A
write is responsible for an output if the output's direct sets are wrong about it, or if a read that is still wrong about the
write reaches the output. An output with responsible writes keeps only these; an output without any keeps all. So this step
makes no output right.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.verdict.blame import Blamed
from ligerdiag.analysis.verdict.compared_edges import Differing, compare_outputs, find_wrong_operations
from ligerdiag.analysis.verdict.comparison import Comparison, Errors, OutputVerdict
from ligerdiag.analysis.verdict.merged_values import blame_merged_values
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.hlo.module import TagPath

type _Place = tuple[TagPath, int]
"""The tag path of an operation, and the id of the instruction that computes the operation."""


@dataclass(frozen=True, slots=True, eq=False)
class DirectErrors:
    """The hidden writes whose bytes each operation and each output reads wrongly. It misses such a write, or sees it and
    should not.
    """

    operations: Mapping[_Place, Errors]
    """Maps (tag path of an operation, id of the instruction that computes it) to the errors about bytes that it reads."""
    outputs: Mapping[str, frozenset[int]]
    """Maps the name of an output to the indices of the hidden writes about which the output's direct dependence sets
    are wrong.
    """

    def refine(self, differing: tuple[Differing, ...]) -> tuple[Differing, ...]:
        """Returns the wrong operations, each with errors only about writes whose bytes it reads wrongly. An operation that
        reads no kernel's bytes wrongly keeps all of its errors.
        """
        found: list[Differing] = []
        for every in differing:
            direct = self.operations.get((every.path, every.occurrence.instruction.id))
            one = every if direct is None else replace(every, errors=every.errors.shared_with(direct))
            if one.errors:
                found.append(one)
        return tuple(found)

    def drop_bystanders(self, found: Blamed) -> Blamed:
        """Returns a copy of the verdicts and of the blamed reads. It lacks the writes that are not responsible for an
        output.
        """
        responsible = {name: set(self.outputs.get(name, ())) for name in found.outputs}
        for read in found.reads:
            if read.wrong and (read.wrong.path, read.wrong.occurrence.instruction.id) in self.operations:
                for name in read.outputs:
                    responsible[name].add(read.write.index)
        certain = {
            name: responsible[name]
            for name, output in found.outputs.items()
            if not responsible[name].isdisjoint(output.wrong)
        }
        return found.drop(lambda name, one: one.verdict.is_wrong and one.write not in certain.get(name, {one.write}))


def needs_direct_errors(differing: tuple[Differing, ...], outputs: Mapping[str, OutputVerdict]) -> bool:
    """Returns whether some operation or output is wrong about several writes. One of the writes may then be a bystander (a
    write whose bytes every reader reads correctly).
    """
    wrong = _join(differing).values()
    is_wrong_about_several = any(errors.both.bit_count() > 1 for errors in wrong)
    return is_wrong_about_several or any(len(output.wrong) > 1 for output in outputs.values())


def find_direct_errors(
    names: tuple[str, ...], *, pair: EvaluatedPair, evaluator: Evaluator, comparison: Comparison
) -> DirectErrors:
    """Returns the writes whose bytes each operation and each output reads wrongly. names: names of the outputs.

    Evaluates program and schedule once more with direct dependence sets. A direct set contains only the kernels that wrote
    the value's own bytes.
    """
    direct = replace(evaluator, direct=True)
    intended = direct.run_intended()
    actual = direct.run_actual(frozenset(path for path, tagged in intended.tagged.items() if tagged.labels))
    differing = find_wrong_operations(OperandProvenance(intended, actual, evaluator), comparison)
    pair = replace(pair, intended=intended, actual=actual)
    outputs, _ = blame_merged_values(compare_outputs(names, pair, comparison), pair, comparison, evaluator)
    return DirectErrors(_join(differing), {name: output.wrong for name, output in outputs.items()})


def _join(differing: tuple[Differing, ...]) -> Mapping[_Place, Errors]:
    """Returns the errors of each place together."""
    found: defaultdict[_Place, Errors] = defaultdict(Errors)
    for one in differing:
        found[one.path, one.occurrence.instruction.id] |= one.errors
    return found
