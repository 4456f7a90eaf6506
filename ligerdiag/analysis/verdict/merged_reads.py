"""Finds the operation of the program that gets the wrong version where XLA made one instruction of two operations.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

The instruction that is left has the name and the source line of one of the two. If both mean the same version of an
overwritten value, that does no harm. If they do not, one of them is wrong, and it need not be the one whose line the
instruction has. For example, in `sum(new**2) - sum(old**2)` XLA may keep the square of `new` and read it for both, after the
kernel. Then `old**2` is the wrong reader, although the schedule names only `new**2`.

From the operation at which the schedule is seen to be wrong, the search goes upstream in the program. It passes through
operations that the schedule lacks, and through operations whose twin (one value to XLA) computes another version than they
mean. The first of the latter in program order is the wrong reader.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import Occurrence
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.verdict.comparison import ComparedEdge, Comparison
from ligerdiag.analysis.verdict.first_divergence import WrongRead, put_in_order
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.provenance.value_numbers import Twins, find_twins


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedRead:
    """An operation that gets the wrong version of a value, because XLA merged it with a second operation. The second one
    means a different version. One instruction computes both.
    """

    operation: HloInstruction
    """The operation, in the program as written."""
    twin: HloInstruction
    """The other operation, in the program as written."""
    kept: HloInstruction
    """The instruction of the optimized module that computes both."""


def find_merged_read(pair: EvaluatedPair, comparison: Comparison, read: WrongRead) -> MergedRead | None:
    """Returns the merged operation that explains a wrong read; None if no merge explains it."""
    search = _Search(pair, comparison, find_twins(pair.program), read.write)
    instruction = read.occurrence.instruction
    own = pair.optimized.find_tag_path(instruction)
    if own != read.path and own and search.twins.are_twins(own, read.path):
        return search.find_first([read.path]) or search.describe(read.path, own, instruction)
    found = search.find_first([read.path])
    if found is not None:
        return found
    other = search.find_unlike(read.path)
    return search.describe(read.path, other, instruction) if other else None


def find_merged_output(pair: EvaluatedPair, comparison: Comparison, write: int, output: int) -> MergedRead | None:
    """Returns the merged operation that makes an output wrong, for an output without a wrong read. write: index of the
    hidden write. output: number of the output. Returns None if no merge is the reason, or if the output is not an
    operation's result.
    """
    root = pair.program.entry.root
    values = root.operands if root.opcode == "tuple" else (root,)
    if len(values) != len(pair.intended.outputs):  # a nested tuple
        return None
    path = pair.program.find_tag_path(values[output])
    search = _Search(pair, comparison, find_twins(pair.program), write)
    return search.find_first([path], are_read=True) if path else None


@dataclass(frozen=True, slots=True)
class _Search:
    pair: EvaluatedPair
    comparison: Comparison
    twins: Twins
    write: int

    def find_first(self, starts: Iterable[TagPath], *, are_read: bool = False) -> MergedRead | None:
        """Returns the first operation upstream of `starts` that XLA merged with an operation that means a different version.
        Calls with a hidden write do not count. are_read: whether the operations in `starts` count.
        """
        tagged = self.pair.intended.tagged
        calls = {one.tag_path for one in self.pair.writes}  # LD008 reports merged kernel calls
        found: dict[TagPath, Occurrence] = {}
        seen: set[TagPath] = set()
        pending = list(starts) if are_read else [one for start in starts for one in self._list_operands(start)]
        while pending:
            path = pending.pop()
            if path in seen or path not in tagged:
                continue
            seen.add(path)
            if self._list_seen(path):
                continue
            merged = next(self._list_merged(path), None)
            if merged is not None and path not in calls and self._is_wrong(path, merged.labels):
                found[path] = merged
            if merged is None or path in found or path in calls:
                pending += self._list_operands(path)
        if not found:
            return None
        first = min(found, key=put_in_order)
        return self.describe(
            first, self.pair.optimized.find_tag_path(found[first].instruction), found[first].instruction
        )

    def find_unlike(self, path: TagPath) -> TagPath:
        """Returns the path of a twin that the schedule lacks, and that means a different version than the operation.
        Returns () if there is none. path: tag path of the operation.
        """
        tagged = self.pair.intended.tagged
        for other in self.twins.list_others(path):
            is_gone = path in tagged and other in tagged and not self._list_seen(other)
            if is_gone and self._is_wrong(other, tagged[path].labels):
                return other
        return ()

    def describe(self, path: TagPath, twin: TagPath, kept: HloInstruction) -> MergedRead | None:
        """Returns the record of two merged operations. path, twin: their tag paths. kept: the instruction that computes
        both. Returns None if the program lacks one of the operations.
        """
        operation, other = self._find_operation(path), self._find_operation(twin)
        if operation is None or other is None or operation is other:
            return None
        return MergedRead(operation=operation, twin=other, kept=kept)

    def _find_operation(self, path: TagPath) -> HloInstruction | None:
        tags = self.pair.program.tags
        found = (one for one in self.pair.program.instructions if tags.get(one.id, ())[-1:] == path[-1:])
        return next(found, None) if path else None

    def _list_operands(self, path: TagPath) -> Iterator[TagPath]:
        one = self.pair.intended.tagged.get(path)
        here = put_in_order(path)
        return (operand for operand in (one.operands if one else ()) if put_in_order(operand) < here)

    def _list_seen(self, path: TagPath) -> list[Occurrence]:
        opcode = self.pair.intended.tagged[path].opcode
        every = self.pair.actual.occurrences.get(path, ())
        return [one for one in every if is_same_operation(opcode, one.instruction)]

    def _list_merged(self, path: TagPath) -> Iterator[Occurrence]:
        for other in self.twins.list_others(path):
            if other in self.pair.intended.tagged:
                yield from self._list_seen(other)

    def _is_wrong(self, path: TagPath, delivered: Labels) -> bool:
        errors = self.comparison.find_errors(ComparedEdge(self.pair.intended.tagged[path].labels, delivered))
        return bool(errors.both & self.comparison.space.bits_of((self.write,)))
