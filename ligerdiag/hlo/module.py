"""HloModule, HloComputation, HloInstruction: a typed, read-only view of XLA's protobuf, and the compile worker's tags in it.

All references are resolved; an instruction keeps its protobuf message for the attributes that few readers need.

Tags are the unique numbers that the compile worker puts on every StableHLO operation, in program order. XLA carries them
in `op_name`: `jit(f)/mul#ld17`; an operation of an inlined function reads `…#ld15/add#ld85`, outer call first. The path
(15, 85) names one operation of one call. Where a pass made one operation of two, XLA joins their names with a semicolon,
`add#ld85;mul#ld84`: the first is the one whose value it computes. A semicolon or `#` of the author's own is spelled `%3B`
and `%23`. `metadata` decides whether tags may be believed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import le
from typing import Final

from ligerdiag.hlo.shape import InvalidAlias
from ligerdiag.hlo.xla_pb2 import (
    HloComputationProto,
    HloInputOutputAliasProto,
    HloInstructionProto,
    ShapeProto,
    StackFrameIndexProto,
)

type TagPath = tuple[int, ...]
"""Numbers of the calls that lead to the operation, outermost first, and last its own; () when untagged."""

_TAG = re.compile(r"#ld(\d{1,18})(?!\d)")


@lru_cache(maxsize=1 << 16)
def parse_tag_path(op_name: str) -> TagPath:
    """(15, 85) for `jit(f)/call#ld15/add#ld85`; () for a name without tags."""
    if "#ld" not in op_name:
        return ()
    return tuple([int(number) for number in _TAG.findall(op_name.partition(";")[0])])


def strip_tags(op_name: str) -> str:
    """JAX's name stack of the operation whose value it is, without tags and as its author spelled it."""
    return _TAG.sub("", op_name.partition(";")[0]).replace("%3B", ";").replace("%23", "#")


@dataclass(slots=True, eq=False)
class HloInstruction:
    """One instruction. Operands and control predecessors are instructions of the same computation.

    Its fields are Final rather than the record frozen: to make a frozen one takes three times as long, and a large module
    holds 150,000 of them.
    """

    id: Final[int]
    name: Final[str]
    opcode: Final[str]
    operands: "Final[tuple[HloInstruction, ...]]"
    control_predecessors: Final[tuple[int, ...]]
    """Instruction ids (they may come later in the list than this instruction)."""
    called_computations: Final[tuple[int, ...]]
    """Computation ids; `while`: (body, condition)."""
    proto: Final[HloInstructionProto]
    shape: Final[ShapeProto]
    """Shape with layout."""
    op_name: Final[str]
    """The framework's name for the operation: JAX's name stack, with our tags where the worker put them."""

    @property
    def kernel(self) -> tuple[str, bytes]:
        """Target and payload of a custom call."""
        return self.proto.custom_call_target, self.proto.backend_config

    @property
    def operand_output_aliases(self) -> Mapping[int, tuple[int, ...]]:
        """output_to_operand_aliasing, as far as it holds (see `shape`): operand_number to the output's ShapeIndex.

        An entry for a part of an operand leaves the rest of it, and is not here.
        """
        entries = self.proto.output_operand_aliasing
        return {a.operand_index: tuple(a.output_shape_index) for a in entries if not a.operand_shape_index}


@dataclass(frozen=True, eq=False)
class HloComputation:
    """One computation; `instructions` in dependency order, `sequence` in schedule order where there is a schedule."""

    id: int
    name: str
    instructions: tuple[HloInstruction, ...]
    root: HloInstruction
    sequence: tuple[HloInstruction, ...]
    """The schedule's order; empty when the module has no schedule for this computation (fusions, for one)."""
    is_fusion: bool
    proto: HloComputationProto

    @cached_property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Parameter instructions by parameter number."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return tuple(sorted(found, key=lambda i: i.proto.parameter_number))

    @cached_property
    def users(self) -> Mapping[int, tuple[HloInstruction, ...]]:
        """Instruction id to the instructions of this computation that have it as an operand."""
        found: dict[int, list[HloInstruction]] = {i.id: [] for i in self.instructions}
        for instruction in self.instructions:
            for operand in dict.fromkeys(instruction.operands):
                found[operand.id].append(instruction)
        return {key: tuple(value) for key, value in found.items()}

    @cached_property
    def kept_elements(self) -> frozenset[int]:
        """Numbers of the elements of its parameter that a loop's body returns as they came, in the same place."""
        if self.root.opcode != "tuple" or len(self.parameters) != 1:
            return frozenset()
        parameter = self.parameters[0]
        return frozenset([
            number
            for number, one in enumerate(self.root.operands)
            if one.opcode == "get-tuple-element" and one.operands[0] is parameter and one.proto.tuple_index == number
        ])  # fmt: skip


@dataclass(frozen=True, eq=False)
class HloModule:
    """One module."""

    name: str
    entry: HloComputation
    computations: Mapping[int, HloComputation]
    """By computation id; callees before callers."""
    stack_frames: StackFrameIndexProto
    input_output_alias: HloInputOutputAliasProto
    """Module-level aliasing of entry parameters and outputs (donation)."""
    replica_count: int = 1
    """How often the program runs side by side, beside its partitions; 1 where the module does not say."""
    frontend_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the framework told XLA about the module."""
    tags: Mapping[int, TagPath] = field(default_factory=dict[int, TagPath])
    """Instruction id to which operation of the author it is, where that is known: read from `op_name`, or worked out
    afterwards (see `analysis.correspondence.provenance`)."""
    invalid_aliases: list[InvalidAlias] = field(default_factory=list[InvalidAlias])
    """Declared aliases that are none; they are no longer in the messages of their instructions."""
    _orders: dict[int, tuple[HloInstruction, ...]] = field(
        init=False, default_factory=dict[int, tuple[HloInstruction, ...]]
    )

    @property
    def is_scheduled(self) -> bool:
        return bool(self.entry.sequence)

    @cached_property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """Instructions of all computations, fused ones included; callees before callers."""
        return tuple([one for computation in self.computations.values() for one in computation.instructions])

    @property
    def instruction_count(self) -> int:
        return sum(len(c.instructions) for c in self.computations.values())

    @cached_property
    def homes(self) -> Mapping[int, HloComputation]:
        """Instruction id to the computation that holds it."""
        return {i.id: computation for computation in self.computations.values() for i in computation.instructions}

    @cached_property
    def callers(self) -> Mapping[int, tuple[HloInstruction, ...]]:
        """Computation id to the instructions that call it, each once, callees before callers."""
        found: dict[int, list[HloInstruction]] = {}
        for instruction in self.instructions:
            for callee in dict.fromkeys(instruction.called_computations):
                found.setdefault(callee, []).append(instruction)
        return {callee: tuple(callers) for callee, callers in found.items()}

    def find_tag_path(self, instruction: HloInstruction) -> TagPath:
        """Returns the author's operation that an instruction of this module is; () if that is not known."""
        return self.tags.get(instruction.id, ())

    def sort_in_program_order(self, computation: HloComputation) -> tuple[HloInstruction, ...]:
        """Sorts the instructions of a computation by their tags, each after its operands."""
        found = self._orders.get(computation.id)
        if found is None:
            found = self._orders[computation.id] = self._sort(computation)
        return found

    def _sort(self, computation: HloComputation) -> tuple[HloInstruction, ...]:
        tags = self.tags
        keys: dict[int, int] = {}
        for instruction in computation.instructions:
            path = tags.get(instruction.id)
            own = path[-1] if path else 0
            operands = instruction.operands
            keys[instruction.id] = max([own, *[keys[o.id] for o in operands]]) if operands else own
        listed = list(keys.values())
        if all(map(le, listed, listed[1:])):
            return computation.instructions
        return tuple(sorted(computation.instructions, key=lambda i: keys[i.id]))

    def iterate_custom_calls(self) -> Iterator[tuple[HloComputation, HloInstruction]]:
        """Yields every custom-call with the computation that holds it, callees first."""
        return iter(self._custom_calls)

    @cached_property
    def _custom_calls(self) -> tuple[tuple[HloComputation, HloInstruction], ...]:
        computations = self.computations.values()
        return tuple([(home, one) for home in computations for one in home.instructions if one.opcode == "custom-call"])
