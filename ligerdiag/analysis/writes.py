"""Hidden writes of the program as written: operands that a kernel call writes behind XLA's back.

A write is hidden when the kernel's own IR writes an operand that no output of the custom call aliases. Declarations count
for nothing else. A kernel whose effect is unknown counts as a hidden write that may or may not happen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.dataflow import search
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having

type EffectsOf = Callable[[HloInstruction], CallEffects]
"""Maps a custom-call to its effects on its buffers."""

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
    """The module of the call: the program as written, or the optimized one for a call that the program lacks."""

    @property
    def call(self) -> HloInstruction:
        return self.frames[-1].instruction


def find_hidden_operands(call: HloInstruction, effects: CallEffects) -> tuple[int, ...]:
    """Returns the operands that the call writes, or may write, without an output that aliases them."""
    aliased = call.operand_output_aliases
    return tuple(
        number
        for number, access in enumerate(effects.operands)
        if access in (Access.WRITE, Access.READ_WRITE, Access.UNKNOWN) and number not in aliased
    )


def find_hidden_writes(module: HloModule, effects_of: EffectsOf) -> tuple[HiddenWrite, ...]:
    """Finds all hidden writes in the order in which the calls are met, entry computation first."""
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
    return sum(frame.instruction.opcode in LOOPS for frame in frames)


def tag_path_of(module: HloModule, frames: Frames) -> TagPath:
    """Returns the instance's tags: those of the (not yet inlined) calls on the way, then its own."""
    return (*call_tags_of(module, frames[:-1]), *module.find_tag_path(frames[-1].instruction))


def call_tags_of(module: HloModule, frames: Frames) -> TagPath:
    """Returns the tags of the (not yet inlined) calls among these frames."""
    calls = [frame.instruction for frame in frames if frame.instruction.opcode == "call"]
    return tuple([tag for call in calls for tag in module.find_tag_path(call)])


def iterate_kernel_calls(module: HloModule) -> Iterator[tuple[Frames, HloInstruction]]:
    """Yields every custom-call instance that is reachable from the entry computation, with its call path.

    Raises ArtifactError where the paths are so many that they are no program's: calls of calls multiply.
    """
    steps = 0
    for frames in _walk(module, _compute_holders(module), module.entry, ()):
        steps += len(frames)
        if steps > _MOST_STEPS:
            raise ArtifactError(f"`{module.name}` calls kernels in more ways than can be followed")
        yield frames, frames[-1].instruction


def _walk(module: HloModule, holds: frozenset[int], computation: HloComputation, prefix: Frames) -> Iterator[Frames]:
    """Yields the call paths of the custom calls in it, and further in."""
    for instruction in computation.instructions:
        if instruction.opcode == "custom-call":
            yield (*prefix, Frame(computation, instruction))
        elif instruction.opcode in CALLERS:
            for callee in instruction.called_computations:
                if callee in holds:
                    path = (*prefix, Frame(computation, instruction))
                    yield from _walk(module, holds, module.computations[callee], path)


def _compute_holders(module: HloModule) -> frozenset[int]:
    """Returns the ids of computations that hold a custom-call, themselves or further in."""

    def list_callers(number: int) -> list[int]:
        calling = [one for one in module.callers.get(number, ()) if one.opcode in CALLERS]
        return [module.homes[one.id].id for one in calling]

    return frozenset(search([home.id for home, _ in module.iterate_custom_calls()], list_callers))
