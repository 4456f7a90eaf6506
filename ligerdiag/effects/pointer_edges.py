"""Finds which pointer of a function may become which other: the edges along which `pointer_flow` carries roots.

1. Pure operations: every pointer operand to every pointer result.
2. `scf.for`, `scf.while`, `scf.if`: initial values, yields and conditions to block arguments and results, by position.
3. `cf.br` and `cf.cond_br`: by position, to every block that could be the target: successors are not accessible, but
   the operands of a branch must match the arguments of its block one by one. Other branches: everything to everything.
4. Reductions, scans and element-wise maps: every operand and returned value to every block argument and result.

Calls are not here: they need the callee's summary.
"""

from collections.abc import Iterable, Iterator, Sequence

from ligerdiag.effects.operation_effects import is_free
from ligerdiag.effects.ttir_module import Block, Function, Operation

type Edge = tuple[int, int]
"""From a value to a value."""

_MIXERS = ("tt.reduce", "tt.scan", "tt.map_elementwise")
_MIXER_RETURNS = ("tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")


def compute_edges(function: Function) -> Iterator[Edge]:
    """Yields all edges between pointers of the function."""
    pointers = function.pointers
    for op in function.operations:
        for source, target in _compute_operation_edges(op, function):
            if source in pointers and target in pointers:
                yield source, target


def _compute_operation_edges(op: Operation, function: Function) -> Iterable[Edge]:
    parent = function.operations[op.parent] if op.parent >= 0 else None
    match op.name:
        case "scf.for":
            # Operands: lower bound, upper bound, step, initial values. Block arguments: induction variable, iterated.
            yield from _pair(op.operands[3:], _get_arguments(op, 0)[1:])
            yield from _pair(op.operands[3:], op.results)
        case "scf.while":
            yield from _pair(op.operands, _get_arguments(op, 0))
        case "scf.yield" if parent is not None:
            if parent.name != "scf.while":
                yield from _pair(op.operands, parent.results)
            if parent.name == "scf.for":
                yield from _pair(op.operands, _get_arguments(parent, 0)[1:])
            elif parent.name == "scf.while":
                yield from _pair(op.operands, _get_arguments(parent, 0))
        case "scf.condition" if parent is not None:
            yield from _pair(op.operands[1:], _get_arguments(parent, 1))
            yield from _pair(op.operands[1:], parent.results)
        case "cf.br" | "cf.cond_br" | "cf.switch":
            blocks = parent.regions[op.region] if parent is not None else function.blocks
            yield from _compute_branch_edges(op, blocks[1:], function.pointers)
        case name if name in _MIXERS:
            yield from _mix(op.operands, _get_all_targets(op), function.pointers)
        case name if name in _MIXER_RETURNS and parent is not None:
            yield from _mix(op.operands, _get_all_targets(parent), function.pointers)
        case name if is_free(name):
            yield from _mix(op.operands, op.results, function.pointers)
        case _:
            pass


def _compute_branch_edges(op: Operation, blocks: Sequence[Block], pointers: frozenset[int]) -> Iterator[Edge]:
    match op.name:
        case "cf.br":
            for block in blocks:
                if _fits(op.operands, block, pointers):
                    yield from _pair(op.operands, block.arguments)
        case "cf.cond_br":
            # Operands: the condition, those for the true block, those for the false block.
            passed = op.operands[1:]
            size = len(passed)
            if_true = [block for block in blocks if _fits(passed[: len(block.arguments)], block, pointers)]
            if_false = [block for block in blocks if _fits(_take_last(passed, block), block, pointers)]
            true_sizes = {len(block.arguments) for block in if_true}
            false_sizes = {len(block.arguments) for block in if_false}
            for block in if_true:
                if size - len(block.arguments) in false_sizes:
                    yield from _pair(passed, block.arguments)
            for block in if_false:
                if size - len(block.arguments) in true_sizes:
                    yield from _pair(_take_last(passed, block), block.arguments)
        case _:
            for block in blocks:
                yield from _mix(op.operands, block.arguments, pointers)


def _take_last(passed: tuple[int, ...], block: Block) -> tuple[int, ...]:
    return passed[max(0, len(passed) - len(block.arguments)) :]


def _fits(passed: tuple[int, ...], block: Block, pointers: frozenset[int]) -> bool:
    """Returns whether the operands could be the block's arguments: as many, and pointers where it has pointers."""
    if len(passed) != len(block.arguments):
        return False
    return all((source in pointers) == (target in pointers) for source, target in _pair(passed, block.arguments))


def _get_arguments(op: Operation, region: int) -> tuple[int, ...]:
    if region >= len(op.regions) or not op.regions[region]:
        return ()
    return op.regions[region][0].arguments


def _get_all_targets(op: Operation) -> tuple[int, ...]:
    arguments = (argument for region in op.regions for block in region for argument in block.arguments)
    return (*op.results, *arguments)


def _pair(sources: Iterable[int], targets: Iterable[int]) -> Iterable[Edge]:
    return zip(sources, targets, strict=False)


def _mix(sources: Iterable[int], targets: Iterable[int], pointers: frozenset[int]) -> Iterator[Edge]:
    kept = [target for target in targets if target in pointers]
    return ((source, target) for source in sources if source in pointers for target in kept)
