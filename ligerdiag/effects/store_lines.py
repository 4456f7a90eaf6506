"""The lines of a kernel that write through each of its arguments: stores and atomics, also in functions that it
calls."""

from ligerdiag.effects.access import Access
from ligerdiag.effects.operation_effects import FIRST_OPERAND_ACCESS
from ligerdiag.effects.pointer_flow import ELSEWHERE_BIT, compute_roots, compute_summaries
from ligerdiag.effects.ttir_module import TtirModule
from ligerdiag.findings import SourceLine

_MOST_CALLS = 1_000
"""Pairs of a function and what it is called with; beyond it lines are missing, never wrong."""


def find_store_lines(module: TtirModule, entry: str) -> tuple[tuple[SourceLine, ...], ...]:
    """Per argument of `entry` the lines that write through it, in the order of the kernel; () where they are not known."""
    summaries = compute_summaries(module, entry)
    arguments = module.functions[entry].arguments
    found: list[dict[SourceLine, None]] = [{} for _ in arguments]
    own = tuple(1 << (index + 1) for index, _ in enumerate(arguments))
    pending, seen = [(entry, own)], {(entry, own)}
    while pending:
        name, passed = pending.pop()
        function = module.functions[name]
        roots = compute_roots(function, summaries)
        for op in function.operations:
            if FIRST_OPERAND_ACCESS.get(op.name, Access.NONE).writes and op.operands and op.place is not None:
                mask = _translate(roots.get(op.operands[0], 0), passed)
                for index, lines in enumerate(found):
                    if mask & (1 << (index + 1)):
                        lines[op.place] = None
            elif op.name == "tt.call" and op.callee in summaries:
                actual = tuple(_translate(roots.get(operand, 0), passed) for operand in op.operands)
                if (op.callee, actual) not in seen and len(seen) < _MOST_CALLS:
                    seen.add((op.callee, actual))
                    pending.append((op.callee, actual))
    return tuple(tuple(sorted(lines, key=lambda place: (place.file, place.line))) for lines in found)


def _translate(mask: int, passed: tuple[int, ...]) -> int:
    """Roots in terms of a function's own arguments, in terms of those of the kernel."""
    result = 0
    for index, roots in enumerate(passed):
        if mask & (1 << (index + 1)):
            result |= roots
    return result & ~ELSEWHERE_BIT
