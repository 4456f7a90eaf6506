"""Decides how far to trust the tags of an optimized module that ligerdiag did not compile.

A tag is the number of a program operation, written into the metadata of the instructions that compute it. In a file of
unknown origin an instruction may carry the tag of another operation, or none. Its operands, however, are the program
itself, so they check the tag: a footprint (`footprints`) is the set of parameters and kernel results from which a value
is computed.

- The program's own tags count if its operations have them in program order, each operation its own (`are_in_order`).
- An instruction with the tag and the opcode of an operation is that operation if its footprint is a subset of the
  operation's. For a kernel call, the kernel must also be the same, and the footprint of each operand a subset of that
  of the operation's operand.
- If opcode or size does not match the tagged operation, a pass has copied the metadata. The tag is ignored.
- An instruction without a trusted tag may still be a carrier, which holds the value of a kernel's operand from before the
  write. It is one if it has the opcode and size of a carrier (in a partitioned module, its size may be smaller) and its
  footprint is a subset of the carrier's. An output that would be worse in this case is unknown (see `verdict.verdicts`).

Two operations with the same opcode, size and footprint that carry each other's tags cannot be distinguished.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ligerdiag.analysis.evaluation.carriers import Carriers, is_carrier, is_same_operation
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import count_elements, is_tuple
from ligerdiag.provenance.footprints import Footprint, compute_footprints, number_kernels

LIBRARY_CALLS = ("dot", "convolution")
"""Opcodes of operations that XLA may have replaced by a custom call of a library."""
_NOT_OPERATIONS = having(Trait.NO_OPERATION)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TagTrust:
    """Says which tags of the optimized module can be trusted, by the footprints of both modules. A value's footprint is the
    set of parameters and kernel results from which it is computed.
    """

    program: Mapping[int, Footprint]
    """Maps the id of each instruction of the program to its footprint (the parameters and kernel results from which it
    is computed). `optimized` is the same map for the optimized module.
    """
    optimized: Mapping[int, Footprint]
    operations: Mapping[int, tuple[HloInstruction, ...]]
    """Maps a tag to the program's instructions that have it as the last one of their tag path."""
    is_partitioned: bool
    """Whether the optimized module's values are shards, smaller than the values of the program's operations."""
    refuted: frozenset[int] = field(default=frozenset())
    """Ids of the optimized module's instructions that cannot compute the operation whose tag they have."""

    def find_operations(self, module: HloModule, instruction: HloInstruction) -> tuple[HloInstruction, ...]:
        """Returns the operations of the program that have the instruction's tag, and an opcode and size that fit the
        instruction. Returns () if a pass copied the tag to this instruction.
        """
        path = module.tags.get(instruction.id)
        if not path or instruction.id not in self.optimized:
            return ()
        return tuple(
            [
                one
                for one in self.operations.get(path[-1], ())
                if is_same_operation(one.opcode, instruction) and not _has_grown(one, instruction)
            ]
        )

    def may_be(self, instruction: HloInstruction, operations: tuple[HloInstruction, ...]) -> bool:
        """Returns whether the instruction of the optimized module may compute one of the operations, by its footprint. It
        may if the operations are computed from every parameter and kernel result from which the instruction is computed.
        """
        if instruction.opcode == "custom-call" and all(one.opcode == "custom-call" for one in operations):
            return any(self._may_be_call(instruction, one) for one in operations)
        return not self.optimized[instruction.id] & ~unite(self.program.get(one.id, 0) for one in operations)

    def _may_be_call(self, call: HloInstruction, operation: HloInstruction) -> bool:
        if call.kernel != operation.kernel or len(call.operands) != len(operation.operands):
            return False
        return all(
            not self.optimized[one.id] & ~self.program.get(other.id, 0)
            for one, other in zip(call.operands, operation.operands, strict=True)
        )

    def without_refuted(self, optimized: HloModule) -> HloModule:
        """Returns the optimized module without wrong tags. A tag is wrong if the instruction cannot compute the
        operation that it names.
        """
        if not self.refuted:
            return optimized
        return replace(optimized, tags={key: path for key, path in optimized.tags.items() if key not in self.refuted})

    def find_possible_carriers(
        self, optimized: HloModule, carriers: Carriers, space: LabelSpace
    ) -> Mapping[int, Labels]:
        """Finds the instructions that may be carriers, although no trusted tag says so. Maps the id of each to the ORIG
        labels that would start there. A carrier holds the value of a kernel's operand from before the write. An ORIG label
        says that a value depends on this old value (see `comparison`).
        """
        sought: defaultdict[str, list[tuple[HloInstruction, int]]] = defaultdict(list)
        for found in carriers.paths.values():
            for operation, write in found:
                sought[operation.opcode].append((operation, write))
        library = [pair for opcode in LIBRARY_CALLS for pair in sought.get(opcode, ())]
        possible: dict[int, Labels] = {}
        for one in optimized.instructions if sought else ():
            pairs = sought.get(one.opcode, []) + (library if one.opcode == "custom-call" else [])
            footprint = self.optimized.get(one.id, 0)
            if not pairs or not footprint or is_tuple(one.shape) or self._is_known(optimized, one):
                continue
            labels = unite(
                space.original(write)
                for operation, write in pairs
                if self._is_as_large(operation, one) and not footprint & ~self.program.get(operation.id, 0)
            )
            if labels:
                possible[one.id] = labels
        return possible

    def _is_as_large(self, operation: HloInstruction, instruction: HloInstruction) -> bool:
        if self.is_partitioned:
            return is_carrier(operation, instruction)
        return _list_sizes(operation) == _list_sizes(instruction)

    def _is_known(self, optimized: HloModule, instruction: HloInstruction) -> bool:
        path = optimized.tags.get(instruction.id, ())
        return bool(path) and (path[-1] < 0 or bool(self.find_operations(optimized, instruction)))


def are_in_order(program: HloModule, *, is_numbered: bool = True) -> bool:
    """Returns whether the program's tags are in the order of the instructions. In each computation they must increase, and
    no operation may have a smaller tag than one of its operands.

    Operations that are computed from no parameter and no kernel, such as constants, come first and are not checked.
    is_numbered: whether the instructions' ids give their order. It is False for HLO text, which has no ids; then only
    operands are checked.
    """
    footprints = compute_footprints(program, number_kernels(program)) if is_numbered else None
    return all(_is_in_order(program, computation, footprints) for computation in program.computations.values())


def _is_in_order(program: HloModule, computation: HloComputation, footprints: Mapping[int, Footprint] | None) -> bool:
    keys: dict[int, int] = {}
    last = 0
    for one in computation.instructions:
        path = program.tags.get(one.id)
        before = max([keys[operand.id] for operand in one.operands], default=0)
        if path and before > path[-1]:
            return False
        keys[one.id] = path[-1] if path else before
    if footprints is None:
        return True
    for one in sorted(computation.instructions, key=lambda one: one.id):
        if one.id in program.tags and one.opcode not in _NOT_OPERATIONS and footprints.get(one.id):
            if keys[one.id] < last:
                return False
            last = keys[one.id]
    return True


def compute_tag_trust(program: HloModule, optimized: HloModule) -> TagTrust:
    """Checks the tags of the optimized module by footprints, and returns which tags to trust. A footprint is the set of
    parameters and kernel results from which a value is computed.
    """
    kernels = number_kernels(program)
    operations: defaultdict[int, list[HloInstruction]] = defaultdict(list)
    for one in program.instructions:
        if one.id in program.tags:
            operations[program.tags[one.id][-1]].append(one)
    tag_trust = TagTrust(
        program=compute_footprints(program, kernels),
        optimized=compute_footprints(optimized, kernels),
        operations={tag: tuple(found) for tag, found in operations.items()},
        is_partitioned=is_spmd_partitioned(program, optimized),
    )
    refuted = [
        one.id
        for one in optimized.instructions
        if (found := tag_trust.find_operations(optimized, one)) and not tag_trust.may_be(one, found)
    ]
    return replace(tag_trust, refuted=frozenset(refuted))


def is_spmd_partitioned(program: HloModule, optimized: HloModule) -> bool:
    """Returns whether the parameters of the optimized module are shards: at least one has a different shape than in the
    program.
    """
    return any(
        list(one.shape.dimensions) != list(other.shape.dimensions)
        for one, other in zip(program.entry.parameters, optimized.entry.parameters, strict=False)
    )


def _has_grown(operation: HloInstruction, instruction: HloInstruction) -> bool:
    """Returns whether the instruction has more elements than the operation, as a merger of two products has. False for
    tuples.
    """
    if is_tuple(instruction.shape) or is_tuple(operation.shape):
        return False
    return count_elements(instruction.shape) > count_elements(operation.shape)


def _list_sizes(instruction: HloInstruction) -> list[int]:
    """Returns the instruction's dimensions above 1, sorted by size, so that a transposed operation has the same result."""
    return sorted(size for size in instruction.shape.dimensions if size > 1)
