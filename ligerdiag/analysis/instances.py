"""The operations of an unoptimized module as they will be called once XLA has inlined every call.

XLA's call inliner (xla/service/call_inliner.cc) joins the op_name of the call and that of the inlined instruction with a
slash, and appends the call's stack frames; what lacks either gets the call's. An *instance* is one operation by one path of
calls: it has a tag path, and the op_name and chain of locations that its clones in the optimized module carry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from ligerdiag.hlo.frame_numbers import Chain, FrameNumbers
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.tags import TagPath

_ENTERED = having(Trait.RUNS_SCHEDULED)
_PIECES = having(Trait.BROADCAST_IN_DIM)
_NOT_OPERATIONS = having(Trait.NO_OPERATION, Trait.TOKEN)


@dataclass(slots=True, eq=False)
class Instance:
    """One operation by one path of calls. Final fields, as those of `HloInstruction`."""

    path: Final[TagPath]
    instruction: Final[HloInstruction]
    op_name: Final[str]
    """As it stands once every call is inlined."""
    chain: Final[Chain]


def number_operations(module: HloModule) -> dict[int, TagPath]:
    """Instruction id to a tag for each operation, rising in program order; what functions hold comes behind the rest.

    The ids of a module that was translated from StableHLO rise in the order of its operations; parameters and what is
    constant come first. The list of instructions itself is a post order, which is not the program's. What the translation
    made of one operation has one tag: the reshapes and broadcasts of a broadcast_in_dim follow each other.
    """
    numbering = _Numbering(module, [module.entry], {module.entry.id})
    for function in numbering.functions:  # grows meanwhile
        numbering.add(function)
    return numbering.tags


@dataclass(frozen=True, slots=True, eq=False)
class _Numbering:
    module: HloModule
    functions: list[HloComputation]
    """The entry computation and what is called, each once, in the order in which they are met."""
    called: set[int]
    """Their ids."""
    tags: dict[int, TagPath] = field(default_factory=dict[int, TagPath])
    seen: set[int] = field(default_factory=set[int])
    """Ids of the computations that were numbered."""

    def add(self, computation: HloComputation) -> None:
        """Numbers its operations, and those of what it runs other than by a call."""
        self.seen.add(computation.id)
        tags, computations = self.tags, self.module.computations
        previous: HloInstruction | None = None
        for instruction in sorted(computation.instructions, key=attrgetter("id")):
            opcode = instruction.opcode
            if opcode in _NOT_OPERATIONS or (opcode == "opt-barrier" and _is_added_barrier(instruction)):
                continue
            if previous is not None and opcode in _PIECES and _continues(previous, instruction):
                tags[instruction.id] = tags[previous.id]
            else:
                tags[instruction.id] = (len(tags) + 1,)
            previous = instruction
            for callee in instruction.called_computations:
                if opcode != "call":
                    if callee not in self.seen:
                        self.add(computations[callee])
                elif callee not in self.called:
                    self.called.add(callee)
                    self.functions.append(computations[callee])


def _is_added_barrier(instruction: HloInstruction) -> bool:
    """Whether the translation as written has put it there."""
    return instruction.opcode == "opt-barrier" and not instruction.op_name


def _continues(previous: HloInstruction, instruction: HloInstruction) -> bool:
    return (
        instruction.opcode in _PIECES
        and previous.opcode in _PIECES
        and instruction.operands[:1] == (previous,)
        and instruction.op_name == previous.op_name != ""
        and instruction.proto.metadata.stack_frame_id == previous.proto.metadata.stack_frame_id
    )


def list_instances(module: HloModule, tags: Mapping[int, TagPath], frames: FrameNumbers) -> list[Instance]:
    """Every tagged operation that is reachable from the entry computation, by each path of calls."""
    found: list[Instance] = []
    _add_instances(found, module, tags, frames, _Call(module.entry, (), "", 0))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A computation, and what its operations inherit from the calls that lead to it."""

    computation: HloComputation
    path: TagPath
    name: str
    chain: Chain


def _add_instances(
    found: list[Instance], module: HloModule, tags: Mapping[int, TagPath], frames: FrameNumbers, call: _Call
) -> None:
    path, name, chain = call.path, call.name, call.chain
    for instruction in call.computation.instructions:
        own = tags.get(instruction.id)
        if own is None:
            continue
        op_name = instruction.op_name
        joined = f"{name}/{op_name}" if name and op_name else name or op_name
        here = frames.number(module, instruction, chain)
        full = (*path, *own) if path else own
        found.append(Instance(full, instruction, joined, here))
        if instruction.opcode in _ENTERED:
            inherited = (full, joined, here) if instruction.opcode == "call" else (path, name, chain)
            for callee in instruction.called_computations:
                _add_instances(found, module, tags, frames, _Call(module.computations[callee], *inherited))
