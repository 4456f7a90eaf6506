"""The operations of an unoptimized module as they will be called once XLA has inlined every call.

XLA's call inliner (xla/service/call_inliner.cc) joins the op_name of the call and that of the inlined instruction with a
slash, and appends the call's stack frames; what lacks either gets the call's. An *instance* is one operation by one path of
calls: it has a tag path, and the op_name and chain of locations that its clones in the optimized module carry.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from ligerdiag.hlo.frame_numbers import Chain, FrameNumbers
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.tags import TagPath

_ENTERED = frozenset({"call", "while", "conditional", "async-start"})
_PIECES = frozenset({"broadcast", "reshape"})
"""What a broadcast_in_dim is translated to."""
_NOT_OPERATIONS = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "after-all"})


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
    tags: dict[int, TagPath] = {}
    functions = {module.entry.id: module.entry}
    seen: set[int] = set()

    def number(computation: HloComputation) -> None:
        seen.add(computation.id)
        previous: HloInstruction | None = None
        for instruction in sorted(computation.instructions, key=attrgetter("id")):
            opcode = instruction.opcode
            if opcode in _NOT_OPERATIONS or (opcode == "opt-barrier" and _is_added_barrier(instruction)):
                continue
            continues = previous is not None and opcode in _PIECES and _continues(previous, instruction)
            tags[instruction.id] = tags[previous.id] if previous and continues else (len(tags) + 1,)
            previous = instruction
            for callee in instruction.called_computations:
                if instruction.opcode == "call":
                    functions.setdefault(callee, module.computations[callee])
                elif callee not in seen:
                    number(module.computations[callee])

    pending = [module.entry]
    for function in pending:
        before = len(functions)
        number(function)
        pending += list(functions.values())[before:]
    return tags


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


def iterate_instances(module: HloModule, tags: dict[int, TagPath], frames: FrameNumbers) -> Iterator[Instance]:
    """Every tagged operation that is reachable from the entry computation, by each path of calls."""

    def walk(computation: HloComputation, path: TagPath, name: str, chain: Chain) -> Iterator[Instance]:
        for instruction in computation.instructions:
            own = tags.get(instruction.id)
            if own is None:
                continue
            op_name = instruction.op_name
            joined = f"{name}/{op_name}" if name and op_name else name or op_name
            here = frames.number(module, instruction, chain)
            yield Instance((*path, *own), instruction, joined, here)
            if instruction.opcode in _ENTERED:
                inner = (joined, here, (*path, *own)) if instruction.opcode == "call" else (name, chain, path)
                for callee in instruction.called_computations:
                    yield from walk(module.computations[callee], inner[2], inner[0], inner[1])

    yield from walk(module.entry, (), "", 0)
