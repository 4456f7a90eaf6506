"""Finds out which operation of the program each instruction of the schedule computes, if the compile worker did not tag
the modules. A tag is a number that the worker writes into the metadata of each operation before the compile, to find
the operation again in the optimized module.

XLA's own metadata then replaces the tags. This module also corrects the tags of branches and loop bodies that XLA has
deduplicated.

XLA's call inliner (xla/service/call_inliner.cc) joins the op_name of the call and that of the inlined instruction with a
slash, and appends the call's stack frames. An instruction without an op_name or stack frames gets the call's. An *instance*
is one operation reached by one path of calls. It has a tag path: its own tag, after the tags of the calls. It also has the
op_name and the chain of source locations that its clones in the optimized module have.

The unoptimized module's operations are numbered in program order. An instruction of the optimized module is taken to be
an instance with the same op_name, chain of source locations and opcode. If several instances match, these criteria are
applied one after another, until one instance is left:

- the name: `add.11.1` continues `add.11`, and no two instructions get one name while a module's passes run;
- element type and dimensions;
- element type and rank, since a partitioned module has smaller arrays.

If a pass has joined two op_names with a semicolon, or has dropped the locations, the first op_name decides alone. If
several instances remain, the instruction is *ambiguous*: it gets a negative tag of its own, and `Retagged.ambiguous`
maps that tag to the candidates. An output that depends on the choice is unknown (see `ambiguities`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Final

from ligerdiag.hlo.dataflow import search
from ligerdiag.hlo.fixed_values import sort_branches
from ligerdiag.hlo.module import (
    Chain,
    FrameNumbers,
    HloComputation,
    HloInstruction,
    HloModule,
    TagPath,
    is_added_barrier,
)
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple

_ENTERED = having(Trait.RUNS_SCHEDULED)
_SHARING = frozenset({"conditional", "while"})
_PIECES = having(Trait.BROADCAST_IN_DIM)
_NOT_OPERATIONS = having(Trait.NO_OPERATION, Trait.TOKEN)


@dataclass(slots=True, eq=False)
class Instance:
    """One operation of the program, on one path of calls. An operation has two instances if its function is called twice."""

    path: Final[TagPath]
    instruction: Final[HloInstruction]
    op_name: Final[str]
    """The op_name that the operation has after every call on the path is inlined."""
    chain: Final[Chain]


def forget_entered(program: HloModule, optimized: HloModule) -> HloModule:
    """Returns the optimized module without tags of conditionals and loops in its tag paths. The tag path of an operation is
    then the same as in the program: the tags of the `call`s that lead to it, and its own tag.

    XLA turns three kinds of code into a `call` and inlines it: the branch that is known to be taken, a branch whose
    conditional becomes a select, and the body of a loop that runs once. XLA then puts the op_name of the conditional or
    loop, with its tag, in front of the op_names inside.
    """
    entered = {
        path[-1]
        for one in program.instructions
        if one.opcode in _ENTERED and one.opcode != "call" and (path := program.find_tag_path(one))
    }
    if not entered:
        return optimized
    tags = {
        number: path if entered.isdisjoint(path[:-1]) else (*[tag for tag in path[:-1] if tag not in entered], path[-1])
        for number, path in optimized.tags.items()
    }
    return replace(optimized, tags=tags)


def number_operations(module: HloModule) -> dict[int, TagPath]:
    """Returns the tag of each operation of the module by instruction id, such as `{3: (1,), 8: (2,)}`. Tags increase in
    program order, with called functions last.

    The ids of a module that was translated from StableHLO increase in the order of its operations; parameters and
    constants come first. The module's list of instructions is a post order instead, which is not the program's order.
    Several instructions that make up one operation get one tag, such as the consecutive reshapes and broadcasts of a
    broadcast_in_dim.
    """
    numbering = _Numbering(module, [module.entry], {module.entry.id})
    for function in numbering.functions:  # `add` appends to this list
        numbering.add(function)
    return numbering.tags


@dataclass(frozen=True, slots=True, eq=False)
class _Numbering:
    module: HloModule
    functions: list[HloComputation]
    """The entry computation and all computations that a `call` calls, each once, in the order in which they are met."""
    called: set[int]
    """Ids of the computations in `functions`."""
    tags: dict[int, TagPath] = field(default_factory=dict[int, TagPath])
    seen: set[int] = field(default_factory=set[int])
    """Ids of the computations that have been numbered."""

    def add(self, computation: HloComputation) -> None:
        """Numbers the operations of a computation, and of its loops and branches. Adds the computations that it runs by a
        `call` to `functions`.
        """
        self.seen.add(computation.id)
        tags, computations = self.tags, self.module.computations
        previous: HloInstruction | None = None
        for instruction in sorted(computation.instructions, key=attrgetter("id")):
            opcode = instruction.opcode
            if opcode in _NOT_OPERATIONS or is_added_barrier(instruction):
                continue
            if previous is not None and _continues(previous, instruction):
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


def _continues(previous: HloInstruction, instruction: HloInstruction) -> bool:
    return (
        instruction.opcode in _PIECES
        and previous.opcode in _PIECES
        and instruction.operands[:1] == (previous,)
        and instruction.op_name == previous.op_name != ""
        and instruction.proto.metadata.stack_frame_id == previous.proto.metadata.stack_frame_id
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A computation that is reached by a path of calls, and the tag path, op_name and source locations that the calls
    add to its operations.
    """

    computation: HloComputation
    path: TagPath
    name: str
    chain: Chain


def _iterate_instances(
    module: HloModule, tags: Mapping[int, TagPath], frames: FrameNumbers, call: _Call
) -> Iterator[Instance]:
    """Yields every tagged operation that is reachable from the computation of `call`, once for each path of calls."""
    path, name, chain = call.path, call.name, call.chain
    for instruction in call.computation.instructions:
        own = tags.get(instruction.id)
        if own is None:
            continue
        op_name = instruction.op_name
        joined = f"{name}/{op_name}" if name and op_name else name or op_name
        here = frames.number(module, instruction, chain)
        full = (*path, *own) if path else own
        yield Instance(full, instruction, joined, here)
        if instruction.opcode in _ENTERED:
            inherited = (full, joined, here) if instruction.opcode == "call" else (path, name, chain)
            for callee in instruction.called_computations:
                yield from _iterate_instances(module, tags, frames, _Call(module.computations[callee], *inherited))


_LIBRARY_CALLS = sorted(having(Trait.LIBRARY_CALL), reverse=True)


class Authorship(Enum):
    """Who made an instruction of the optimized module, by its name: the author, or a pass of XLA."""

    AUTHORED = "own"
    """The instruction is the author's operation, or a clone of it."""
    MADE_BY_PASS = "made"
    """A pass made the instruction, and gave it the metadata of an author's operation."""
    UNSURE = "unsure"
    """The instruction's name would fit either case."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Retagged:
    """The program and the optimized module with the tags that `compute_tags` gave them. For an instruction that may compute
    one of several operations, `ambiguous` lists these operations.
    """

    program: HloModule
    optimized: HloModule
    ambiguous: Mapping[TagPath, tuple[TagPath, ...]] = field(default_factory=dict[TagPath, tuple[TagPath, ...]])
    """Maps the negative tag of an optimized instruction that may be one of several operations to the tag paths of these
    operations.
    """
    authorship: Mapping[int, Authorship] = field(default_factory=dict[int, Authorship])
    """Maps the id of a tagged optimized instruction to whether it is the author's operation."""


def compute_tags(program: HloModule, optimized: HloModule, *, named: bool = True) -> Retagged:
    """Computes the tags of both modules from XLA's metadata.

    named: whether instruction names of the two modules may be compared, because `optimized` was compiled from `program`.
    """
    frames = FrameNumbers()
    own = number_operations(program)
    entry = _Call(program.entry, (), "", 0)
    index = _Index(list(_iterate_instances(program, own, frames, entry)), frames)
    names = {one.name: one for one in program.instructions} if named else {}
    paths: dict[int, TagPath] = {}
    ambiguous: dict[TagPath, tuple[TagPath, ...]] = {}
    candidates: dict[int, tuple[TagPath, ...]] = {}
    shared: dict[tuple[TagPath, ...], tuple[TagPath, ...]] = {}
    authorship: dict[int, Authorship] = {}
    for instruction in optimized.instructions:
        if not instruction.op_name:
            continue
        found = index.find(optimized, instruction)
        namesake = _find_namesake(instruction.name, names) if found else None
        if len(found) > 1:
            found = index.narrow(instruction, found, namesake)
        if len(found) == 1:
            paths[instruction.id] = found[0].path
            authorship[instruction.id] = _compute_authorship(instruction, found[0].instruction, namesake)
        elif found:
            paths[instruction.id] = tag = (-1 - len(ambiguous),)
            every = candidates.get(id(found))  # `found` is a list of the index, shared by many instructions
            if every is None:
                every = tuple([instance.path for instance in found])
                every = candidates[id(found)] = shared.setdefault(every, every)
            ambiguous[tag] = every
    return Retagged(
        program=replace(program, tags=own),
        optimized=replace(optimized, tags=paths),
        ambiguous=ambiguous,
        authorship=authorship,
    )


class _Index:
    """Finds the instances (operations of the program by path of calls) that an instruction of the optimized module may
    compute, by the metadata that clones keep.
    """

    def __init__(self, instances: list[Instance], frames: FrameNumbers) -> None:
        self._frames = frames
        self._by_frame: dict[tuple[str, int, str], list[Instance]] = {}
        """The result of `find` for each (op_name, the optimized module's own number of a stack frame, opcode): many
        instructions share one.
        """
        self._by_place: defaultdict[tuple[str, Chain, str], list[Instance]] = defaultdict(list)
        self._narrowed: dict[object, list[Instance]] = {}
        self._by_instruction: dict[int, dict[int, list[Instance]]] = {}
        self._instances = instances
        for one in instances:
            if one.op_name:
                self._by_place[one.op_name, one.chain, one.instruction.opcode].append(one)

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], list[Instance]]:
        """Maps a first op_name and an opcode to instances, in the order of the program. Only needed if the source
        locations do not match.
        """
        found: defaultdict[tuple[str, str], list[Instance]] = defaultdict(list)
        for one in self._instances:
            if one.op_name:
                found[one.op_name.partition(";")[0], one.instruction.opcode].append(one)
        return found

    def find(self, optimized: HloModule, instruction: HloInstruction) -> list[Instance]:
        """Returns every instance that the instruction of the optimized module may be."""
        frame = instruction.proto.metadata.stack_frame_id
        if not frame:
            return self._find_in_chain(instruction, self._frames.number(optimized, instruction))
        key = (instruction.op_name, frame, instruction.opcode)
        if key not in self._by_frame:
            chain = self._frames.number(optimized, instruction)
            self._by_frame[key] = self._find_in_chain(instruction, chain)
        return self._by_frame[key]

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
        """Returns those of the instances `found` that fit the instruction's name. If several fit, it compares their shapes
        too.

        namesake: the program's instruction whose name the instruction's name continues, as `add.11.1` continues `add.11`.
        """
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
        if key not in self._narrowed:
            chosen = _choose_shape(instruction, named or found)
            self._narrowed[key] = list({one.path: one for one in chosen}.values())
        return self._narrowed[key]


def _choose_shape(instruction: HloInstruction, found: list[Instance]) -> list[Instance]:
    """Returns the instances that have the instruction's element type and dimensions; if there are none, those that have
    its element type and rank; otherwise all.
    """
    if is_tuple(instruction.shape):
        return found
    kind, dimensions = instruction.shape.element_type, list(instruction.shape.dimensions)
    typed = [one for one in found if one.instruction.shape.element_type == kind]
    equal = [one for one in typed if list(one.instruction.shape.dimensions) == dimensions]
    ranked = [one for one in typed if len(one.instruction.shape.dimensions) == len(dimensions)]
    return equal or ranked or found


def _find_namesake(name: str, names: Mapping[str, HloInstruction]) -> HloInstruction | None:
    """Returns the unoptimized instruction whose name this name continues, as `add.11.1` continues `add.11`; None if
    there is none.
    """
    while name not in names and "." in name:
        name = name.rpartition(".")[0]
    return names.get(name)


def _compute_authorship(
    instruction: HloInstruction, operation: HloInstruction, namesake: HloInstruction | None
) -> Authorship:
    """Returns whether the instruction is the author's operation, judged by its name.

    XLA names an instruction from the program after its op_name, and an instruction that a pass makes after its opcode.
    operation: the operation whose metadata the instruction has. namesake: the program's instruction whose name the
    instruction's name continues.
    """
    if namesake is operation:
        return Authorship.AUTHORED
    root = instruction.name.partition(".")[0]
    if root != operation.name.partition(".")[0]:
        return Authorship.MADE_BY_PASS
    return Authorship.UNSURE if root == instruction.opcode else Authorship.AUTHORED


type _Operations = tuple[tuple[TagPath, str], ...]
"""Tag path and opcode of each operation of a branch, in program order."""


def retag_shared_computations(program: HloModule, optimized: HloModule) -> HloModule:
    """Returns the optimized module with corrected tags in the branches and loop bodies that XLA has deduplicated. Each
    instruction has the tag from its own branch or loop of the program again.

    XLA makes two computations one if they compute the same from their arguments
    (xla/hlo/transforms/simplifiers/hlo_computation_deduplicator.cc), and both then have the tags of the first one. But
    they get different arguments, so that a kernel in them overwrites different values: `kernel(a, b)` in one branch and
    `kernel(b, a)` in the other, or two equal loops that run on two values.

    If an instruction in branch k of the schedule has a tag from branch m of the program, it gets the tag of the operation at
    the same position in branch k. The branches k and m must have the same opcodes in the same order. Bodies and conditions
    of loops are treated like branches. A conditional on a predicate has the branch of `true` first; a conditional with two
    branches on an index has the branch of `false` first.
    """
    callers = {
        path[-1]: one for one in program.instructions if one.opcode in _SHARING and (path := program.find_tag_path(one))
    }
    own = {
        tag: [_list_operations(program, callee) for callee in one.called_computations] for tag, one in callers.items()
    }
    alike: defaultdict[tuple[str, ...], list[_Operations]] = defaultdict(list)
    for some in own.values():
        for operations in some:
            alike[_list_opcodes(operations)].append(operations)
    tags, homes = dict(optimized.tags), _find_callers(optimized)
    for one in optimized.instructions if callers else ():
        path = tags.get(one.id, ())
        caller = callers.get(path[-1]) if path else None
        if caller is None or one.opcode != caller.opcode or len(one.called_computations) != len(own[path[-1]]):
            continue
        order = _find_order(caller, one) if one.opcode == "conditional" else range(len(one.called_computations))
        for number, callee in zip(order, one.called_computations, strict=True):
            operations = own[path[-1]][number]
            renamed = _find_renamed(alike[_list_opcodes(operations)], operations)
            for home in _list_inside(optimized, callee, homes) if renamed else ():
                for instruction in optimized.computations[home].instructions:
                    if found := tags.get(instruction.id):
                        tags[instruction.id] = tuple([renamed.get(tag, tag) for tag in found])
    return replace(optimized, tags=tags) if tags != optimized.tags else optimized


def _find_order(program: HloInstruction, optimized: HloInstruction) -> Sequence[int]:
    """Returns, for each branch of the schedule's conditional, the number of the corresponding branch in the program."""
    own, others = sort_branches(program), sort_branches(optimized)
    return [own[others.index(number)] for number in range(len(others))]


def _list_opcodes(operations: _Operations) -> tuple[str, ...]:
    return tuple([opcode for _, opcode in operations])


def _find_renamed(alike: Sequence[_Operations], own: _Operations) -> Mapping[int, int]:
    """Maps the tags of operations in other computations to the tags of the operations at the same position in `own`,
    except tags that `own` has itself. alike: the computations with the opcodes of `own` in the same order.
    """
    known = {path[-1] for path, _ in own}
    return {
        path[-1]: mine[-1]
        for other in alike
        for (path, _), (mine, _) in zip(other, own, strict=True)
        if path[-1] not in known
    }


def _list_operations(program: HloModule, callee: int) -> _Operations:
    """Returns the tagged operations of a branch and, recursively, of the computations nested in it (loop bodies, inner
    branches), but not those reached through a `call`.
    """
    return tuple(_iterate_operations(program, callee))


def _iterate_operations(program: HloModule, callee: int) -> Iterator[tuple[TagPath, str]]:
    for one in program.sort_in_program_order(program.computations[callee]):
        if path := program.find_tag_path(one):
            yield path, one.opcode
        for inner in one.called_computations if one.opcode != "call" else ():
            yield from _iterate_operations(program, inner)


def _find_callers(module: HloModule) -> Mapping[int, Sequence[int]]:
    """Maps each computation to the computations whose instructions call it, once for each call."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for home, computation in module.computations.items():
        for one in computation.instructions:
            for callee in one.called_computations:
                found[callee].append(home)
    return found


def _list_inside(optimized: HloModule, callee: int, callers: Mapping[int, Sequence[int]]) -> set[int]:
    """Returns the ids of the computation and of all computations that it calls, directly or not, without those that
    are also called from elsewhere.
    """

    def list_called(home: int) -> list[int]:
        return [inner for one in optimized.computations[home].instructions for inner in one.called_computations]

    if len(callers[callee]) > 1:
        return set()
    inside = set(search([callee], list_called))
    while outer := {home for home in inside if home != callee and not inside.issuperset(callers[home])}:
        inside -= outer
    return inside
