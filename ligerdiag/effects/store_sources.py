"""Finds from which buffers a kernel computes what it stores. For example, a sum that a kernel returns need not depend on an
array that the same kernel updates.

The *sources* of a value are the arguments whose buffers' contents it depends on. Argument `i` has bit `i + 1`, as in
`pointer_flow`. Sources flow forward, as a least fixpoint over the values of a kernel and the contents of its buffers:

- The result of a load depends on the contents of every buffer that the address may point into, and on what address, mask
  and default depend on.
- A store passes on what its operands depend on, and the conditions of the `scf.if` and the bounds of the `scf.for` around
  it, to the contents of every buffer that its address may point into. What a buffer held before still counts.
- Any other operation passes on what its operands depend on. The results of `scf.for` and `scf.if` depend on what their
  regions yield, and on bounds and condition.

Programs of the grid share the contents, in any order. Two buffers are taken for different bytes; the caller checks this.
The sources are unknown if a kernel has other control flow, an atomic operation, a call of a function that accesses memory,
assembly, shared memory, an address of unknown origin, or any operation that is not listed here.
"""

from collections.abc import Sequence

from ligerdiag.effects.access import Access
from ligerdiag.effects.pointer_edges import FIRST_OPERAND_ACCESS, FREE_DIALECTS, REGION_OPERATIONS, TERMINATORS
from ligerdiag.effects.pointer_flow import ELSEWHERE_BIT, compute_roots, compute_summaries
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule
from ligerdiag.hlo.dataflow import unite

_PLAIN = frozenset(
    {
        "tt.addptr", "tt.advance", "tt.bitcast", "tt.broadcast", "tt.cat", "tt.clampf", "tt.dot", "tt.dot_scaled",
        "tt.expand_dims", "tt.fp_to_fp", "tt.gather", "tt.get_num_programs", "tt.get_program_id", "tt.histogram", "tt.join",
        "tt.make_range", "tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.mulhiui", "tt.precise_divf",
        "tt.precise_sqrt", "tt.reshape", "tt.splat", "tt.split", "tt.trans", "tt.unsplat", "gpu.barrier", "ttg.barrier",
        "tt.assert", "tt.call", "tt.print", "tt.return",
    }
)  # fmt: skip
"""Operations whose results depend on their operands alone; a call, if the function accesses no memory."""
_COMBINES = {"tt.reduce": "tt.reduce.return", "tt.scan": "tt.scan.return"}
_ENDS = frozenset(_COMBINES.values())
_BRANCHES = frozenset({"scf.for", "scf.if"})
_BOUNDS = {"scf.for": 3, "scf.if": 1}
"""How many operands of an operation decide how often its regions run."""


def compute_store_sources(module: TtirModule, entry: str) -> tuple[int, ...] | None:
    """Returns, for each argument of the kernel `entry`, the sources of what its buffer holds after a launch (bits, as in the
    module's docstring); None if they are unknown.
    """
    function = module.functions[entry]
    calls = {op.callee for op in function.operations if op.name == "tt.call"}
    if len(function.blocks) != 1 or not all(_is_followed(op) for op in function.operations):
        return None
    if not all(_accesses_nothing(module, name, (entry,)) for name in calls):
        return None
    roots = compute_roots(function, compute_summaries(module, entry))
    contents = [1 << (number + 1) for number, _ in enumerate(function.arguments)]
    values: dict[int, int] = {}
    before: tuple[object, ...] = ()
    while before != (sum(map(int.bit_count, values.values())), *contents):
        before = (sum(map(int.bit_count, values.values())), *contents)
        for op in function.operations:
            if not _follow(op, function, roots, values, contents):
                return None
    return tuple(contents)


def _is_followed(op: Operation) -> bool:
    if op.name in FIRST_OPERAND_ACCESS:
        return (
            op.name.startswith("tt.") and FIRST_OPERAND_ACCESS[op.name] is not Access.READ_WRITE and bool(op.operands)
        )
    if op.name == "scf.yield" or op.name in _ENDS:
        return op.parent >= 0
    return op.name in _BRANCHES or op.name in _COMBINES or _is_plain(op)


def _is_plain(op: Operation) -> bool:
    return op.name in _PLAIN or op.name.startswith(FREE_DIALECTS)


def _accesses_nothing(module: TtirModule, name: str, callers: tuple[str, ...]) -> bool:
    """Returns whether the results of a function depend on its arguments alone, whatever its control flow: neither it nor the
    functions that it calls access memory. callers: names of the functions that lead to it.
    """
    function = module.functions.get(name)
    if function is None or not function.blocks or name in callers:
        return False
    known = REGION_OPERATIONS | TERMINATORS
    return all(
        _accesses_nothing(module, op.callee, (*callers, name))
        if op.name == "tt.call"
        else op.name in known or _is_plain(op)
        for op in function.operations
    )


def _follow(
    op: Operation, function: Function, roots: dict[int, int], values: dict[int, int], contents: list[int]
) -> bool:
    """Passes on the sources through one operation. Returns False if its address is of unknown origin."""
    inputs = unite(values.get(operand, 0) for operand in op.operands)
    access = FIRST_OPERAND_ACCESS.get(op.name, Access.NONE)
    if access is not Access.NONE:
        places = roots.get(op.operands[0], ELSEWHERE_BIT)
        if places & ELSEWHERE_BIT:
            return False
        found = [number for number, _ in enumerate(contents) if places & (1 << (number + 1))]
        if access.reads:
            inputs |= unite(contents[number] for number in found)
        else:
            inputs |= _find_conditions(op, function, values)
            for number in found:
                contents[number] |= inputs
    parent = function.operations[op.parent] if op.parent >= 0 else None
    if op.name == "scf.yield" and parent is not None:
        carried = parent.regions[0][0].arguments[1:] if parent.name == "scf.for" else ()
        for operand, *targets in zip(op.operands, parent.results, carried or parent.results, strict=False):
            _add(values, targets, values.get(operand, 0))
    elif op.name in _ENDS and parent is not None:
        _add(values, parent.results, inputs)
    elif op.name in _BRANCHES:
        bounds = _BOUNDS[op.name]
        decided = unite(values.get(operand, 0) for operand in op.operands[:bounds])
        _add(values, op.results, decided)
        arguments = op.regions[0][0].arguments if op.name == "scf.for" else ()
        _add(values, arguments[:1], decided)
        for operand, *targets in zip(op.operands[bounds:], arguments[1:], op.results, strict=False):
            _add(values, targets, values.get(operand, 0))
    else:
        inner = [argument for region in op.regions for block in region for argument in block.arguments]
        _add(values, [*op.results, *inner], inputs)
    return True


def _find_conditions(op: Operation, function: Function, values: dict[int, int]) -> int:
    """Returns the sources that decide whether an operation runs."""
    found = 0
    while op.parent >= 0:
        op = function.operations[op.parent]
        found |= unite(values.get(operand, 0) for operand in op.operands[: _BOUNDS.get(op.name, len(op.operands))])
    return found


def _add(values: dict[int, int], targets: Sequence[int], sources: int) -> None:
    for target in targets:
        values[target] = values.get(target, 0) | sources
