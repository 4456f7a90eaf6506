"""Finds hidden writes of the program as written: operands that a kernel call writes without XLA knowing.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it. A *call path* leads from the entry computation to an instruction. It is a tuple of
frames, each an instruction and the computation that contains it; the last frame is the instruction itself.

A write is hidden if the kernel's own IR writes an operand that no output of the custom call aliases; nothing else that
the call declares matters. A kernel with unknown effects counts as a hidden write that may or may not happen.

The write to an operand with an aliased output is hidden as well if the schedule keeps operand and output in different bytes
(see `hlo.fused_aliases`). Then the kernel overwrites the operand, although the readers of the output should see the write. A
kernel may also store through the output's own pointer. If it writes the whole output in this way and reads nothing of it
first, there is no hidden write; otherwise the output's value is unknown.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ligerdiag.effects.access import Access, CallEffects, ReadsBeforeWrite, WriteCoverage
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.counters import runs_once
from ligerdiag.hlo.dataflow import search
from ligerdiag.hlo.fixed_values import find_branch, never_runs
from ligerdiag.hlo.fused_aliases import BrokenAlias
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

type EffectsOf = Callable[[HloInstruction], CallEffects]
"""Maps a custom call to the effects of its kernel on the call's buffers."""

LOOPS = frozenset({"while"})
CALLERS = having(Trait.CONTROL_FLOW, Trait.CALLEE_TAKES_OPERANDS)
"""Opcodes whose called computations are part of the program's own flow. For example, `reduce` is not among them: its
`to_apply` is only applied to elements.
"""

_MOST_STEPS = 200_000
"""Limit for the sum of the lengths of all call paths of a module. A module of 1,000 kernels in a few nested calls has
some thousands.
"""


@dataclass(slots=True, eq=False)
class Frame:
    """One step of a call path: an instruction, and the computation that contains it. The fields are set once and never
    changed.
    """

    computation: Final[HloComputation]
    instruction: Final[HloInstruction]


type Frames = tuple[Frame, ...]
"""A call path from the entry computation inward; the last frame is the instruction itself."""


@dataclass(frozen=True, slots=True, eq=False)
class HiddenWrite:
    """One kernel call of the program, with one operand that the kernel writes without XLA knowing."""

    index: int
    """Number of the write, from which its bits in dependence sets are computed: its position in the result of
    `find_hidden_writes`, unless a caller gives one number to several writes that count as one.
    """
    kernel: str
    """The kernel's function name."""
    operand: int
    """Number of the custom call's operand that the kernel writes."""
    unknown: bool
    """True if it is unknown whether the kernel writes here, because its code could not be followed."""
    tag_path: TagPath
    loop_depth: int
    """Number of loops around the call; loops that run once do not count."""
    frames: Frames
    """Call path to the call, in `module`."""
    module: HloModule
    """The module that contains the call: the program as written, or the optimized one for a call that the program
    lacks.
    """
    output: ShapeIndex | None = None
    """The output that aliases the operand by declaration, if the schedule keeps the two in different bytes; otherwise
    None.
    """

    @property
    def call(self) -> HloInstruction:
        return self.frames[-1].instruction


@dataclass(frozen=True, slots=True, eq=False)
class BrokenAliases:
    """The declared aliases that a schedule breaks: it keeps operand and output in different bytes."""

    found: Sequence[BrokenAlias] = ()
    _by_call: Mapping[int, Mapping[int, BrokenAlias]] = field(init=False)
    """Maps the id of an optimized call to the broken alias of each operand, by the operand's number."""

    def __post_init__(self) -> None:
        by_call: dict[int, dict[int, BrokenAlias]] = {}
        for one in self.found:
            by_call.setdefault(one.call.id, {}).setdefault(one.operand, one)
        object.__setattr__(self, "_by_call", by_call)

    def list_operands(self, call: HloInstruction) -> Collection[int]:
        """Returns the numbers of the operands whose declared alias is broken. call: a call of the optimized module."""
        return self._by_call.get(call.id, {}).keys()

    def find_in_schedule(self, call: HloInstruction) -> Mapping[int, BrokenAlias]:
        """Returns the broken aliases of a call by number of the operand. call: a call of the optimized module."""
        return self._by_call.get(call.id, {})

    def find_in_program(self, optimized: HloModule) -> "Callable[[TagPath, HloInstruction], Mapping[int, BrokenAlias]]":
        """Returns a function that finds the broken aliases of a call in the program. The function takes the call's tag path
        and the call, and returns a mapping from the number of an operand to its broken alias.

        It finds the call in the schedule by its tags, or by its payload if the scheduled call has no tags. If only some of
        the matching calls break an alias, `BrokenAlias.certain` is False.
        """
        by_path: dict[TagPath, dict[int, BrokenAlias]] = {}
        by_kernel: dict[tuple[str, bytes], dict[int, BrokenAlias]] = {}
        if not self.found:
            return lambda path, call: {}
        whole = [call for _, call in iterate_kernel_calls(optimized) if call.proto.output_operand_aliasing]
        intact = {optimized.find_tag_path(call) or call.kernel for call in whole if call.id not in self._by_call}
        for one in self.found:
            path = optimized.find_tag_path(one.call)
            seen = replace(one, certain=one.certain and (path or one.call.kernel) not in intact)
            if path:
                by_path.setdefault(path, {}).setdefault(one.operand, seen)
            else:
                by_kernel.setdefault(one.call.kernel, {}).setdefault(one.operand, seen)
        return lambda path, call: by_path.get(path) or by_kernel.get(call.kernel, {})


NOT_BROKEN = BrokenAliases()


def find_hidden_operands(call: HloInstruction, effects: CallEffects, broken: Collection[int] = ()) -> tuple[int, ...]:
    """Returns the numbers of the operands that a kernel call writes, or may write, without XLA knowing.

    broken: numbers of the operands whose declared alias the schedule breaks.
    """
    aliased = call.operand_output_aliases
    return tuple(
        number
        for number, access in enumerate(effects.operands)
        if (access.writes and number not in aliased and not _is_left_alone(effects, number))
        or (number in broken and not _has_own_pointer(call, effects, number))
    )


def _is_left_alone(effects: CallEffects, operand: int) -> bool:
    """Returns whether the kernel's stores to the operand certainly never happen in this launch, because of a flag or a mask
    that is false for every program of the grid.
    """
    is_known = effects.operands[operand] is not Access.UNKNOWN
    return is_known and effects.operand_uses[operand].coverage is WriteCoverage.NONE


def _has_own_pointer(call: HloInstruction, effects: CallEffects, operand: int) -> bool:
    """Returns whether the kernel writes the whole aliased output through the output's own pointer, reads nothing there
    first, and does not write the operand.
    """
    leaves = list(iterate_leaves(call.shape))
    output = call.operand_output_aliases.get(operand)
    if output not in leaves or effects.operands[operand].writes or not effects.output_uses:
        return False
    use = effects.output_uses[leaves.index(output)]
    return use.coverage is WriteCoverage.COMPLETE and use.reads_before_write is ReadsBeforeWrite.NO


def find_hidden_writes(
    module: HloModule,
    effects_of: EffectsOf,
    find_broken: Callable[[TagPath, HloInstruction], Mapping[int, BrokenAlias]] = lambda path, call: {},
) -> tuple[HiddenWrite, ...]:
    """Returns all hidden writes of a module, in the order of a walk from its entry computation.

    find_broken: takes a call's tag path and the call; returns the call's broken aliases by number of the operand.
    """
    found: list[HiddenWrite] = []
    for frames, call in iterate_kernel_calls(module):
        effects = effects_of(call)
        path = tag_path_of(module, frames)
        depth = count_loops(module, frames)
        broken = find_broken(path, call)
        for number in find_hidden_operands(call, effects, broken):
            access, alias = effects.operands[number], broken.get(number)
            unknown = access is Access.UNKNOWN
            if alias is not None:
                unknown = unknown or not access.writes or not alias.certain
            output = None if alias is None else call.operand_output_aliases.get(number)
            found.append(HiddenWrite(len(found), effects.kernel, number, unknown, path, depth, frames, module, output))
    return tuple(found)


def count_loops(module: HloModule, frames: Frames) -> int:
    """Returns the number of loops on a call path, without loops that run once."""
    loops = [frame.instruction for frame in frames if frame.instruction.opcode in LOOPS]
    return sum(not runs_once(module, loop) for loop in loops)


def tag_path_of(module: HloModule, frames: Frames) -> TagPath:
    """Returns the tag path of the instruction at the end of a call path. It has the tags of the `call` instructions on the
    path, outermost first, and the instruction's own tag at the end.
    """
    return (*call_tags_of(module, frames[:-1]), *module.find_tag_path(frames[-1].instruction))


def call_tags_of(module: HloModule, frames: Frames) -> TagPath:
    """Returns the tags of the `call` instructions on a call path. XLA has not inlined these calls."""
    calls = [frame.instruction for frame in frames if frame.instruction.opcode == "call"]
    return tuple([tag for call in calls for tag in module.find_tag_path(call)])


def iterate_kernel_calls(module: HloModule) -> Iterator[tuple[Frames, HloInstruction]]:
    """Yields every custom call with its call path, once for each path that leads to it. Leaves out parts of the module that
    never run (see `hlo.fixed_values`).

    Raises ArtifactError if there are too many paths, as with deeply nested calls.
    """
    steps = 0
    for frames in _walk(module, _compute_holders(module), module.entry, ()):
        steps += len(frames)
        if steps > _MOST_STEPS:
            raise ArtifactError(f"`{module.name}` has too many paths of nested calls to its kernels to analyse")
        yield frames, frames[-1].instruction


def _walk(module: HloModule, holds: frozenset[int], computation: HloComputation, prefix: Frames) -> Iterator[Frames]:
    """Yields the call path of each custom call in the computation or nested in it. prefix: call path to the
    computation.

    holds: ids of the computations that contain custom calls, directly or nested.
    """
    for instruction in computation.instructions:
        if instruction.opcode == "custom-call":
            yield (*prefix, Frame(computation, instruction))
        elif instruction.opcode in CALLERS:
            holding = [callee for callee in instruction.called_computations if callee in holds]
            for callee in list_entered(module, instruction) if holding else ():
                if callee in holds:
                    path = (*prefix, Frame(computation, instruction))
                    yield from _walk(module, holds, module.computations[callee], path)


def list_entered(module: HloModule, caller: HloInstruction) -> tuple[int, ...]:
    """Returns the ids of the computations that an instruction runs, or may run, in the order of its
    `called_computations`. A branch that is never taken and the body of a loop that never runs are left out.
    """
    called = caller.called_computations
    if caller.opcode == "conditional":
        branch = find_branch(module, caller)
        return called if branch is None else called[branch : branch + 1]
    return called[1:] if caller.opcode == "while" and never_runs(module, caller) else called


def list_idle_calls(module: HloModule) -> tuple[HloInstruction, ...]:
    """Returns the custom calls that are in the module but never run."""
    running = {call.id for _, call in iterate_kernel_calls(module)}
    holds = _compute_holders(module)
    reached = search(
        [module.entry.id] if module.entry.id in holds else [],
        lambda number: [
            callee
            for one in module.computations[number].instructions
            if one.opcode in CALLERS
            for callee in one.called_computations
            if callee in holds
        ],
    )
    return tuple(
        [call for home, call in module.iterate_custom_calls() if home.id in reached and call.id not in running]
    )


def _compute_holders(module: HloModule) -> frozenset[int]:
    """Returns the ids of the computations that contain a custom call, directly or nested."""

    def list_callers(number: int) -> list[int]:
        calling = [one for one in module.callers.get(number, ()) if one.opcode in CALLERS]
        return [module.homes[one.id].id for one in calling]

    return frozenset(search([home.id for home, _ in module.iterate_custom_calls()], list_callers))


def writes_aliased(effects: CallEffects, call: HloInstruction, number: int, leaf: ShapeIndex) -> bool:
    """Returns whether the kernel surely writes the bytes of the operand, through the operand's pointer or that of the output
    that aliases it. number: the operand's number. leaf: index of that output.
    """
    outputs = dict(zip(iterate_leaves(call.shape), effects.outputs, strict=False))
    accesses = [outputs.get(leaf, Access.NONE), *effects.operands[number : number + 1]]
    return any(one.writes and one is not Access.UNKNOWN for one in accesses)
