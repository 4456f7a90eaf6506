"""Worker side: HLO of the program exactly as it was traced, for the intended semantics.

XLA's dump "before optimizations" is not that: on the way from StableHLO, MLIR's canonicalization has folded a reshape
of a reshape into the value itself, `x + 0` into `x`, and so on. Values that the author made anew then share storage
with the old ones, and a kernel's write would be seen where it is not meant to be. So the program is translated once
more, with an optimization barrier after each operation that could be folded into its operand. Barriers carry no tag. A
custom call without users is marked as having side effects, so that it is not dropped.
"""

from typing import Any

from jaxlib.mlir import ir

from ligerdiag.compile.jax_generations import translate_to_hlo

_KEPT = frozenset({
    "stablehlo.constant", "stablehlo.iota", "stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution",
    "stablehlo.reduce", "stablehlo.custom_call", "stablehlo.while", "stablehlo.if", "stablehlo.case", "stablehlo.return",
    "stablehlo.optimization_barrier", "stablehlo.sort", "stablehlo.gather", "stablehlo.scatter", "stablehlo.tuple",
    "stablehlo.get_tuple_element", "stablehlo.composite", "stablehlo.create_token", "stablehlo.after_all",
    "stablehlo.partition_id", "stablehlo.replica_id",
})  # fmt: skip
"""Operations that no folding turns into one of their operands, or that are no operation on an array."""
_ENTERED = frozenset({
    "builtin.module", "func.func", "sdy.manual_computation", "stablehlo.case", "stablehlo.if", "stablehlo.while",
})  # fmt: skip
"""Operations whose regions are part of the program's flow."""


def convert_as_written(module: Any) -> bytes:
    """Serialized HloProto-compatible HloModuleProto of a tagged StableHLO module, without any folding.

    Raises what jaxlib's translation raises.
    """
    with module.context:
        clone = ir.Module.parse(module.operation.get_asm(enable_debug_info=True, binary=False))
        _protect(clone.operation)
        text = str(clone.operation.get_asm(enable_debug_info=True))
    return translate_to_hlo(text)


def _protect(operation: Any) -> None:
    if operation.name not in _ENTERED:
        return
    for region in operation.regions:
        for block in region:
            inner = [op.operation for op in block]
            for position, op in enumerate(inner):
                _protect(op)
                if op.name == "stablehlo.custom_call" and not any(True for one in op.results for _ in one.uses):
                    op.attributes["has_side_effect"] = ir.BoolAttr.get(True)
                if op.name.startswith("stablehlo.") and op.name not in _KEPT and len(op.results) == 1:
                    _put_barrier(op, inner[position + 1])


def _put_barrier(operation: Any, following: Any) -> None:
    value = operation.results[0]
    operations: Any = ir.Operation
    barrier = operations.create(
        "stablehlo.optimization_barrier",
        results=[value.type],
        operands=[value],
        loc=ir.Location.unknown(operation.context),
        ip=ir.InsertionPoint(following),
    )
    value.replace_all_uses_with(barrier.results[0])
    barrier.operands[0] = value
