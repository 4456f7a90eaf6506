"""Lists the edges (reads of one value by one consumer) that program and schedule have in common, and finds the
operations with a stale or clobbered edge (see `comparison`).

An operation of the program is *seen* in the schedule if an instruction has its tag. One operation has several edges:

- **The operation as a whole.** `meant` is the dependence set of its result in the program, `delivered` that of the
  instruction's result.
- **Each operand.** An operand may be wrong although the result looks right. Let `a` be {FRESH(W), ORIG(W)} and `b` be
  {ORIG(W)} in the program. If the schedule runs `a * b` after the kernel and reads the overwritten bytes for `b`, it
  delivers {FRESH(W)} for `b`. Yet the product has {FRESH(W), ORIG(W)} on both sides, because of `a`.

Operands are compared only if the instruction is the author's own operation. Passes copy tags to instructions that they
create, and those do not count. `operand_provenance` decides that, and finds out which operation of the program each
operand is.

- If an operand is not recognised, or comes from another operation than intended, nothing says what it should be. It is
  not compared.
- XLA may exchange the operands of a product or of a commutative operation. Each order in which they can be the intended
  operands is tried, and only the errors about a write that all orders have are reported. If no order fits, no operand of
  it is compared.
- If XLA merged several operands into one value, this value is compared with the version of each of them, also if it has
  no tag.

Three passes of XLA make instructions that compute more than the operation whose tag they have:

- Common subexpression elimination computes an operation and its twins (operations that are the same value to XLA) by
  one instruction. If the instruction is wrong for the operation, its operands are compared with those of each twin.
- DotMerger (xla/hlo/transforms/simplifiers/dot_merger.cc) computes two products of one value as one: it concatenates
  the other two operands, multiplies once, and slices the result. The joined product has the tag of one product, and the
  other product is gone. As an operand of the gone product counts the common value, as the joined product reads it.
- SliceSinker and its like take the parts of operands after the operation: XLA computes `x * y` and slices the product.
  That slice has the tag of `x[:8]` and computes `x[:8] * y[:8]`, with which it is compared (`moved_operations`).
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
from ligerdiag.analysis.verdict.renamed_conversions import RenamedConversions
from ligerdiag.hlo.dataflow import Dataflow, Position
from ligerdiag.hlo.module import HloInstruction, TagPath
from ligerdiag.hlo.opcodes import Trait, having

_REARRANGED = having(Trait.COMMUTES, Trait.EXCHANGED, Trait.MULTIPLIES, Trait.ADDS)
"""Opcodes whose operands XLA may reorder. An operation with any other opcode keeps each operand in its place."""


@dataclass(frozen=True, slots=True, eq=False)
class Differing:
    """An operation of the program with a wrong edge, and the instruction of the schedule that computes the operation."""

    path: TagPath
    """Tag path of the operation."""
    tagged: TaggedSet
    """The operation in the program."""
    occurrence: Occurrence
    """The instruction."""
    errors: Errors
    """The hidden writes about which an edge of the operation is stale or clobbered."""
    twin: TagPath = ()
    """If the instruction has the tag of another operation, with which XLA has merged this one: that operation's tag path.
    Otherwise ().
    """
    is_joined: bool = False
    """Whether the instruction computes more than this operation, because XLA has joined it with another product, or
    computes it before it takes the parts of the operands.
    """

    @property
    def is_same(self) -> bool:
        """Returns whether the instruction may compute the operation. It has the operation's opcode, or is a custom call that
        may implement the operation. False if a pass has copied the tag to an instruction that does something else.
        """
        return is_same_operation(self.tagged.opcode, self.occurrence.instruction)

    def keep(self, bits: Labels) -> "Differing":
        """Returns a copy with only the errors about certain hidden writes. bits: these writes, as bits."""
        return replace(self, errors=self.errors & bits)


def compare_outputs(names: tuple[str, ...], pair: EvaluatedPair, comparison: Comparison) -> dict[str, OutputVerdict]:
    """Returns the verdict on each output's own edge, by the output's name. names: names of all outputs, in order."""
    meant, delivered = (chain(one.outputs, repeat(0)) for one in (pair.intended, pair.actual))
    return {name: comparison.compare(ComparedEdge(*sets)) for name, *sets in zip(names, meant, delivered, strict=False)}


def find_wrong_operations(provenance: OperandProvenance, comparison: Comparison) -> tuple[Differing, ...]:
    """Returns the operations with a wrong edge. If the compile worker did not tag the program, operands cannot be
    recognised, and each operation is compared only as a whole.
    """
    found = tuple(_compare_operations(provenance, comparison))
    if not provenance.evaluator.is_tagged:
        return found
    return (
        *found,
        *_compare_operands(provenance, comparison),
        *_compare_moved(provenance, comparison),
        *_compare_proved(provenance, comparison),
        *_compare_joined(provenance, comparison),
    )


def _compare_operations(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields the operations that are wrong as a whole, without renamed conversions whose readers are right."""
    known: dict[ComparedEdge, Errors] = {}
    renamed = RenamedConversions(provenance=provenance, comparison=comparison)
    for path, tagged in provenance.intended.tagged.items():
        for occurrence in provenance.actual.occurrences.get(path, ()):
            if tagged.labels == occurrence.labels:
                continue
            edge = ComparedEdge(tagged.labels, occurrence.labels)
            errors = known.get(edge)
            if errors is None:
                errors = known[edge] = comparison.find_errors(edge)
            if errors and not (provenance.evaluator.is_tagged and renamed.is_harmless(path, occurrence)):
                yield Differing(path, tagged, occurrence, errors)


def _compare_operands(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields the operations with a wrong operand. Each comes with the hidden writes about which the operand is wrong and
    the operation as a whole is not.
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
            here, parts = _judge_operands(tagged, (occurrence, operands), provenance, comparison)
            if parts:
                yield Differing(path, tagged, occurrence, parts)
            for other in twins.list_others(path) if here or parts else ():
                meant = intended.tagged.get(other)
                if meant is None or len(meant.edges) != len(operands):
                    continue
                _, parts = _judge_operands(meant, (occurrence, operands), provenance, comparison)
                if parts:
                    yield Differing(other, meant, occurrence, parts, twin=path)


def _judge_operands(
    tagged: TaggedSet,
    seen: tuple[Occurrence, list[OperandEdge]],
    provenance: OperandProvenance,
    comparison: Comparison,
) -> tuple[Errors, Errors]:
    """Returns, for an instruction that computes this operation, the errors of the operation as a whole, and the errors
    of single operands that the whole does not show.

    seen: the instruction, and its recognised operands.
    """
    occurrence, operands = seen
    found = _judge(tagged, seen, provenance, comparison)
    for edge in _list_joined(tagged, occurrence, operands, provenance.evaluator):
        found |= comparison.find_errors(edge)
    whole = comparison.find_errors(ComparedEdge(tagged.labels, occurrence.labels))
    return whole, Errors(found.stale & ~whole.stale, found.clobbered & ~whole.clobbered)


def _judge(
    tagged: TaggedSet,
    seen: tuple[Occurrence, list[OperandEdge]],
    provenance: OperandProvenance,
    comparison: Comparison,
) -> Errors:
    """Returns the errors of the recognised operands: those that some operand has in every possible order of the intended
    operands. If no order is possible, there are no errors.

    tagged: the operation, with the intended operands. seen: the instruction, and its recognised operands.
    """
    found: Errors | None = None
    occurrence, operands = seen
    for edges in provenance.list_orders(tagged, occurrence, operands):
        every = zip(edges, operands, strict=True)
        pairs = [pair for pair in every if pair[1] != UNSEEN and (pair[0][0] or not pair[1][0])]
        unlike = [pair for pair in pairs if pair[1][0] and not provenance.may_replace(pair[1][0], pair[0][0], tagged)]
        if edges is tagged.edges:
            # The order of the program stays possible if XLA may not exchange the operands, or if an unlike operand is a
            # loop's state on one side: XLA may have moved its operation out of the loop.
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


def _compare_moved(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields the wrong operations that XLA computes before it takes the parts of their operands, such as `x[:8] * y[:8]`
    as a slice of `x * y`. Each comes with the hidden writes about which the operation, or one of its operands, is wrong.

    In the example the instruction is the slice of `x * y`. It has the tag of `x[:8]` (see `moved_operations`). If it may
    compute one of several operations, only the errors that it would have as each of them count.
    """
    for path in provenance.intended.tagged:
        for occurrence in provenance.actual.occurrences.get(path, ()):
            computed = provenance.moved.list_computed(path, occurrence.instruction)
            wrong = [_judge_moved(path, other, occurrence, provenance, comparison) for other in computed]
            errors = reduce(Errors.shared_with, wrong) if wrong else NO_ERRORS
            if errors:
                yield Differing(
                    computed[0], provenance.intended.tagged[computed[0]], occurrence, errors, is_joined=True
                )


def _judge_moved(
    path: TagPath, other: TagPath, occurrence: Occurrence, provenance: OperandProvenance, comparison: Comparison
) -> Errors:
    """Returns the errors of a moved instruction, such as the slice of `x * y`, if it computes the operation `other`,
    such as `x[:8] * y[:8]`.

    path: tag path of the operation whose tag the instruction has, such as `x[:8]`.
    """
    meant = provenance.intended.tagged[other]
    reader, _ = provenance.moved.list_reads(path, occurrence.instruction)[0]
    errors = comparison.find_errors(ComparedEdge(meant.labels, occurrence.labels))
    tag = provenance.evaluator.optimized.tags.get(reader.id, ())
    seen = [one for one in provenance.actual.occurrences.get(tag, ()) if one.instruction is reader]
    if seen and len(meant.edges) == len(reader.operands):
        errors |= _judge(meant, (seen[0], provenance.recognise(other, seen[0])), provenance, comparison)
    return errors


def _compare_proved(provenance: OperandProvenance, comparison: Comparison) -> Iterator[Differing]:
    """Yields the operations that an instruction surely computes although it has the name of another one, such as
    `x[:8] * y[:8]` as a slice of `x * y` that has the name of the slice of `x`. Each comes with the hidden writes about
    which it is wrong as a whole.
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
    """Yields the edges of those operands that are one value in the schedule and mean different versions in the program."""
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
    """Yields each wrong product that is gone because XLA has joined it with another product of the same value.

    The product is wrong if it means another version of the common value than the joined product reads. If several
    joined products may contain it, it is wrong only if it would be wrong in each of them.
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
    """Returns the number of the operand that is common to the products which XLA has joined into this one, as a list;
    an empty list if this is no joined product. The other operand of a joined product is a concatenation that XLA made.

    own: maps the tag of each concatenation in the program to the concatenation.
    """
    operands = product.instruction.operands
    if len(operands) != 2:
        return []
    made = [_is_made_by_xla(find_bytes(operand, product, evaluator)[0], evaluator, own) for operand in operands]
    return [1 - number for number, is_made in enumerate(made) if is_made and not made[1 - number]]


def _is_made_by_xla(value: HloInstruction, evaluator: Evaluator, own: Mapping[int, HloInstruction]) -> bool:
    """Returns whether the value is a concatenation that XLA made.

    If XLA concatenates the result of an author's concatenation with other values, the new concatenation may have the
    tag of the author's. XLA's has another number of operands, or the author's is one of its operands.
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
    """Returns the wrong operations that their instruction certainly computes. The instruction is the author's own operation
    (`is_authored`), or computes it together with others (`Differing.is_joined`).

    Any other instruction only has the operation's tag: passes copy tags to instructions that compute something else, such as
    parts of a reassociated sum.
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
