"""Tags for modules that the compile worker did not tag, worked out from the metadata that XLA keeps.

The unoptimized module's operations are numbered in program order (`instances`). An instruction of the optimized module is an
instance when it has its op_name, its chain of source locations and its opcode. Where several instances have all three in
common, the first of these that leaves some of them decides:
  (1) the instruction's name continues that of the unoptimized instruction, `add.11.1` that of `add.11`: no name is given
      to a second instruction of a module while its passes run;
  (2) element type and dimensions are the same; then, as a partitioned module has smaller ones, element type and rank.
Where a pass has joined two op_names with a semicolon, or has dropped the locations, the first op_name decides alone.
What is left is *ambiguous*: it keeps its candidates under a tag of its own, a negative one, and whoever depends on which of
them it is does not know (see `doubts`).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from ligerdiag.analysis.instances import Instance, list_instances, number_operations
from ligerdiag.hlo.frame_numbers import Chain, FrameNumbers
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.hlo.tags import TagPath

_LIBRARY_CALLS = sorted(having(Trait.LIBRARY_CALL), reverse=True)


class Descent(Enum):
    """Whether an instruction of the optimized module is an operation of the author, going by its name."""

    OWN = "own"
    """It is, or is a clone of it."""
    MADE = "made"
    """A pass made it, and gave it somebody's metadata."""
    UNSURE = "unsure"
    """Its name would fit either."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Retagged:
    """Both modules with tags, and what could not be told apart."""

    program: HloModule
    optimized: HloModule
    ambiguous: Mapping[TagPath, tuple[TagPath, ...]] = field(default_factory=dict[TagPath, tuple[TagPath, ...]])
    """Negative tag of an optimized instruction to the tag paths of its candidates."""
    descents: Mapping[int, Descent] = field(default_factory=dict[int, Descent])
    """Id of a tagged optimized instruction to where it comes from."""


def compute_tags(program: HloModule, optimized: HloModule, *, named: bool = True) -> Retagged:
    """Tags for both modules. named: the optimized module was made from this very one, so that names say something."""
    frames = FrameNumbers()
    own = number_operations(program)
    index = _Index(list_instances(program, own, frames), frames)
    names = {i.name: i for c in program.computations.values() for i in c.instructions} if named else {}
    paths: dict[int, TagPath] = {}
    ambiguous: dict[TagPath, tuple[TagPath, ...]] = {}
    candidates: dict[int, tuple[TagPath, ...]] = {}
    shared: dict[tuple[TagPath, ...], tuple[TagPath, ...]] = {}
    descents: dict[int, Descent] = {}
    for computation in optimized.computations.values():
        for instruction in computation.instructions:
            if not instruction.op_name:
                continue
            found = index.find(optimized, instruction)
            namesake = _find_namesake(instruction.name, names) if found else None
            if len(found) > 1:
                found = index.narrow(instruction, found, namesake)
            if len(found) == 1:
                paths[instruction.id] = found[0].path
                descents[instruction.id] = _compute_descent(instruction, found[0].instruction, namesake)
            elif found:
                paths[instruction.id] = tag = (-1 - len(ambiguous),)
                every = candidates.get(id(found))  # many have the same candidates, and the index keeps its lists
                if every is None:
                    every = tuple([instance.path for instance in found])
                    every = candidates[id(found)] = shared.setdefault(every, every)
                ambiguous[tag] = every
    return Retagged(
        program=replace(program, tags=own),
        optimized=replace(optimized, tags=paths),
        ambiguous=ambiguous,
        descents=descents,
    )


class _Index:
    """Instances by what their clones have in common with them."""

    def __init__(self, instances: list[Instance], frames: FrameNumbers) -> None:
        self._frames = frames
        self._by_frame: dict[tuple[str, int, str], list[Instance]] = {}
        """By the optimized module's own number of a frame: the same question is asked by many instructions."""
        self._by_place: defaultdict[tuple[str, Chain, str], list[Instance]] = defaultdict(list)
        self._narrowed: dict[object, list[Instance]] = {}
        self._by_instruction: dict[int, dict[int, list[Instance]]] = {}
        self._instances = instances
        for one in self._instances:
            if one.op_name:
                opcode = one.instruction.opcode
                self._by_place[one.op_name, one.chain, opcode].append(one)

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], list[Instance]]:
        """By the first op_name and opcode alone, in the order of the instances; seldom needed."""
        found: defaultdict[tuple[str, str], list[Instance]] = defaultdict(list)
        for one in self._instances:
            if one.op_name:
                found[one.op_name.partition(";")[0], one.instruction.opcode].append(one)
        return found

    def find(self, optimized: HloModule, instruction: HloInstruction) -> list[Instance]:
        """Every instance that the instruction of the optimized module may be."""
        frame = instruction.proto.metadata.stack_frame_id
        if not frame:
            return self._find_in_chain(instruction, self._frames.number(optimized, instruction))
        key = (instruction.op_name, frame, instruction.opcode)
        found = self._by_frame.get(key)
        if found is None:
            found = self._find_in_chain(instruction, self._frames.number(optimized, instruction))
            self._by_frame[key] = found
        return found

    def _find_in_chain(self, instruction: HloInstruction, chain: Chain) -> list[Instance]:
        name, opcode = instruction.op_name, instruction.opcode
        for candidate in (opcode, *_LIBRARY_CALLS) if opcode == "custom-call" else (opcode,):
            found = self._by_place.get((name, chain, candidate))
            if found is None and (";" in name or not chain):
                found = self._by_name.get((name.partition(";")[0], candidate))
            if found is not None:
                return found
        return []

    def narrow(
        self, instruction: HloInstruction, found: list[Instance], namesake: HloInstruction | None
    ) -> list[Instance]:
        """(1) and (2) above, each instance once; kept, as many instructions ask the same."""
        group = id(found)
        if group not in self._by_instruction:
            by_instruction: defaultdict[int, list[Instance]] = defaultdict(list)
            for one in found:
                by_instruction[one.instruction.id].append(one)
            self._by_instruction[group] = dict(by_instruction)
        named = self._by_instruction[group].get(namesake.id) if namesake is not None else None
        if named and len(named) == 1:
            return named
        shape = instruction.shape
        key = (group, namesake.id if named and namesake else 0, shape.element_type, tuple(shape.dimensions))
        narrowed = self._narrowed.get(key)
        if narrowed is None:
            narrowed = list({one.path: one for one in _choose_shape(instruction, named or found)}.values())
            self._narrowed[key] = narrowed
        return narrowed


def _choose_shape(instruction: HloInstruction, found: list[Instance]) -> list[Instance]:
    """(2) above."""
    if is_tuple(instruction.shape):
        return found
    kind, dimensions = instruction.shape.element_type, list(instruction.shape.dimensions)
    typed = [one for one in found if one.instruction.shape.element_type == kind]
    equal = [one for one in typed if list(one.instruction.shape.dimensions) == dimensions]
    ranked = [one for one in typed if len(one.instruction.shape.dimensions) == len(dimensions)]
    return equal or ranked or found


def _find_namesake(name: str, names: Mapping[str, HloInstruction]) -> HloInstruction | None:
    """The unoptimized instruction whose name this one continues."""
    while name not in names and "." in name:
        name = name.rpartition(".")[0]
    return names.get(name)


def _compute_descent(
    instruction: HloInstruction, operation: HloInstruction, namesake: HloInstruction | None
) -> Descent:
    """XLA names what comes from the program after its op_name, and what a pass makes after its opcode."""
    if namesake is operation:
        return Descent.OWN
    root = instruction.name.partition(".")[0]
    if root != operation.name.partition(".")[0]:
        return Descent.MADE
    return Descent.UNSURE if root == instruction.opcode else Descent.OWN
