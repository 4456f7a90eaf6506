"""Lists the edges (reads of one value by one consumer) that program and schedule have in common, and finds those at
which an operation gets another version than it means.

An operation of the program that is seen again in the optimized module has one edge for all that it reads: its own
dependence set in the program, and that of the instruction which computes it. An operand may be wrong although the whole
operation looks right. Suppose `a * b` is meant to read the kernel's result in `a` and the old contents in `b`, and `a`
also depends on the old contents. If the multiplication reads the overwritten bytes for `b`, its dependence set is still
as intended. So the operands of an operation that is the author's own are edges, too (`operand_provenance` finds out
which operand is which):

- XLA may exchange the operands of a commutative operation or a product; such an operation is wrong only if it is wrong
  with its operands in either order.
- If several operands are one value in the schedule, each of them gets this value, and they need no tag.
- Other operands that are not recognised are skipped, and so are operands that come from another operation than
  intended; if XLA may rearrange the operation's operands, such an operand causes the whole operation to be skipped.
- An instruction that is wrong for the operation whose name it carries may be wrong for a twin of that operation (an
  operation that is the same value to XLA) as well: its operands are edges of each twin.
- A product may be gone because XLA computes two products of one value as one: it concatenates the other operands,
  reads the value once, and slices the result (DotMerger, xla/hlo/transforms/simplifiers/dot_merger.cc). The product
  that is gone gets, for the operand that both have in common, the value that the product which is left reads.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, repeat

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.label_memory import Occurrence
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluation.program_order import CARRIED, TaggedSet
from ligerdiag.analysis.verdict.comparison import NO_ERRORS, ComparedEdge, Comparison, Errors, OutputVerdict
from ligerdiag.analysis.verdict.operand_provenance import RENAMED, UNSEEN, OperandEdge, OperandProvenance, find_bytes
from ligerdiag.hlo.dataflow import Dataflow, Position
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.hlo.opcodes import Trait, having

_REARRANGED = having(Trait.COMMUTES, Trait.EXCHANGED, Trait.MULTIPLIES, Trait.ADDS)
"""Opcodes whose operands XLA may reorder. An operation with any other opcode keeps each operand in its place."""


@dataclass(frozen=True, slots=True, eq=False)
class Differing:
    """An instruction that computes an operation of the program from another version than the operation means."""

    path: TagPath
    tagged: TaggedSet
    occurrence: Occurrence
    errors: Errors
    twin: TagPath = ()
    """Tag path of the operation whose name the instruction carries, if XLA merged that operation with the one at
    `path`; otherwise ().
    """
    is_joined: bool = False
    """Whether XLA computes the operation at `path` and the operation whose name the instruction carries as one product."""

    @property
    def is_same(self) -> bool:
        """Returns whether the instruction may compute the operation at `path`: it has the same opcode, or is a custom
        call that may implement the operation. False, for example, if a pass copied the operation's tag to an
        instruction that computes something else.
        """
        return is_same_operation(self.tagged.opcode, self.occurrence.instruction)

    def keep(self, bits: Labels) -> "Differing":
        """Returns a copy that is wrong about these hidden writes alone."""
        return replace(self, errors=self.errors & bits)


def compare_outputs(names: tuple[str, ...], pair: EvaluatedPair, comparison: Comparison) -> dict[str, OutputVerdict]:
    """Maps the name of each output to the verdict on its own edge. names: the names of all outputs, in their order."""
    meant, delivered = (chain(one.outputs, repeat(0)) for one in (pair.intended, pair.actual))
    return {name: comparison.compare(ComparedEdge(*sets)) for name, *sets in zip(names, meant, delivered, strict=False)}


def find_wrong_operations(provenance: OperandProvenance, comparison: Comparison) -> tuple[Differing, ...]:
    """Returns the instructions with a wrong edge. Without tags of the compile worker, operands are not recognised, and
    only whole operations are compared.
    """
    found = tuple(_compare_operations(provenance, comparison))
    if not provenance.evaluator.is_tagged:
        return found
    return (
        *found,
        *_compare_operands(provenance, comparison),
        *_compare_proved(provenance, comparison),
        *_compare_joined(provenance, comparison),
    )


def _compare_operations(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    known: dict[ComparedEdge, Errors] = {}
    for path, tagged in provenance.intended.tagged.items():
        for occurrence in provenance.actual.occurrences.get(path, ()):
            if tagged.labels == occurrence.labels:
                continue
            edge = ComparedEdge(tagged.labels, occurrence.labels)
            errors = known.get(edge)
            if errors is None:
                errors = known[edge] = comparison.find_errors(edge)
            if errors:
                yield Differing(path, tagged, occurrence, errors)


def _compare_operands(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields operations with a wrong operand, each with the hidden writes about which the operand is wrong and the
    operation as a whole is not.
    """
    intended, twins = provenance.intended, provenance.twins
    for path, tagged in intended.tagged.items():
        if not any(one for one, _ in tagged.edges) and len({labels for _, labels in tagged.edges}) < 2:
            continue
        for occurrence in provenance.actual.occurrences.get(path, ()):
            instruction = occurrence.instruction
            if instruction.opcode != tagged.opcode or len(instruction.operands) != len(tagged.edges):
                continue
            if not provenance.is_authored(path, occurrence):
                continue
            operands = provenance.recognise(path, occurrence)
            here, parts = _judge_operands(path, tagged, (occurrence, operands), provenance, comparison)
            if parts:
                yield Differing(path, tagged, occurrence, parts)
            for other in twins.list_others(path) if here or parts else ():
                meant = intended.tagged.get(other)
                if meant is None or len(meant.edges) != len(operands):
                    continue
                _, parts = _judge_operands(other, meant, (occurrence, operands), provenance, comparison)
                if parts:
                    yield Differing(other, meant, occurrence, parts, twin=path)


def _judge_operands(
    path: TagPath,
    tagged: TaggedSet,
    seen: tuple[Occurrence, list[OperandEdge]],
    provenance: OperandProvenance,
    comparison: Comparison,
) -> tuple[Errors, Errors]:
    """Returns the errors of the instruction as a whole if it computes this operation, and the additional errors of
    single operands.

    seen: the instruction, and its recognised operands.
    """
    occurrence, operands = seen
    found = _judge(tagged, operands, provenance, comparison)
    for edge in _list_joined(tagged, occurrence, operands, provenance.evaluator):
        found |= comparison.find_errors(edge)
    own = comparison.space.bits_of(one.index for one in comparison.writes if one.tag_path == path)
    whole = comparison.find_errors(ComparedEdge(tagged.labels, occurrence.labels))
    return whole, Errors(found.stale & ~whole.stale, found.clobbered & ~whole.clobbered) & ~own


def _judge(
    tagged: TaggedSet, operands: list[OperandEdge], provenance: OperandProvenance, comparison: Comparison
) -> Errors:
    """Returns the errors of the operands. XLA may have changed their order: an error counts only if some operand has it
    in every order that is possible. There are none if no order is.
    """
    found: Errors | None = None
    for edges in provenance.list_orders(tagged, operands):
        every = zip(edges, operands, strict=True)
        pairs = [pair for pair in every if pair[1] != UNSEEN and (pair[0][0] or not pair[1][0])]
        unlike = [pair for pair in pairs if pair[1][0] and not provenance.may_replace(pair[1][0], pair[0][0], tagged)]
        if edges is tagged.edges:  # computed outside of a loop in one program: a loop's state there
            pairs = [pair for pair in pairs if pair not in unlike]
            unlike = [
                pair for pair in unlike if tagged.opcode in _REARRANGED and CARRIED not in {pair[0][0], pair[1][0]}
            ]
        if unlike:
            continue
        errors = NO_ERRORS
        for (_, meant), (_, labels) in pairs:
            errors |= comparison.find_errors(ComparedEdge(meant, labels))
        found = errors if found is None else found.shared_with(errors)
    return found or NO_ERRORS


def _compare_proved(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields the operations that an instruction surely computes although it has the name of another one, such as
    `x[:8] * y[:8]` as a slice of `x * y` that has the name of the slice of `x`, each with the hidden writes about which
    it is wrong.
    """
    intended = provenance.intended.tagged
    for path, meant in intended.items():
        for occurrence in provenance.actual.occurrences.get(path, ()):
            if meant.opcode != occurrence.instruction.opcode:
                continue
            computed = [
                one for one in provenance.evaluator.list_others(path, occurrence.instruction) if one in intended
            ]
            wrong = [comparison.find_errors(ComparedEdge(intended[one].labels, occurrence.labels)) for one in computed]
            errors = reduce(Errors.shared_with, wrong) if wrong else NO_ERRORS
            if errors:
                yield Differing(computed[0], intended[computed[0]], occurrence, errors, is_joined=True)


def _list_joined(
    tagged: TaggedSet, occurrence: Occurrence, operands: list[OperandEdge], evaluator: Evaluator
) -> Iterator[ComparedEdge]:
    """Yields the edges of operands for which the program has different sets, and which are one value in the schedule."""
    if len({labels for _, labels in tagged.edges}) < 2:
        return
    instruction = occurrence.instruction
    places: defaultdict[Position, list[int]] = defaultdict(list)
    for number, operand in enumerate(instruction.operands):
        places[find_bytes(operand, occurrence, evaluator)].append(number)
    for numbers in places.values():
        meanings = {tagged.edges[number][1] for number in numbers}
        if len(meanings) < 2:
            continue
        if len(places) == 1:  # the operation depends on this value alone
            delivered = occurrence.labels & ~evaluator.carried.get(instruction.id, 0)
        elif operands[numbers[0]] != UNSEEN:
            delivered = operands[numbers[0]][1]
        else:
            continue
        yield from (ComparedEdge(meant, delivered) for meant in meanings)


def _compare_joined(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields each product that is gone because XLA computes it and another product of the same value as one, if it
    means another version of this value than every product that may be left for it reads.
    """
    intended, twins = provenance.intended, provenance.twins
    left = {path: list(provenance.list_seen(path)) for path in twins.products if path in intended.tagged}
    gone = [path for path, occurrences in left.items() if not occurrences and intended.tagged[path].edges]
    if not gone:
        return
    concatenations = _find_concatenations(provenance.evaluator)
    joined = [
        (path, one, number)
        for path, some in left.items()
        for one in some
        for number in _list_shared(one, provenance.evaluator, concatenations)
    ]
    for path in gone:
        tagged, found = intended.tagged[path], list[Differing]()
        for other, occurrence, number in joined:
            pairs = enumerate(zip(twins.products[other], twins.products[path], strict=True))
            same = [place for place, (one, another) in pairs if one == another]
            _, labels = provenance.recognise(other, occurrence)[number]
            if len(same) == 1 and labels != UNSEEN[1]:  # XLA may have exchanged the operands
                errors = comparison.find_errors(ComparedEdge(tagged.edges[same[0]][1], labels))
                found.append(Differing(path, tagged, occurrence, errors, twin=other, is_joined=True))
        if found and all(one.errors for one in found):
            yield found[0]


def _find_concatenations(evaluator: Evaluator) -> dict[int, HloInstruction]:
    """Maps the tag of each concatenation that the author wrote to that concatenation."""
    tagged = (
        (evaluator.program.tags.get(one.id, ()), one)
        for one in evaluator.program.instructions
        if one.opcode == "concatenate"
    )
    return {path[-1]: one for path, one in tagged if path}


def _list_shared(product: Occurrence, evaluator: Evaluator, own: Mapping[int, HloInstruction]) -> list[int]:
    """Returns a list of at most one number: that of the operand which several products had in common before XLA joined
    them into this product. XLA has concatenated their other operands. The list is empty if the instruction is not such
    a joined product. own: maps the tag of each concatenation in the program to the concatenation.
    """
    operands = product.instruction.operands
    if len(operands) != 2:
        return []
    made = [_is_made_by_xla(find_bytes(operand, product, evaluator)[0], evaluator, own) for operand in operands]
    return [1 - number for number, is_made in enumerate(made) if is_made and not made[1 - number]]


def _is_made_by_xla(value: HloInstruction, evaluator: Evaluator, own: Mapping[int, HloInstruction]) -> bool:
    """Returns whether the value is a concatenation that XLA made.

    If XLA concatenates the result of an author's concatenation with other values, the new concatenation may carry the
    name of the author's. It is recognised because it has another number of operands, or because the author's
    concatenation is one of its operands.
    """
    path = evaluator.optimized.tags.get(value.id, ())
    meant = own.get(path[-1]) if path else None
    if value.opcode != "concatenate" or meant is None or len(value.operands) != len(meant.operands):
        return value.opcode == "concatenate"
    return any(evaluator.optimized.tags.get(_find_part(one, evaluator).id) == path for one in value.operands)


def _find_part(operand: HloInstruction, evaluator: Evaluator) -> HloInstruction:
    """Returns the instruction that defines the operand; if the operand is a parameter of a fusion, the instruction
    outside of the fusion that defines the fusion's operand.
    """
    flow = Dataflow(evaluator.optimized, RENAMED)
    value, _ = flow.find_definition(operand)
    callers = evaluator.optimized.callers.get(evaluator.optimized.homes[value.id].id, ())
    if value.opcode == "parameter" and [one.opcode for one in callers] == ["fusion"]:
        value, _ = flow.find_definition(callers[0].operands[value.proto.parameter_number])
    return value


def find_authored_occurrences(
    differing: Sequence[Differing], is_authored: Callable[[TagPath, Occurrence], bool]
) -> tuple[Differing, ...]:
    """Returns the instructions that are the author's own operations, according to `is_authored`, and the instructions
    that compute two of the author's products as one.

    Other instructions only carry the metadata of an operation: passes copy it to instructions that compute something
    else, such as parts of a reassociated sum.
    """
    return tuple(
        [
            one
            for one in differing
            if one.is_joined
            or (
                one.occurrence.instruction.opcode == one.tagged.opcode
                and is_authored(one.twin or one.path, one.occurrence)
            )
        ]
    )
