"""Which dimension of a matrix product is which one of its operands: a `dot`, and the custom calls that XLA makes of it.

The result's dimensions are the batch ones, then the free ones of the left operand, then those of the right one.
"""

import json

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple

_TARGETS = frozenset({"__cublas$gemm", "__cublas$lt$matmul"})
"""Their first result is the product; a matrix that is added, and what is done with each element, changes no dimension."""


def find_product_dimension(product: HloInstruction, side: int, dimension: int) -> int | None:
    """Maps a dimension of operand 0 or 1 to one of the result; None if it is contracted, or the product none that is
    known."""
    numbers = _read_numbers(product)
    if side > 1 or numbers is None:
        return None
    batch, contracted = numbers
    if dimension in contracted[side]:
        return None
    if dimension in batch[side]:
        return batch[side].index(dimension)
    free = [
        [d for d in range(len(operand.shape.dimensions)) if d not in batch[n] and d not in contracted[n]]
        for n, operand in enumerate(product.operands[:2])
    ]
    return len(batch[0]) + (len(free[0]) if side else 0) + free[side].index(dimension)


def get_product_shape(product: HloInstruction) -> tuple[int, ...]:
    """Returns the dimensions of the product, which may be the first of several results."""
    shape = product.shape
    return tuple((shape.tuple_shapes[0] if is_tuple(shape) and shape.tuple_shapes else shape).dimensions)


type _Sides = tuple[list[int], list[int]]


def _read_numbers(product: HloInstruction) -> tuple[_Sides, _Sides] | None:
    """Returns the batch and the contracted dimensions, each of the left and of the right operand."""
    if product.opcode == "dot":
        numbers = product.proto.dot_dimension_numbers
        return (
            (list(numbers.lhs_batch_dimensions), list(numbers.rhs_batch_dimensions)),
            (list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)),
        )
    if product.proto.custom_call_target not in _TARGETS:
        return None
    try:
        found = json.loads(product.proto.backend_config)["gemm_backend_config"]["dot_dimension_numbers"]
        batch, contracted = (
            ([int(d) for d in found.get(f"lhs_{kind}", ())], [int(d) for d in found.get(f"rhs_{kind}", ())])
            for kind in ("batch_dimensions", "contracting_dimensions")
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return batch, contracted
