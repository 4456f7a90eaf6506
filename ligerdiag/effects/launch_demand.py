"""Finds the values of a function that decide where a kernel reaches the buffers it writes, and under which condition.

Most of a kernel's arithmetic is about data, or about addresses of buffers that it only reads; following it costs time
and adds nothing. These values are wanted: those that control depends on, the operands of memory operations that may
reach a written buffer, the arguments of functions that reach memory, and all values that these are computed from.
"""

from collections.abc import Callable, Iterable

from ligerdiag.effects.operation_effects import FIRST_OPERAND_ACCESS
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule

MIXERS = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})


class Demand:
    """The wanted values of the functions of one module."""

    def __init__(self, module: TtirModule, reaches: Callable[[Function, Operation], bool] | None) -> None:
        """reaches: whether a memory operation of a function matters; all do, and all values, where None."""
        self._module, self._reaches = module, reaches
        self._silent: dict[str, bool] = {}
        self._wanted: dict[str, frozenset[int]] = {}
        self.entry = ""
        """The function that is launched."""

    def wants(self, function: Function, op: Operation) -> bool:
        """Returns whether a result of the operation is wanted."""
        reaches = self._reaches
        if reaches is None:
            return True
        if function.name not in self._wanted:
            self._wanted[function.name] = compute_demand(
                function,
                reaches=lambda op: reaches(function, op),
                is_silent=self.is_silent,
                is_entry=function.name == self.entry,
            )
        wanted = self._wanted[function.name]
        return any(result in wanted for result in op.results)

    def is_silent(self, name: str) -> bool:
        """Returns whether the function is known and reaches no memory; false for a recursion."""
        callee = self._module.functions.get(name)
        if callee is None or not callee.blocks:
            return False
        if name not in self._silent:
            self._silent[name] = False
            self._silent[name] = self.is_silent_inside(callee, -1)
        return self._silent[name]

    def is_silent_inside(self, function: Function, owner: int) -> bool:
        """Returns whether neither the operation's regions, or all of the function for -1, nor the functions they call
        reach memory."""
        inside = {owner}
        for op in reversed(function.operations):
            if op.parent not in inside:
                continue
            inside.add(op.index)
            if op.name in FIRST_OPERAND_ACCESS:
                return False
            if op.name == "tt.call" and not self.is_silent(op.callee):
                return False
        return True


def compute_demand(
    function: Function, *, reaches: Callable[[Operation], bool], is_silent: Callable[[str], bool], is_entry: bool
) -> frozenset[int]:
    """Returns the wanted values. reaches: whether a memory operation matters; is_silent: of a function, by its name."""
    sources = _collect_sources(function)
    wanted: set[int] = set()
    pending = [value for op in function.operations for value in _get_seeds(op, reaches, is_silent, is_entry)]
    while pending:
        value = pending.pop()
        if value not in wanted:
            wanted.add(value)
            pending.extend(sources.get(value, ()))
    return frozenset(wanted)


def _get_seeds(
    op: Operation, reaches: Callable[[Operation], bool], is_silent: Callable[[str], bool], is_entry: bool
) -> Iterable[int]:
    match op.name:
        case "scf.if" | "scf.condition" | "cf.cond_br":
            return op.operands[:1]
        case "scf.for":
            return op.operands[:3]
        case "tt.call":
            return () if is_silent(op.callee) else op.operands
        case "tt.return":
            return () if is_entry else op.operands
        case name if name in FIRST_OPERAND_ACCESS:
            return op.operands if reaches(op) else ()
        case _:
            return ()


def _collect_sources(function: Function) -> dict[int, list[int]]:
    """Value to the values that it may be computed from or stand for."""
    sources: dict[int, list[int]] = {}

    def link(targets: Iterable[int], values: Iterable[int]) -> None:
        for target, value in zip(targets, values, strict=False):
            sources.setdefault(target, []).append(value)

    later = [argument for block in function.blocks[1:] for argument in block.arguments]
    for op in function.operations:
        parent = function.operations[op.parent] if op.parent >= 0 else None
        match op.name:
            case "scf.for":
                first = op.regions[0][0].arguments if op.regions and op.regions[0] else ()
                link(first[1:], op.operands[3:])
                link(op.results, op.operands[3:])
            case "scf.while":
                link(op.regions[0][0].arguments if op.regions and op.regions[0] else (), op.operands)
            case "scf.yield" if parent is not None:
                first = parent.regions[0][0].arguments if parent.regions and parent.regions[0] else ()
                if parent.name != "scf.while":
                    link(parent.results, op.operands)
                link(first[1:] if parent.name == "scf.for" else first, op.operands)
            case "scf.condition" if parent is not None:
                link(parent.results, op.operands[1:])
                second = parent.regions[1] if len(parent.regions) > 1 else ()
                link(second[0].arguments if second else (), op.operands[1:])
            case "cf.br" | "cf.cond_br" | "cf.switch":
                for argument in later:
                    sources.setdefault(argument, []).extend(op.operands)
            case name if name == "scf.if" or name in FIRST_OPERAND_ACCESS or name in MIXERS:
                pass  # of what comes from memory, or out of a reduction, nothing is known anyway
            case _:
                for result in op.results:
                    sources.setdefault(result, []).extend(op.operands)
    return sources
