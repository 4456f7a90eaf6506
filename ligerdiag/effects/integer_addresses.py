"""Integers of a function that an address went into: added to another address they may lead anywhere.

`y + (x - y)`, with both addresses as integers, is `x`. Followed forward, as a least fixpoint, through everything but memory:
results of an operation with such an operand, and arguments of its blocks. Branches and the ends of regions hand on to every
block and result of what holds them.
"""

from collections.abc import Collection, Iterator

from ligerdiag.effects.operation_effects import TERMINATORS
from ligerdiag.effects.ttir_module import Function, Operation


def find_address_integers(function: Function, returning: Collection[str]) -> frozenset[int]:
    """Returns the values, no pointers themselves. returning: names of functions that return one."""
    found: set[int] = set()
    pointers = function.pointers
    if not any(op.name == "tt.ptr_to_int" or op.callee in returning for op in function.operations):
        return frozenset()
    while True:
        before = len(found)
        for op in function.operations:
            starts = op.name == "tt.ptr_to_int" or (op.name == "tt.call" and op.callee in returning)
            if starts or not found.isdisjoint(op.operands):
                found.update(value for value in _list_targets(op, function) if value not in pointers)
        if len(found) == before:
            return frozenset(found)


def _list_targets(op: Operation, function: Function) -> Iterator[int]:
    yield from op.results
    yield from (argument for region in op.regions for block in region for argument in block.arguments)
    if op.name in TERMINATORS:
        parent = function.operations[op.parent] if op.parent >= 0 else None
        if parent is not None:
            yield from parent.results
        for region in parent.regions if parent is not None else (function.blocks[1:],):
            for block in region:
                yield from block.arguments
