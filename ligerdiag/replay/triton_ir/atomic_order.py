"""Which atomic operations of a module give another outcome when their programs come in another order.

1. One whose result is used: it says who came first.
2. An exchange and a compare-and-swap: the last one stays, or the first.
3. All of them, where a module updates by several operations, such as a sum and a maximum: they do not commute.
Others commute: only the rounding of their sums shows the order.
"""

from dataclasses import dataclass

from ligerdiag.effects.libtriton import parse_word
from ligerdiag.effects.ttir_module import Operation, TtirModule


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicOrder:
    """Ids of operations of one module."""

    ordered: frozenset[int]
    """Those of 1 to 3."""
    drawing: frozenset[int]
    """Those of 1."""
    updates: frozenset[int]
    """All but exchanges whose result nobody uses: they read what they update."""


def find_atomic_order(module: TtirModule) -> AtomicOrder:
    """Returns the atomic operations of all functions of the module."""
    atomics: list[tuple[Operation, str, bool]] = []
    for function in module.functions.values():
        used = {operand for op in function.operations for operand in op.operands}
        for op in function.operations:
            if op.name in ("tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce"):
                kind = "cas" if op.name == "tt.atomic_cas" else parse_word(op.text, op.name).removeprefix("f")
                atomics.append((op, kind, not used.isdisjoint(op.results)))
    mixed = len({kind for _, kind, _ in atomics}) > 1
    return AtomicOrder(
        ordered=frozenset(id(op) for op, kind, is_used in atomics if mixed or is_used or kind in ("exch", "cas")),
        drawing=frozenset(id(op) for op, _, is_used in atomics if is_used),
        updates=frozenset(id(op) for op, kind, is_used in atomics if is_used or kind != "exch"),
    )
