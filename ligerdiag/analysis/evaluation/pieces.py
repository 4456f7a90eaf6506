"""Follows arrays made of pieces with separate dependence sets, as long as the pieces can be distinguished.

A dependence set says on which hidden writes a value depends (see `labels`). XLA joins small operations: it concatenates
the operands of several products with a common operand, or of several all-reduces, and slices the result. Without
pieces, every slice would depend on all of the operands.

- A concatenation has a piece for each operand, or the operand's own pieces.
- A slice inside one piece has that piece's set.
- Elementwise operations, transposes, broadcasts, paddings, reversals, and reductions and products over other dimensions
  keep the pieces; the labels of their other operands are added to each piece. So do bitcasts and reshapes that keep
  each piece whole, and collectives that exchange or gather arrays of all devices.
- Every other operation loses the pieces: the set of its result is the union of all sets.

A product is a `dot` or the custom call that XLA rewrites it to. The dimensions of its result are the batch dimensions,
then the free ones of the left operand, then the free ones of the right operand.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ligerdiag.analysis.evaluation.labels import Labels, unite
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import compute_byte_size, is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto

ALL_REDUCES = frozenset({"all-reduce", "all-reduce-start"})
"""Opcodes of all-reduces: each result has the pieces of its own operand."""
_ELEMENTWISE = having(Trait.ELEMENTWISE) | ALL_REDUCES | {"collective-permute", "collective-broadcast"}


@dataclass(frozen=True, slots=True)
class Pieces:
    """The dependence sets of an array that is made of pieces along one dimension, one set for each piece."""

    shape: tuple[int, ...]
    dimension: int
    limits: tuple[int, ...]
    """End of each piece along the dimension, exclusive; the first piece begins at 0."""
    labels: tuple[Labels, ...]

    @property
    def union(self) -> Labels:
        return unite(self.labels)

    def add(self, labels: Labels) -> "Pieces":
        """Returns the pieces with the labels `labels` added to the set of each."""
        return Pieces(self.shape, self.dimension, self.limits, tuple([one | labels for one in self.labels]))

    def split(self, limits: Sequence[int]) -> tuple[Labels, ...]:
        """Divides the pieces further, and returns the dependence set of each smaller piece. limits: the end of each smaller
        piece; the ends of the present pieces must be among them.
        """
        return tuple([self.labels[bisect_left(self.limits, limit)] for limit in limits])

    def placed(self, shape: tuple[int, ...], dimension: int) -> "Pieces":
        """Returns the same pieces for an array whose shape has changed, as by a transpose or a broadcast. shape: the new
        shape. dimension: the dimension of the new array that consists of these pieces.
        """
        return Pieces(shape, dimension, self.limits, self.labels)


type PiecewiseLabels = Labels | Pieces


@dataclass(frozen=True, slots=True)
class ArrayRegion:
    """The elements of an array between two limits along one dimension."""

    shape: tuple[int, ...]
    """Shape of the array."""
    dimension: int
    start: int
    limit: int
    """End of the region along the dimension, exclusive."""

    def replace(self, value: PiecewiseLabels, dropped: Labels, added: Labels) -> Pieces:
        """Returns the dependence sets of the array's pieces after a kernel has overwritten the region. Inside the
        region, each set loses the labels `dropped` and gains the labels `added`.

        value: the dependence sets before. If they belong to pieces along a different dimension, these pieces are lost.
        """
        if isinstance(value, int) or (value.shape, value.dimension) != (self.shape, self.dimension):
            value = Pieces(self.shape, self.dimension, (self.shape[self.dimension],), (union_of(value),))
        limits = tuple(sorted({*value.limits, self.start, self.limit} - {0}))
        labels = value.split(limits)
        inside = [self.start < limit <= self.limit for limit in limits]
        return Pieces(
            self.shape,
            self.dimension,
            limits,
            tuple([one & ~dropped | added if hit else one for one, hit in zip(labels, inside, strict=True)]),
        )

    def covers(self, reader: HloInstruction) -> bool:
        """Returns whether the instruction is a slice of the array that takes only elements of the region."""
        if reader.opcode != "slice" or tuple(reader.operands[0].shape.dimensions) != self.shape:
            return False
        bounds = reader.proto.slice_dimensions
        if len(bounds) != len(self.shape):
            return False
        return self.start <= bounds[self.dimension].start < bounds[self.dimension].limit <= self.limit

    def is_disjoint_from(self, slice_: HloInstruction) -> bool:
        """Returns whether the instruction is a slice of the array that takes no element of the region."""
        other = find_region(slice_)
        if other is None or (other.shape, other.dimension) != (self.shape, self.dimension):
            return False
        return other.limit <= self.start or self.limit <= other.start


def find_rows(shape: ShapeProto, span: tuple[int, int]) -> ArrayRegion | None:
    """Returns the rows of an array that contain at least one of certain bytes. span: the first byte and the end,
    exclusive. Returns None for all rows, or if it is unknown which rows.

    A row is the part of the array at one index of the most major dimension with a size above 1.
    """
    size = compute_byte_size(shape)
    dimensions = tuple(shape.dimensions)
    if not size or not dimensions:
        return None
    order = list(shape.layout.minor_to_major)[::-1]
    order = order if len(order) == len(dimensions) else list(range(len(dimensions)))
    dimension = next((d for d in order if dimensions[d] > 1), None)
    if dimension is None or not 0 <= span[0] < span[1] <= size:
        return None
    row = size // dimensions[dimension]
    start, limit = span[0] // row, -(-span[1] // row)
    return None if (start, limit) == (0, dimensions[dimension]) else ArrayRegion(dimensions, dimension, start, limit)


def find_region(slice_: HloInstruction) -> ArrayRegion | None:
    """Returns the region that a slice instruction takes of its operand. Returns None if it takes the whole operand, cuts
    several dimensions, or skips elements.
    """
    if slice_.opcode != "slice":
        return None
    shape = tuple(slice_.operands[0].shape.dimensions)
    bounds = slice_.proto.slice_dimensions
    if len(bounds) != len(shape):
        return None
    cut = [d for d, one in enumerate(bounds) if (one.start, one.limit) != (0, shape[d])]
    if len(cut) != 1 or any(one.stride > 1 for one in bounds):
        return None
    start, limit = bounds[cut[0]].start, bounds[cut[0]].limit
    return ArrayRegion(shape, cut[0], start, limit) if 0 <= start < limit <= shape[cut[0]] else None


def union_of(value: PiecewiseLabels) -> Labels:
    return value if isinstance(value, int) else value.union


def follow_pieces(instruction: HloInstruction, operands: Sequence[PiecewiseLabels]) -> PiecewiseLabels | None:
    """Returns the dependence sets of the pieces of an instruction's result, or one set for the whole result. Returns
    None if the result has no pieces, and its set is the union of the operands' sets.

    operands: for each operand its dependence set, or the sets of its pieces.
    """
    shape = tuple(instruction.shape.dimensions)
    if instruction.opcode == "concatenate":
        return _concatenate(instruction, shape, operands)
    number = next((n for n, value in enumerate(operands) if isinstance(value, Pieces)), None)
    if number is None:
        return None
    pieces = operands[number]
    assert isinstance(pieces, Pieces)
    others = unite(union_of(value) for n, value in enumerate(operands) if n != number)
    match instruction.opcode:
        case "slice":
            return _slice(instruction, shape, pieces)
        case "bitcast" | "reshape":
            return _reinterpret(instruction, shape, pieces)
        case "transpose":
            return pieces.placed(shape, list(instruction.proto.dimensions).index(pieces.dimension))
        case "broadcast":
            return pieces.placed(shape, instruction.proto.dimensions[pieces.dimension])
        case "pad" if number == 0:
            return _pad(instruction, shape, pieces, others)
        case "reverse":
            return _reverse(instruction, pieces)
        case "all-gather" if len(operands) == 1:
            return _gather(instruction, shape, pieces)
        case "dot" | "custom-call":
            dimension = find_product_dimension(instruction, number, pieces.dimension)
            shape = get_product_shape(instruction)
        case "reduce" if number == 0 and shape:
            reduced = set(instruction.proto.dimensions)
            kept = [d for d in range(len(pieces.shape)) if d not in reduced]
            dimension = kept.index(pieces.dimension) if pieces.dimension in kept else None
        case opcode if opcode in _ELEMENTWISE and pieces.shape == shape:
            return _combine(instruction, pieces, operands)
        case _:
            return None
    return None if dimension is None else pieces.placed(shape, dimension).add(others)


def _concatenate(
    instruction: HloInstruction, shape: tuple[int, ...], operands: Sequence[PiecewiseLabels]
) -> PiecewiseLabels | None:
    dimension = instruction.proto.dimensions[0]
    limits, labels, end = list[int](), list[Labels](), 0
    for operand, value in zip(instruction.operands, operands, strict=True):
        inner = value if isinstance(value, Pieces) and value.dimension == dimension else None
        size = operand.shape.dimensions[dimension]
        limits += [end + limit for limit in (inner.limits if inner else (size,))]
        labels += inner.labels if inner else (union_of(value),)
        end += size
    return Pieces(shape, dimension, tuple(limits), tuple(labels)) if len(set(labels)) > 1 else None


def _slice(instruction: HloInstruction, shape: tuple[int, ...], pieces: Pieces) -> PiecewiseLabels:
    bounds = instruction.proto.slice_dimensions[pieces.dimension]
    starts = (0, *pieces.limits[:-1])
    inside = [
        (min(limit, bounds.limit) - bounds.start, labels)
        for start, limit, labels in zip(starts, pieces.limits, pieces.labels, strict=True)
        if start < bounds.limit and bounds.start < limit
    ]
    if len(inside) < 2 or bounds.stride > 1:
        return unite(labels for _, labels in inside)
    return Pieces(shape, pieces.dimension, tuple([l for l, _ in inside]), tuple([labels for _, labels in inside]))


def _reinterpret(instruction: HloInstruction, shape: tuple[int, ...], pieces: Pieces) -> PiecewiseLabels | None:
    """Returns the pieces of the same elements in another shape. The pieces are kept if they are whole rows of some
    dimension of the new shape; otherwise None. shape: the new shape.

    A reshape keeps the order of the elements by index, a bitcast their order in memory.
    """
    if 0 in shape:
        return None
    before, after = list(range(len(pieces.shape))), list(range(len(shape)))
    if instruction.opcode == "bitcast":
        before = _list_major_to_minor(instruction.operands[0], pieces.shape)
        after = _list_major_to_minor(instruction, shape)
    place = before.index(pieces.dimension)
    repeats = prod(pieces.shape[d] for d in before[:place])
    row = prod(pieces.shape[d] for d in before[place + 1 :])
    for number, dimension in enumerate(after):
        new_row = prod(shape[d] for d in after[number + 1 :])
        fits = (
            prod(shape[d] for d in after[:number]) == repeats and shape[dimension] * new_row == pieces.limits[-1] * row
        )
        if fits and all(limit * row % new_row == 0 for limit in pieces.limits):
            limits = tuple([limit * row // new_row for limit in pieces.limits])
            return Pieces(shape, dimension, limits, pieces.labels)
    return None


def _list_major_to_minor(instruction: HloInstruction, shape: tuple[int, ...]) -> list[int]:
    """Returns the dimensions of the instruction's array in memory order, the slowest first; for an array without a
    layout, in XLA's default order.
    """
    minor_to_major = list(instruction.shape.layout.minor_to_major)
    return minor_to_major[::-1] if len(minor_to_major) == len(shape) else list(range(len(shape)))


def _pad(instruction: HloInstruction, shape: tuple[int, ...], pieces: Pieces, padding: Labels) -> Pieces | None:
    """Returns the pieces of a padded array, in which the padding belongs to the first and the last piece; None if the
    padding is between elements or negative. padding: the dependence set of the padding value.
    """
    added = instruction.proto.padding_config.dimensions[pieces.dimension]
    if added.interior_padding or added.edge_padding_low < 0 or added.edge_padding_high < 0:
        return None
    limits = [limit + added.edge_padding_low for limit in pieces.limits[:-1]]
    return Pieces(shape, pieces.dimension, (*limits, shape[pieces.dimension]), pieces.labels).add(padding)


def _reverse(instruction: HloInstruction, pieces: Pieces) -> Pieces:
    if pieces.dimension not in instruction.proto.dimensions:
        return pieces
    limits = [pieces.limits[-1] - limit for limit in reversed(pieces.limits[:-1])]
    return Pieces(pieces.shape, pieces.dimension, (*limits, pieces.limits[-1]), pieces.labels[::-1])


def _gather(instruction: HloInstruction, shape: tuple[int, ...], pieces: Pieces) -> Pieces | None:
    """Returns the pieces of an all-gather, which concatenates every device's array along one dimension: the arrays of
    all devices have the same pieces.
    """
    dimension, size = instruction.proto.dimensions[0], pieces.limits[-1]
    if dimension != pieces.dimension:
        return pieces.placed(shape, pieces.dimension)
    copies = shape[dimension] // size
    limits = tuple([copy * size + limit for copy in range(copies) for limit in pieces.limits])
    return Pieces(shape, dimension, limits, pieces.labels * copies)


def _combine(
    instruction: HloInstruction, pieces: Pieces, operands: Sequence[PiecewiseLabels]
) -> PiecewiseLabels | None:
    """Returns the dependence sets of the pieces of an elementwise operation's result. Operands with pieces along the
    same dimension are united piece by piece, and any other operand's set is added to every piece. None if an operand
    that is not a scalar has another shape.
    """
    found = pieces
    for value, operand in zip(operands, instruction.operands, strict=True):
        dimensions = tuple(operand.shape.dimensions)
        if dimensions and dimensions != pieces.shape:
            return None
        if isinstance(value, Pieces) and value.dimension == pieces.dimension:
            limits = tuple(sorted({*found.limits, *value.limits}))
            labels = tuple([a | b for a, b in zip(found.split(limits), value.split(limits), strict=True)])
            found = Pieces(pieces.shape, pieces.dimension, limits, labels)
        else:
            found = found.add(union_of(value))
    return found


def find_product_dimension(product: HloInstruction, side: int, dimension: int) -> int | None:
    """Returns the dimension of a product's result that corresponds to a dimension of an operand. side: 0 for the left
    operand, 1 for the right one. Returns None if the dimension is contracted, or if the kind of product is unknown.
    """
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
    """Returns the dimensions of a product's result. If the instruction has several results, the product is the first."""
    shape = product.shape
    return tuple((shape.tuple_shapes[0] if is_tuple(shape) and shape.tuple_shapes else shape).dimensions)


type _Sides = tuple[list[int], list[int]]


def _read_numbers(product: HloInstruction) -> tuple[_Sides, _Sides] | None:
    """Returns a product's batch dimensions and its contracted dimensions, each as a pair of lists (left operand, right
    operand); None if the instruction is not a known kind of product.
    """
    if product.opcode == "dot":
        numbers = product.proto.dot_dimension_numbers
        return (
            (list(numbers.lhs_batch_dimensions), list(numbers.rhs_batch_dimensions)),
            (list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)),
        )
    if not is_call_with(product, CallTrait.MATRIX_PRODUCT):
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
