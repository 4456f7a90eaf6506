"""Numbers arrays by the expressions that compute them: two arrays with one number are equal, element by element.

This is the *expression number* of an array, or its number for short: an int without a meaning of its own.
One `ExpressionTable` serves several modules, so that a value of the schedule and a value of the program can have one
number. A number is never given by a guess; two equal arrays may well have two numbers. Arrays are equal here if nothing
writes: a kernel is a function of its operands, as XLA sees it, and two equal calls have equal results.

An array of one repeated element is known by its type, dimensions and element. A view (reshape, transpose, or a bitcast,
whose meaning depends on the layouts) is a number by its operand, and views that undo each other vanish.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import DTYPE_NAMES, is_tuple
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, LiteralProto, ShapeProto
from ligerdiag.provenance.slices import (
    DEEPEST,
    Dimensions,
    IndexRange,
    Joined,
    Number,
    Operand,
    Sliceable,
    SliceNumbers,
    match_reshaped,
    replace_size,
)

type Element = tuple[str, str | bytes]
"""One element of a constant: the field of the literal that holds it, and its text or bytes."""

_NOT_PART_OF_VALUE = (
    "name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids", "original_value",
    "channel_id", "frontend_attributes", "output_operand_aliasing", "indices_are_sorted", "unique_indices",
    "custom_call_has_side_effect", "fusion_kind",
)  # fmt: skip
"""Fields of an instruction that do not change its value."""
_COMMUTES = having(Trait.COMMUTES)
_CONVERTED = {"f32": "f32s", "f64": "f64s", "s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s"}
"""Maps a type to the field of a literal that holds its elements."""
_SMALL = 1 << 24
"""Every smaller integer is a number of type f32, too."""
_LITERALS = ("preds", "s32s", "s64s", "u32s", "u64s", "f32s", "f64s")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for the unknown value that one element of a loop's state has at the beginning of any iteration."""

    depth: int
    """Number of loops around the loop."""
    rank: int


@dataclass(slots=True, eq=False)
class ExpressionTable:
    """Gives each array an expression number, so that arrays with equal numbers are equal, element by element."""

    rounds: bool = True
    """Whether a conversion from one floating-point type to another makes a new array; if False, it is its operand."""
    _numbers: dict[Hashable, Number] = field(default_factory=dict[Hashable, Number])
    _symbols: list[frozenset["Symbol"]] = field(default_factory=list[frozenset["Symbol"]])
    """For each number, the symbols of loops' states in its expression."""
    _splats: dict[Number, Element] = field(default_factory=dict[Number, Element])
    _reshapes: dict[Number, tuple[Number, Dimensions]] = field(default_factory=dict[Number, tuple[Number, Dimensions]])
    """Maps the number of a reshape to (its operand, the operand's dimensions)."""
    _transposes: dict[Number, tuple[Number, Dimensions, Dimensions]] = field(
        default_factory=dict[Number, tuple[Number, Dimensions, Dimensions]]
    )
    """Maps the number of a transpose to (its operand, the operand's dimensions, the order of these)."""
    _elementwise: dict[Number, tuple[HloInstruction, Sequence[Operand]]] = field(
        default_factory=dict[Number, tuple[HloInstruction, Sequence[Operand]]]
    )
    """Maps the number of an elementwise operation, or of a broadcast, to the instruction and its operands."""
    _transposed: dict[tuple[Number, Dimensions], Number] = field(
        default_factory=dict[tuple[Number, Dimensions], Number]
    )
    """Maps (number of an elementwise operation, order of dimensions) to the number of the transpose."""
    _depth: int = 0
    """The number of operations between the transpose that was asked for and the array that is looked at."""
    slices: SliceNumbers = field(init=False)

    def __post_init__(self) -> None:
        self.slices = SliceNumbers(
            lambda base, dimensions, parts: self.number("part", dimensions, parts, operands=(base,))
        )

    def number(self, *expression: Hashable, operands: Iterable[Number] = (), bound: int | None = None) -> Number:
        """Returns the number of an expression. Equal expressions have equal numbers.

        operands: the numbers of the expression's operands. bound: depth of a loop. The expression no longer depends on this
        loop's symbols, the unknown values of its state.
        """
        given = tuple(operands)
        key = (*expression, given)
        found = self._numbers.get(key)
        if found is None:
            symbols = frozenset[Symbol]().union(*(self._symbols[one] for one in given))
            found = self._add(key, frozenset([one for one in symbols if one.depth != bound]))
        return found

    def number_symbol(self, symbol: "Symbol", *leaf: Hashable) -> Number:
        """Returns the number of one array of a symbol, the unknown value of an element of a loop's state. leaf: index of the
        array in the element.
        """
        key = ("symbol", symbol, *leaf, ())
        found = self._numbers.get(key)
        return self._add(key, frozenset({symbol})) if found is None else found

    def number_anew(self) -> Number:
        """Returns an unused number, for an array that is not known to equal any numbered array."""
        return self.number("anew", len(self._symbols))

    def list_symbols(self, number: Number) -> frozenset["Symbol"]:
        """Returns the symbols in the expression with number `number`. A symbol is an unknown value of a loop's state."""
        return self._symbols[number]

    def _add(self, key: Hashable, symbols: frozenset["Symbol"]) -> Number:
        number = self._numbers[key] = len(self._symbols)
        self._symbols.append(symbols)
        return number

    def number_splat(self, shape: ShapeProto, element: Element) -> Number:
        """Returns the number of an array of shape `shape` that repeats one element."""
        return self._number_splat(shape.element_type, tuple(shape.dimensions), element)

    def _number_splat(self, kind: int, dimensions: Dimensions, element: Element) -> Number:
        number = self.number("splat", kind, dimensions, element)
        self._splats[number] = element
        self.slices.add(
            number, Sliceable((), [()] * len(dimensions), lambda after, _: self._number_splat(kind, after, element))
        )
        return number

    def number_concatenation(self, axis: int, pieces: Sequence[Operand]) -> Number:
        """Returns the number of a concatenation. axis: the dimension along which the pieces are joined."""
        if len(pieces) == 1:
            return pieces[0][0]
        sizes = tuple([dimensions[axis] for _, dimensions in pieces])
        number = self.number("concatenate", axis, sizes, operands=[piece for piece, _ in pieces])
        self.slices.add(number, Joined(axis, tuple(pieces), self.number_concatenation))
        return number

    def number_elementwise(self, one: HloInstruction, operands: Sequence[Number], attributes: bytes) -> Number:
        """Returns the number of an elementwise operation. one: the instruction. attributes: its attributes as bytes."""
        dimensions = tuple(one.shape.dimensions)
        number = self.number("operation", attributes, (), operands=sort_operands(one.opcode, operands))
        given = [tuple(operand.shape.dimensions) for operand in one.operands]
        if all(own in (dimensions, ()) for own in given):  # bytes taken for another type have other dimensions
            axes = [[axis if own else -1 for own in given] for axis in range(len(dimensions))]
            self._add_operation(number, one, list(zip(operands, given, strict=True)), axes)
        return number

    def number_broadcast(self, one: HloInstruction, operand: Number, attributes: bytes) -> Number:
        """Returns the number of a broadcast. one: the instruction. attributes: its attributes as bytes."""
        number = self.number("operation", attributes, (), operands=(operand,))
        places = {axis: place for place, axis in enumerate(one.proto.dimensions)}
        axes = [[places.get(axis, -1)] for axis in range(len(one.shape.dimensions))]
        self._add_operation(number, one, [(operand, tuple(one.operands[0].shape.dimensions))], axes)
        return number

    def _add_operation(
        self, number: Number, one: HloInstruction, operands: Sequence[Operand], axes: Sequence[Sequence[int]]
    ) -> None:
        def rebuild(after: Dimensions, taken: list[Operand]) -> Number:
            given = sort_operands(one.opcode, [piece for piece, _ in taken])
            found = self.number("operation", list_attributes(one, after), (), operands=given)
            self._add_operation(found, one, taken, axes)
            return found

        self.slices.add(number, Sliceable(operands, axes, rebuild))
        self._elementwise[number] = one, operands

    def _number_transposed_operation(self, operand: Number, dimensions: Dimensions, order: Dimensions) -> Number | None:
        """Returns the number of the transpose of an elementwise operation, which is the operation on transposes; None for
        another array.
        """
        one, operands = self._elementwise.get(operand, (None, ()))
        if one is None or any(own and own != dimensions for _, own in operands) or one.proto.dimensions:
            return None
        after = tuple([dimensions[axis] for axis in order])
        key = operand, order
        if key in self._transposed:
            return self._transposed[key]
        given = [(self.number_transpose(*each, order), after) if each[1] else each for each in operands]
        numbers = sort_operands(one.opcode, [number for number, _ in given])
        found = self.number("operation", list_attributes(one, after), (), operands=numbers)
        axes = [[axis if own else -1 for _, own in given] for axis in range(len(after))]
        self._add_operation(found, one, given, axes)
        self._transposed[key] = found
        return found

    def number_constant(self, instruction: HloInstruction) -> Number:
        """Returns the expression number of the array of a `constant` instruction."""
        element = _find_only_element(instruction.proto.literal)
        if element is not None:
            return self.number_splat(instruction.shape, element)
        literal = LiteralProto()
        literal.CopyFrom(instruction.proto.literal)
        literal.ClearField("shape")
        kind, dimensions = instruction.shape.element_type, tuple(instruction.shape.dimensions)
        return self.number("constant", kind, dimensions, literal.SerializeToString(deterministic=True))

    def number_moved(self, moved: Number, shape: ShapeProto) -> Number | None:
        """Returns the expression number of an array that takes its elements from an array of equal elements. moved:
        number of the latter. shape: shape of the result. Returns None if the elements of `moved` are not all equal.
        """
        element = self._splats.get(moved)
        return None if element is None else self.number_splat(shape, element)

    def number_converted(self, operand: Number, after: ShapeProto) -> Number | None:
        """Returns the expression number of an array after a conversion, if all its elements are one small integer.
        operand: number of the array. after: shape with the new element type. Otherwise returns None.
        """
        element, name = self._splats.get(operand), _CONVERTED.get(DTYPE_NAMES.get(after.element_type, ""))
        if element is None or name is None or element[0] not in ("s32s", "s64s", "u32s", "u64s"):
            return None
        number = int(element[1])
        if not 0 <= number < _SMALL:
            return None
        return self.number_splat(after, (name, repr(float(number)) if name.startswith("f") else str(number)))

    def number_product(self, one: HloInstruction, operands: Sequence[Operand], dimensions: Dimensions) -> Number | None:
        """Returns the number of a product of matrices. The number is the same if the operands change places or are
        transposed. dimensions: dimensions of the result. Returns None for a product without such a number.
        """
        numbers = one.proto.dot_dimension_numbers
        sides = [
            self._look_through_transpose(
                *operands[0],
                tuple(numbers.lhs_batch_dimensions),
                tuple(numbers.lhs_contracting_dimensions),
            ),
            self._look_through_transpose(
                *operands[1],
                tuple(numbers.rhs_batch_dimensions),
                tuple(numbers.rhs_contracting_dimensions),
            ),
        ]
        precision = tuple(one.proto.precision_config.operand_precision)
        if len(set(precision)) > 1:
            return None
        batch = len(numbers.lhs_batch_dimensions)
        free = [len(own) - batch - len(side[2]) for (_, own), side in zip(operands, sides, strict=True)]
        if len(dimensions) != batch + sum(free) or len(sides[0][2]) != len(sides[1][2]):
            return None  # not a product that XLA accepts
        pairs = sorted(zip(sides[0][2], sides[1][2], strict=True))
        flipped = sorted(zip(sides[1][2], sides[0][2], strict=True))
        straight = (sides[0][1], sides[1][1], tuple(pairs), sides[0][0], sides[1][0])
        turned = (sides[1][1], sides[0][1], tuple(flipped), sides[1][0], sides[0][0])
        kind = one.shape.element_type
        chosen = min(straight, turned, key=lambda form: (form[3:], form[:3]))
        product = self.number(
            "product", kind, precision, one.proto.precision_config.algorithm, chosen[:3], operands=chosen[3:]
        )
        if chosen != straight:
            places = [*range(batch), *range(batch + free[0], batch + sum(free)), *range(batch, batch + free[0])]
            before = tuple([dimensions[place] for place in places])
            order = tuple([places.index(place) for place in range(len(places))])
            product = self.number_transpose(product, before, order, is_product=True)
        self.slices.add(product, self._slice_product(one, tuple(operands)))
        return product

    def _slice_product(self, one: HloInstruction, operands: tuple[Operand, ...]) -> Sliceable:
        """Returns how slices of a product are computed: from slices of one operand, or of both in a batch dimension."""
        numbers = one.proto.dot_dimension_numbers
        batches = tuple(numbers.lhs_batch_dimensions), tuple(numbers.rhs_batch_dimensions)
        contracted = tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)
        axes: list[tuple[int, ...]] = list(zip(*batches, strict=True))
        for side, (_, own) in enumerate(operands):
            for axis in range(len(own)):
                if axis not in batches[side] and axis not in contracted[side]:
                    axes.append((axis, -1) if side == 0 else (-1, axis))

        def rebuild(after: Dimensions, taken: list[Operand]) -> Number:
            found = self.number_product(one, taken, after)
            assert found is not None  # as the product itself has a number
            return found

        return Sliceable(operands, axes, rebuild)

    def _look_through_transpose(
        self, operand: Number, dimensions: Dimensions, batch: Dimensions, contracting: Dimensions
    ) -> tuple[Number, Dimensions, Dimensions]:
        """Returns an operand of a product without a transpose around it, and its batch and contracting dimensions; the
        operand as it is if the transpose exchanges other dimensions, too.
        """
        earlier = self._transposes.get(operand)
        if earlier is None:
            return operand, batch, contracting
        base, _, order = earlier
        free = [order[number] for number in range(len(dimensions)) if number not in (*batch, *contracting)]
        if free != sorted(free):
            return operand, batch, contracting
        return base, tuple([order[number] for number in batch]), tuple([order[number] for number in contracting])

    def number_reshape(self, operand: Number, before: Dimensions, after: Dimensions) -> Number:
        """Returns the expression number of an array that is reshaped from the dimensions `before` to the dimensions
        `after`.
        """
        if before == after:
            return operand
        base, dimensions = self._reshapes.get(operand, (operand, before))
        if dimensions == after:
            return base
        number = self.number("reshape", dimensions, after, operands=(base,))
        self._reshapes[number] = base, dimensions
        axes = match_reshaped(dimensions, after)

        def rebuild(shaped: Dimensions, taken: list[Operand]) -> Number:
            return self.number_reshape(*taken[0], shaped)

        self.slices.add(number, Sliceable(((base, dimensions),), axes, rebuild))
        return number

    def number_transpose(
        self, operand: Number, dimensions: Dimensions, order: Dimensions, *, is_product: bool = False
    ) -> Number:
        """Returns the number of a transpose. dimensions: dimensions of the operand. order: dimension k of the result is
        dimension order[k] of the operand. is_product: whether the operand is a product whose slices are slices of the
        transpose.
        """
        if list(order) == sorted(order):
            return operand
        after = tuple([dimensions[number] for number in order])
        if [number for number in order if dimensions[number] != 1] == sorted(
            number for number in order if dimensions[number] != 1
        ):
            return self.number_reshape(operand, dimensions, after)
        self._depth += 1
        operation = self._number_transposed_operation(operand, dimensions, order) if self._depth < DEEPEST else None
        self._depth -= 1
        if operation is not None:
            return operation
        if operand in self._transposes:
            base, before, first = self._transposes[operand]
            return self.number_transpose(base, before, tuple([first[number] for number in order]))
        number = self.number("transpose", order, dimensions, operands=(operand,))
        self._transposes[number] = operand, dimensions, order
        if not is_product:
            axes = [(axis,) for axis in order]
            self.slices.add(
                number,
                Sliceable(((operand, dimensions),), axes, lambda _, taken: self.number_transpose(*taken[0], order)),
            )
        return number

    def number_bitcast(self, operand: Number, before: ShapeProto, after: ShapeProto) -> Number:
        """Returns the expression number of a bitcast: the operand's bytes with a new shape or layout. before: shape of the
        operand. after: shape of the result.
        """
        first, last = _list_major_to_minor(before), _list_major_to_minor(after)
        if before.element_type != after.element_type or first is None or last is None:
            return self.number("bitcast", _describe(before), _describe(after), operands=(operand,))
        dimensions = tuple(before.dimensions)
        flat = self.number_transpose(operand, dimensions, first)
        physical = tuple([after.dimensions[number] for number in last])
        shaped = self.number_reshape(flat, tuple([dimensions[number] for number in first]), physical)
        return self.number_transpose(shaped, physical, tuple([last.index(number) for number in range(len(last))]))

    def number_slice(self, instruction: HloInstruction, operand: Number, attributes: bytes) -> Number:
        """Returns the number of a slice. It is the number of the same operation on slices of the operands (see `slices`)."""
        taken = [(one.start, one.limit, one.stride) for one in instruction.proto.slice_dimensions]
        dimensions = tuple(instruction.operands[0].shape.dimensions)
        if any(stride != 1 for *_, stride in taken):
            return self.number("slice", attributes, operands=(operand,))
        for axis, (start, limit, _) in enumerate(taken):
            operand = self.slices.take(operand, dimensions, IndexRange(axis, start, limit))
            dimensions = replace_size(dimensions, axis, limit - start)
        return operand


def list_attributes(instruction: HloInstruction, dimensions: Dimensions | None = None) -> bytes:
    """Returns the parts of an instruction's protobuf message on which its value depends, without operands and
    computations. dimensions: dimensions of the result, if they differ from those of the instruction.
    """
    stripped = HloInstructionProto()
    stripped.CopyFrom(instruction.proto)
    for name in _NOT_PART_OF_VALUE:
        stripped.ClearField(name)
    if instruction.opcode != "custom-call":
        stripped.ClearField("backend_config")
    if stripped.comparison_type != "TOTALORDER":  # any other follows from the operands' type
        stripped.ClearField("comparison_type")
    stripped.DiscardUnknownFields()
    if dimensions is not None:
        stripped.shape.dimensions[:] = dimensions
    _drop_layout(stripped.shape)
    return stripped.SerializeToString(deterministic=True)


def sort_operands(opcode: str, operands: Sequence[Number]) -> tuple[Number, ...]:
    """Returns the numbers of an operation's operands. They are sorted if the operation is commutative, so that `a + b` and
    `b + a` get one number.
    """
    return tuple(sorted(operands)) if opcode in _COMMUTES else tuple(operands)


def _drop_layout(shape: ShapeProto) -> None:
    shape.ClearField("layout")
    for part in shape.tuple_shapes:
        _drop_layout(part)


def _describe(shape: ShapeProto) -> Hashable:
    return shape.element_type, tuple(shape.dimensions), tuple(shape.layout.minor_to_major)


def _list_major_to_minor(shape: ShapeProto) -> Dimensions | None:
    """Returns the dimensions of an array as they lie in memory, outermost first; None for a tuple or without a layout."""
    order = tuple(reversed(shape.layout.minor_to_major))
    return None if is_tuple(shape) or sorted(order) != list(range(len(shape.dimensions))) else order


def _find_only_element(literal: LiteralProto) -> Element | None:
    """Returns the element that a constant's array repeats; None if it has several or another format."""
    for name in _LITERALS:
        values = getattr(literal, name)
        if values:
            first = repr(values[0])
            return (name, first) if all(repr(one) == first for one in values) else None
    for name, size in (("f16s", 2), ("bf16s", 2), ("u8s", 1), ("s8s", 1)):
        data: bytes = getattr(literal, name)
        if data:
            return (name, data[:size]) if data == data[:size] * (len(data) // size) else None
    return None
