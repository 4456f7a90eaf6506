"""Gives the instructions of branches that XLA has deduplicated the tags of their own operations.

XLA makes two branches of a conditional one computation if they compute the same from their arguments
(xla/hlo/transforms/simplifiers/hlo_computation_deduplicator.cc), and both then have the tags of the first. Their
arguments differ, and a kernel in them overwrites different values: `kernel(a, b)` in one and `kernel(b, a)` in the
other.

An instruction in branch k of the schedule with the tag of an operation in another branch of the program is the
operation of branch k at the same place in its order, if the two branches have the same operations in the same order. A
conditional on a predicate has the branch of `true` first; one of two branches on a number has that of `false` first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ligerdiag.hlo.dataflow import search
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.shape import is_predicate

type _Operations = tuple[tuple[TagPath, str], ...]
"""Tag path and opcode of each operation of a branch, in program order."""


def part_branches(program: HloModule, optimized: HloModule) -> HloModule:
    """Returns the optimized module with the tags of the program's own branches."""
    branches: dict[int, tuple[HloInstruction, list[_Operations]]] = {}
    for one in program.instructions:
        path = program.find_tag_path(one) if one.opcode == "conditional" else ()
        if path:
            branches[path[-1]] = one, [_list_operations(program, callee) for callee in one.called_computations]
    tags = dict(optimized.tags)
    for one in optimized.instructions if branches else ():
        path = tags.get(one.id, ())
        if one.opcode != "conditional" or not path or path[-1] not in branches:
            continue
        conditional, operations = branches[path[-1]]
        if len(one.called_computations) == len(operations):
            order = _find_order(conditional, one)
            inside = [set(_list_inside(optimized, callee)) for callee in one.called_computations]
            for number, computations in zip(order, inside, strict=True):
                others = [some for some in inside if some is not computations]
                renamed = _find_renamed(operations, number)
                for home in computations.difference(*others) if renamed else ():
                    for instruction in optimized.computations[home].instructions:
                        if own := tags.get(instruction.id):
                            tags[instruction.id] = tuple([renamed.get(tag, tag) for tag in own])
    return replace(optimized, tags=tags) if tags != optimized.tags else optimized


def _find_order(program: HloInstruction, optimized: HloInstruction) -> Sequence[int]:
    """Returns the numbers of the program's branches in the order of the schedule's."""
    numbers = range(len(program.called_computations))
    is_turned = is_predicate(program.operands[0].shape) != is_predicate(optimized.operands[0].shape)
    return numbers[::-1] if is_turned and len(numbers) == 2 else numbers


def _find_renamed(operations: Sequence[_Operations], number: int) -> Mapping[int, int]:
    """Returns the tags of other branches to those of this branch at the same place."""
    own = {path[-1] for path, _ in operations[number]}
    renamed: dict[int, int] = {}
    for other in operations:
        if [opcode for _, opcode in other] != [opcode for _, opcode in operations[number]]:
            continue
        for (path, _), (mine, _) in zip(other, operations[number], strict=True):
            if path[-1] not in own:
                renamed[path[-1]] = mine[-1]
    return renamed


def _list_operations(program: HloModule, callee: int) -> _Operations:
    """Lists the operations of a branch, and of computations that it runs other than by a call."""
    return tuple(_iterate_operations(program, callee))


def _iterate_operations(program: HloModule, callee: int) -> Iterator[tuple[TagPath, str]]:
    for one in program.sort_in_program_order(program.computations[callee]):
        if path := program.find_tag_path(one):
            yield path, one.opcode
        for inner in one.called_computations if one.opcode != "call" else ():
            yield from _iterate_operations(program, inner)


def _list_inside(optimized: HloModule, callee: int) -> Iterator[int]:
    """Lists the computation and all that it calls."""

    def list_called(home: int) -> list[int]:
        return [inner for one in optimized.computations[home].instructions for inner in one.called_computations]

    return iter(search([callee], list_called))
