"""Asks XLA to record the lineage of values: which operation of the program produces the value of an instruction.

XLA carries an *original value* with each array (see `hlo.module.parse_original_value`). JAX does not ask for it, but
the attribute `mhlo.original_value` of a StableHLO operation does. The name in it is the operation's tag, as in `ld17`.

XLA of jaxlib 0.11 refuses some modules with it, because a tuple then has lineage in another structure than its shape.
So these operations get none:

- operations with several results, and loops and conditionals;
- operations whose result is used in a region of another operation: the translation to HLO makes it an element of the
  loop's state, or an operand of the conditional;
- constants, whose lineage says nothing;
- operations on one of several results, or on an element of a loop's state, inside the loop. Where the translation folds such
  an operation (a conversion to the same type), its lineage becomes the lineage of the whole tuple. Only operations that are
  never folded keep theirs;
- operations inside reducers, comparators and the like: their values are elements, and no values of the program.

The operations in functions get it, but XLA drops it when it inlines the call.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.compile.cases.stablehlo_program import walk_operations
from ligerdiag.compile.lowering.tags import read_tag
from ligerdiag.hlo.xla_pb2 import HloProto

ATTRIBUTE = "mhlo.original_value"
_ENTERED = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
_HOLDERS = _ENTERED | {"func.func", "builtin.module"}
"""Operations in whose regions the values are values of the program."""
_WITHOUT_LINEAGE = _ENTERED | {"stablehlo.constant"}
_NEVER_FOLDED = frozenset({
    "stablehlo.dot_general", "stablehlo.custom_call", "stablehlo.tanh", "stablehlo.exponential", "stablehlo.compare",
    "stablehlo.sine", "stablehlo.cosine", "stablehlo.logistic", "stablehlo.sort", "stablehlo.gather", "stablehlo.scatter",
})  # fmt: skip


def put_lineage(module: ir.Module) -> int:
    """Gives operations of a tagged module the attribute that makes XLA record their lineage, in place. Returns the
    number of these operations. Returns 0 if this jaxlib does not know the attribute in the form that this file writes.
    """
    try:
        dialect: Any = import_module("jaxlib.mlir.dialects.mhlo")
        dialect.register_mhlo_dialect(module.context)
        found = [(one, _make_attribute(read_tag(one), module.context)) for one in _list_operations(module)]
    except Exception:  # how an older jaxlib refuses depends on its version
        return 0
    for one, attribute in found:
        one.attributes[ATTRIBUTE] = attribute
    return len(found)


def drop_lineage(module: ir.Module) -> None:
    """Removes the attributes that `put_lineage` has added."""
    for one in walk_operations(module.operation):
        if ATTRIBUTE in one.attributes:
            del one.attributes[ATTRIBUTE]


def has_lineage(proto: bytes) -> bool:
    """Returns whether a module records the lineage of its values. An XLA that does not know the attribute for lineage
    drops it.

    proto: a serialized HloProto.
    """
    module = HloProto.FromString(proto).hlo_module
    return any(one.original_value for computation in module.computations for one in computation.instructions)


def _make_attribute(tag: int, context: Any) -> Any:
    return ir.Attribute.parse(f'#mhlo.original_value<false, [<[], <"ld{tag}", []>>]>', context)


def _list_operations(module: ir.Module) -> Iterator[Any]:
    return (one for one in _walk_values(module.operation) if read_tag(one) and _can_have_lineage(one))


def _walk_values(operation: Any) -> Iterator[Any]:
    """Yields the operations in the regions of `operation` whose results are values of the program."""
    for region in operation.regions if operation.name in _HOLDERS else ():
        for block in region:
            for view in block:
                yield view.operation
                yield from _walk_values(view.operation)


def _can_have_lineage(operation: Any) -> bool:
    if len(operation.results) != 1 or operation.name in _WITHOUT_LINEAGE:
        return False
    if operation.name not in _NEVER_FOLDED and any(_is_element(operand) for operand in operation.operands):
        return False
    block: Any = operation.block
    return all(use.owner.operation.block == block for use in operation.results[0].uses)


def _is_element(value: Any) -> bool:
    """Returns whether the value is an element of a tuple in HLO: one of several results, or of a loop's state."""
    if isinstance(value.owner, ir.Block):
        return value.owner.owner.name in _ENTERED
    return len(value.owner.results) > 1 or value.owner.name in _ENTERED
