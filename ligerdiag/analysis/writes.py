"""Which kernel calls write operands behind XLA's back: the hidden writes of the program as written.

A write is hidden when the kernel's own IR writes an operand that no output of the custom call aliases. Declarations count
for nothing else. A kernel whose effect is unknown counts as a hidden write that may or may not happen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having

type EffectsOf = Callable[[HloInstruction], CallEffects]
"""From a custom-call to what it does to its buffers."""

LOOPS = frozenset({"while"})
CALLERS = having(Trait.CONTROL_FLOW, Trait.CALLEE_TAKES_OPERANDS)
"""Opcodes whose called computations are part of the program's own flow (a reduction's to_apply is not)."""

_MOST_STEPS = 200_000
"""Of all call paths together; a module of 1,000 kernels in a few nested calls has some thousands."""


@dataclass(slots=True, eq=False)
class Frame:
    """One step of a call path: this instruction of this computation. Final fields, as those of `HloInstruction`."""

    computation: Final[HloComputation]
    instruction: Final[HloInstruction]


type Frames = tuple[Frame, ...]
"""From the entry computation inward; the last frame is the instruction itself."""


@dataclass(frozen=True, slots=True, eq=False)
class HiddenWrite:
    """One (kernel call, operand) pair of the program as written."""

    index: int
    """Its number in the label space."""
    kernel: str
    """The kernel's function name."""
    operand: int
    """operand_number of the custom call."""
    unknown: bool
    """The kernel could not be followed: it may or may not write here."""
    tag_path: TagPath
    loop_depth: int
    """Number of loops around the call."""
    frames: Frames
    """Call path in the module that it was found in."""
    module: HloModule
    """Where it was found: the program as written, or the optimized module, for a call that is nobody's."""

    @property
    def call(self) -> HloInstruction:
        """The custom call."""
        return self.frames[-1].instruction


def find_hidden_operands(call: HloInstruction, effects: CallEffects) -> tuple[int, ...]:
    """Operands that the call writes, or may write, without an output that aliases them."""
    aliased = call.operand_output_aliases
    return tuple(
        number
        for number, access in enumerate(effects.operands)
        if access in (Access.WRITE, Access.READ_WRITE, Access.UNKNOWN) and number not in aliased
    )


def find_hidden_writes(module: HloModule, effects_of: EffectsOf) -> tuple[HiddenWrite, ...]:
    """All hidden writes in the order in which the calls are met, entry computation first."""
    found: list[HiddenWrite] = []
    for frames, call in iterate_kernel_calls(module):
        effects = effects_of(call)
        path = tag_path_of(module, frames)
        depth = count_loops(frames)
        for number in find_hidden_operands(call, effects):
            unknown = effects.operands[number] is Access.UNKNOWN
            found.append(HiddenWrite(len(found), effects.kernel, number, unknown, path, depth, frames, module))
    return tuple(found)


def count_loops(frames: Frames) -> int:
    """Number of loops around the last frame's instruction."""
    return sum(frame.instruction.opcode in LOOPS for frame in frames)


def tag_path_of(module: HloModule, frames: Frames) -> TagPath:
    """The instance's tags: those of the (not yet inlined) calls on the way, then its own."""
    return (*call_tags_of(module, frames[:-1]), *module.find_tag_path(frames[-1].instruction))


def call_tags_of(module: HloModule, frames: Frames) -> TagPath:
    """Tags of the (not yet inlined) calls among these frames."""
    path: list[int] = []
    for frame in frames:
        if frame.instruction.opcode == "call":
            path += module.find_tag_path(frame.instruction)
    return tuple(path)


def iterate_kernel_calls(module: HloModule) -> Iterator[tuple[Frames, HloInstruction]]:
    """Every custom-call instance that is reachable from the entry computation, with its call path.

    Raises ArtifactError where the paths are so many that they are no program's: calls of calls multiply.
    """
    steps = 0
    for frames in _walk(module, _compute_holders(module), module.entry, ()):
        steps += len(frames)
        if steps > _MOST_STEPS:
            raise ArtifactError(f"`{module.name}` calls kernels in more ways than can be followed")
        yield frames, frames[-1].instruction


def _walk(module: HloModule, holds: frozenset[int], computation: HloComputation, prefix: Frames) -> Iterator[Frames]:
    """Call paths of the custom calls in it, and further in."""
    for instruction in computation.instructions:
        if instruction.opcode == "custom-call":
            yield (*prefix, Frame(computation, instruction))
        elif instruction.opcode in CALLERS:
            for callee in instruction.called_computations:
                if callee in holds:
                    yield from _walk(
                        module, holds, module.computations[callee], (*prefix, Frame(computation, instruction))
                    )


def _compute_holders(module: HloModule) -> frozenset[int]:
    """Ids of computations that hold a custom-call, themselves or further in; callees come before callers."""
    holders: set[int] = set()
    for computation in module.computations.values():
        for instruction in computation.instructions:
            if instruction.opcode == "custom-call" or (
                instruction.opcode in CALLERS and any(c in holders for c in instruction.called_computations)
            ):
                holders.add(computation.id)
                break
    return frozenset(holders)
