"""Finds carriers: operations that hold the value of a kernel's operand from before the kernel overwrites it.

A value can be stale although it depends on the kernel's write: a global norm over two gradients, one fresh and one
stale, depends on the write through the fresh one. But it *also* depends on the original, on a path that does not lead
through the kernel (the label ORIG, see `labels`). ORIG starts at an entry parameter that a kernel overwrites
(`Carriers.parameters`), and at carriers:

- the operation that computes the overwritten operand, looking through operations that only pass its elements on (see
  `reaching_definitions.find_origins`);
- each operation all of whose users are carriers (the bf16 logits before the convert, the product before the bias is added);
  not a broadcast: it has fewer distinct elements than its shape, and XLA recomputes it wherever it is needed.

An operation that depends on no parameter (zeros, an iota) is no carrier, because XLA may share its value legitimately. An
operation with a *twin* is no carrier either. A twin is another operation of equal value in the same computation, in its
callers or in computations called beside it. XLA inlines calls, and common subexpression elimination then merges the two.

Carriers are found again in the optimized module by opcode and tag. The tag is the number that ligerdiag gave each operation
of the program before the compile; a *tag path* also has the tags of the calls that lead to the operation. An instruction
with more elements than the carrier is a merger of two operations (two products with a common factor) and counts as neither.
An operand with several definitions (elements of a loop's state that change places) should have as many in the optimized
module. If n of them are not found there by tag, and exactly n instructions that are no carriers define the operand, these
instructions are the missing definitions (`carry_displaced`). If a write has no carrier and overwrites no entry parameter, it
has no ORIG label anywhere, and a value is found stale only if the FRESH label is missing.

Exceptions, and where ORIG ends, are decided elsewhere:

- `analysis.context.compute_context` calls this module; `evaluated_pair.find_unrelated` lists the ORIG labels that an
  operand of a call cannot have.
- `schedule_order.ScheduleEvaluation._find_starting` starts no ORIG at a slice of bytes that the kernel has overwritten.
- `labels.transfer_call` ends ORIG at the kernel's call, `LabelSpace.meet` where alternative paths meet.
- `analysis.context._find_partitioned_carriers` looks in a partitioned module for instructions without a tag that may be
  carriers. No ORIG starts at these in the evaluation that decides: an output that would be worse with them is unknown
  (`verdicts.add_unidentified`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from types import MappingProxyType

from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.reaching_definitions import find_inlined, find_origins
from ligerdiag.analysis.writes import Frames, HiddenWrite, call_tags_of
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import count_elements, is_integer, is_tuple
from ligerdiag.provenance.value_numbers import find_equal_operand, number_inlined

_NOT_OPERATIONS = having(Trait.NO_OPERATION, Trait.FROM_NOTHING, Trait.CONTROL_FLOW)
_NOT_PARTS = _NOT_OPERATIONS | {"broadcast"}
_LIBRARY_CALLS = having(Trait.LIBRARY_CALL)


@dataclass(frozen=True, slots=True, eq=False)
class Carriers:
    """The carriers of all hidden writes. A carrier is an operation that holds an operand's value from before a write. An
    ORIG label starts at each carrier; it says that a value depends on such old contents.
    """

    instructions: Mapping[tuple[TagPath, int], tuple[int, ...]]
    """Maps (tag path, instruction id) of a carrier in the unoptimized module to the indices of the hidden writes whose
    operand's old value it holds.
    """
    paths: Mapping[TagPath, tuple[tuple[HloInstruction, int], ...]]
    """The carriers that have a tag, found by tag path alone: maps the path to (carrier, index of a hidden write) pairs.
    `is_carrier` uses them to recognize a carrier in the optimized module, where it has another id.
    """
    parameters: Mapping[int, tuple[int, ...]]
    """Maps the number of an entry parameter to the indices of the hidden writes that overwrite the parameter itself."""
    origins: Mapping[int, frozenset[TagPath]] = MappingProxyType({})
    """Maps the index of a hidden write to the tag paths of the carriers that define its operand, if the operand has
    several definitions, such as elements of a loop's state that change places.
    """


def compute_carriers(writes: tuple[HiddenWrite, ...]) -> Carriers:
    """Finds the carriers of every hidden write of the program. A carrier is an operation that holds the operand's value
    from before the write.
    """
    instructions: defaultdict[tuple[TagPath, int], list[int]] = defaultdict(list)
    paths: defaultdict[TagPath, list[tuple[HloInstruction, int]]] = defaultdict(list)
    parameters: defaultdict[int, list[int]] = defaultdict(list)
    origins: defaultdict[int, set[TagPath]] = defaultdict(set)
    definitions: Counter[int] = Counter()
    modules = {write.index: write.module for write in writes}
    for index, prefix, computation, values, frames in _group_origins(writes, parameters):
        module = modules[index]
        defining = {value.id for value in values}
        definitions[index] += len(defining)
        for carrier in _find_carriers(module, computation, values, frames):
            own = module.find_tag_path(carrier)
            if module is writes[0].module:  # the carriers of a write that only the schedule has are not in the program
                instructions[(*prefix, *own), carrier.id].append(index)
            if own:
                paths[(*prefix, *own)].append((carrier, index))
                if carrier.id in defining:
                    origins[index].add((*prefix, *own))
    definitions.update(index for carried in parameters.values() for index in carried)
    return Carriers(
        {key: tuple(value) for key, value in instructions.items()},
        {key: tuple(value) for key, value in paths.items()},
        {key: tuple(value) for key, value in parameters.items()},
        {index: frozenset(paths) for index, paths in origins.items() if definitions[index] > 1},
    )


def _group_origins(
    writes: tuple[HiddenWrite, ...], parameters: defaultdict[int, list[int]]
) -> Iterator[tuple[int, TagPath, HloComputation, list[HloInstruction], Frames]]:
    """Yields the definitions of each hidden write's operand, grouped by computation: index of the hidden write, tags of
    the calls that lead to the computation, the computation, the definitions in it, and the call path to one of them.
    Adds to `parameters` each entry parameter that a kernel overwrites.

    Two calls that XLA merges into one write have the same index, so that their operands do not count as twins of each
    other (see the module's docstring).
    """
    found: dict[tuple[int, TagPath, int], tuple[HloComputation, dict[int, HloInstruction], Frames]] = {}
    for write in writes:
        for frames in find_origins(write):
            computation, value = frames[-1].computation, frames[-1].instruction
            if value.opcode == "parameter":
                if write.index not in parameters[value.proto.parameter_number]:
                    parameters[value.proto.parameter_number].append(write.index)
                continue
            key = (write.index, call_tags_of(write.module, frames[:-1]), computation.id)
            found.setdefault(key, (computation, {}, frames))[1][value.id] = value
    for (index, prefix, _), (computation, values, frames) in found.items():
        yield index, prefix, computation, list(values.values()), frames


def is_same_operation(opcode: str, optimized: HloInstruction) -> bool:
    """Returns whether an instruction of the optimized module may compute an operation with the opcode `opcode`. It may
    if it has the same opcode, or is a custom call that may be a library's implementation of the operation.
    """
    return optimized.opcode == opcode or (opcode in _LIBRARY_CALLS and optimized.opcode == "custom-call")


_BECOMES: Mapping[str, tuple[str, ...]] = {
    "scatter": ("dynamic-update-slice",),
    "gather": ("dynamic-slice",),
    "divide": ("multiply",),
    "subtract": ("add",),
}
"""Maps the opcode of an operation to the opcodes of the instructions with which XLA may replace it. For example, a
scatter of one slice becomes a `dynamic-update-slice`, and a division by a constant becomes a `multiply`.
"""


def is_carrier(operation: HloInstruction, optimized: HloInstruction) -> bool:
    """Returns whether an optimized instruction computes exactly `operation`. It does not if XLA has merged several
    operations in it. optimized: an instruction with the operation's tag.
    """
    if not is_same_operation(operation.opcode, optimized) and optimized.opcode not in _BECOMES.get(
        operation.opcode, ()
    ):
        return False
    if is_integer(operation.shape) != is_integer(optimized.shape):
        return (
            False  # an index that the partitioner computes from a device's number has the tag of the divided operation
        )
    return is_tuple(optimized.shape) or count_elements(optimized.shape) <= count_elements(operation.shape)


def compute_carried(
    module: HloModule, carriers: Carriers, candidates: Mapping[TagPath, tuple[TagPath, ...]], space: LabelSpace
) -> Mapping[int, Labels]:
    """Finds the instructions of the optimized module that compute a carrier. A carrier is an operation that holds an
    operand's value from before a write. Maps the id of each to the ORIG labels that start there. An ORIG label says that
    a value depends on the contents from before a write.

    candidates: maps the tag of an instruction that may compute one of several operations to the tag paths of these
    operations. At such an instruction a label starts only if it would start at each of these operations.
    """
    paths, tags = carriers.paths, module.tags
    if not paths:
        return {}
    found = {one.id: _start(paths.get(tags.get(one.id, ()), ()), one, space) for one in module.instructions}
    found |= {one.id: every for one, _, every in list_ambiguous_carriers(module, carriers, candidates, space)}
    return {number: labels for number, labels in found.items() if labels}


def find_lost_carriers(module: HloModule, carriers: Carriers) -> Carriers:
    """Returns the lost carriers: XLA has rewritten them, and no instruction of the optimized module computes them. A carrier
    is an operation that holds an operand's value from before a write.
    """
    tags = module.tags
    found = {
        tags[one.id]
        for one in module.instructions
        if any(is_carrier(operation, one) for operation, _ in carriers.paths.get(tags.get(one.id, ()), ()))
    }
    return Carriers({}, {path: operations for path, operations in carriers.paths.items() if path not in found}, {})


def carry_displaced(
    module: HloModule,
    carriers: Carriers,
    carried: Mapping[int, Labels],
    performed: Iterable[HiddenWrite],
    space: LabelSpace,
) -> tuple[Carriers, Mapping[int, Labels]]:
    """Finds the instructions that replace carriers in the optimized module. A carrier is an operation that holds an
    overwritten operand's old value. Looks only at operands with several definitions.

    carried: result of `compute_carried`. performed: the writes as the optimized module performs them. Returns `carriers`
    without the replaced ones in `Carriers.origins`. Also returns `carried` with the ORIG labels (dependences on contents
    from before a write) that start at the instructions found.
    """
    lost = frozenset(find_lost_carriers(module, carriers).paths) if carriers.origins else frozenset[TagPath]()
    gone = {index: paths & lost for index, paths in carriers.origins.items() if not paths.isdisjoint(lost)}
    if not gone:
        return carriers, carried
    defining: defaultdict[int, dict[int, HloInstruction]] = defaultdict(dict)
    for write in performed:
        for frames in find_origins(write) if write.index in gone else ():
            one = _find_computed(module, frames[-1].instruction)
            defining[write.index][one.id] = one
    added, found = dict(carried), dict(carriers.origins)
    for index, paths in gone.items():
        original = space.original(index)
        unnamed = [
            one
            for one in defining[index].values()
            if one.opcode not in _NOT_OPERATIONS
            and not carried.get(one.id, 0) & original
            and one.id in _find_dependent(module.homes[one.id])
        ]
        if len(unnamed) == len(paths) and not any(is_tuple(one.shape) for one in unnamed):
            added |= {one.id: added.get(one.id, 0) | original for one in unnamed}
            found[index] -= paths
    return replace(carriers, origins=found), added


def _find_computed(module: HloModule, value: HloInstruction) -> HloInstruction:
    """Returns the instruction that computes the value: for a fusion, the root of the fused computation."""
    while value.opcode == "fusion":
        value = module.computations[value.called_computations[0]].root
    return value


def list_ambiguous_carriers(
    module: HloModule, carriers: Carriers, candidates: Mapping[TagPath, tuple[TagPath, ...]], space: LabelSpace
) -> Iterator[tuple[HloInstruction, Labels, Labels]]:
    """Yields the instructions that may compute several operations, at least one of them a carrier.

    Yields each as (instruction, ORIG labels that start at any of its operations, ORIG labels that start at every one).
    """
    paths, tags = carriers.paths, module.tags
    groups = {id(group): group for group in candidates.values()}
    carrying = {number for number, group in groups.items() if any(path in paths for path in group)}
    known: dict[tuple[int, str, int, bool], tuple[Labels, Labels]] = {}
    for instruction in module.instructions if carrying else ():
        group = candidates.get(tags.get(instruction.id, ()), ())
        if id(group) not in carrying:
            continue
        size = -1 if is_tuple(instruction.shape) else count_elements(instruction.shape)
        key = id(group), instruction.opcode, size, is_integer(instruction.shape)  # all on which `is_carrier` depends
        if key not in known:
            starts = [_start(paths.get(path, ()), instruction, space) for path in group]
            known[key] = unite(starts), reduce(lambda one, other: one & other, starts)
        yield instruction, *known[key]


def _start(carried: tuple[tuple[HloInstruction, int], ...], instruction: HloInstruction, space: LabelSpace) -> Labels:
    return unite(space.original(write) for operation, write in carried if is_carrier(operation, instruction))


def _find_carriers(
    module: HloModule, computation: HloComputation, values: list[HloInstruction], frames: Frames
) -> list[HloInstruction]:
    users = computation.users
    found = {value.id: value for value in values if value.opcode not in _NOT_OPERATIONS}
    pending = [operand for value in found.values() for operand in value.operands]
    while pending:
        candidate = pending.pop()
        if candidate.id in found or candidate.opcode in _NOT_PARTS or candidate is computation.root:
            continue
        if all(user.id in found for user in users[candidate.id]):
            found[candidate.id] = candidate
            pending += candidate.operands
    where = find_inlined(module, frames)
    (_, numbers), dependent = number_inlined(module, where.root)[where.path], _find_dependent(computation)
    every = _count_values(module, where.root)
    inside = Counter(numbers[one.id] for one in found.values() if find_equal_operand(one) is None)
    return [c for c in found.values() if c.id in dependent and inside[numbers[c.id]] == every[numbers[c.id]]]


@lru_cache(maxsize=32)
def _count_values(module: HloModule, root: HloComputation) -> Mapping[int, int]:
    """Returns, for each value number, how many operations have it, in the computation `root` and in everything that is
    inlined into it. Operations of equal value have one number (see `provenance.value_numbers`).
    """
    return Counter(
        numbers[one.id]
        for home, numbers in number_inlined(module, root).values()
        for one in home.instructions
        if one.opcode not in _NOT_OPERATIONS and find_equal_operand(one) is None
    )


@lru_cache(maxsize=32)
def _find_dependent(computation: HloComputation) -> frozenset[int]:
    """Returns the ids of the instructions that depend on a parameter of the computation."""
    found: set[int] = set()
    for instruction in computation.instructions:
        if instruction.opcode == "parameter" or any(operand.id in found for operand in instruction.operands):
            found.add(instruction.id)
    return frozenset(found)
