"""Pieces of a concatenation that are computed with before they are sliced apart: XLA fuses it, or calls a library."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import pytest

from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, ShapeProto
from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import array, tuple_of

type Make = Callable[["Writer", HloInstructionProto], HloInstructionProto]
ROWS = 4
GEMM = {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]}
"""As XLA writes dot_dimension_numbers; batch dimensions are left out or empty."""


class Writer:
    """One of the two programs."""

    def __init__(self) -> None:
        self.program = Program()
        self.entry: HloComputationProto = self.program.computation("entry")
        self.x = self.op("parameter", shape=array(ROWS, 2))

    def op(
        self, opcode: str, *operands: HloInstructionProto, shape: ShapeProto, tag: int = 0, **fields: object
    ) -> HloInstructionProto:
        made = self.program.op(self.entry, opcode, *operands, shape=shape, tag=tag, **fields)
        if opcode not in ("bitcast", "get-tuple-element"):
            places = {(number,): one for number, one in enumerate(shape.tuple_shapes)} or {(): shape}
            for path, one in places.items():
                self.program.define(made, *path, size=4 * prod(one.dimensions))
        return made

    def cut(self, whole: HloInstructionProto, start: int, limit: int, tag: int) -> HloInstructionProto:
        dimensions = whole.shape.dimensions
        taken = self.op("slice", whole, tag=tag, shape=array(limit - start, *dimensions[1:]))
        bounds = [(start, limit), *[(0, size) for size in dimensions[1:]]]
        for one in bounds:
            taken.slice_dimensions.add(start=one[0], limit=one[1], stride=1)
        return taken

    def write(self, order: str, make: Make, border: int, reverses: bool) -> Program:
        """h = -x and g = |x|; the kernel (k) on h; both are joined, computed with, and sliced apart (j), in this order."""
        h, g = (
            self.op("negate", self.x, shape=array(ROWS, 2), tag=1),
            self.op("abs", self.x, shape=array(ROWS, 2), tag=2),
        )
        call = parts = None
        for letter in order:
            if letter == "k":
                call = self.program.kernel(self.entry, h, tag=3)
                self.program.define(call)
            else:
                joined = self.op("concatenate", h, g, tag=4, shape=array(2 * ROWS, 2), dimensions=[0])
                whole = make(self, joined)
                first, second = (self.cut(whole, 0, border, 6), self.cut(whole, border, whole.shape.dimensions[0], 7))
                parts = (second, first) if reverses else (first, second)
        assert call is not None
        assert parts is not None
        self.program.op(self.entry, "tuple", *parts, call, shape=tuple_of(*[one.shape for one in parts], array(4)))
        return self.program


def reverse(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    return writer.op("reverse", joined, tag=5, shape=joined.shape, dimensions=[0])


def pad(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    padded = writer.op("pad", joined, writer.op("constant", shape=array()), tag=5, shape=array(2 * ROWS + 1, 2))
    padded.padding_config.dimensions.add(edge_padding_low=1)
    padded.padding_config.dimensions.add()
    return padded


def total(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    zero = writer.op("constant", shape=array())
    return writer.op("reduce", joined, zero, tag=5, shape=array(2 * ROWS), dimensions=[1])


def multiply(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    product = writer.op("dot", joined, writer.op("constant", shape=array(2, 3)), tag=5, shape=array(2 * ROWS, 3))
    product.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    product.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    return product


def call_library(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    shapes = tuple_of(array(2 * ROWS, 3), array(16))
    call = writer.op("custom-call", joined, writer.op("constant", shape=array(2, 3)), tag=5, shape=shapes)
    call.custom_call_target = "__cublas$gemm"
    call.backend_config = json.dumps({"gemm_backend_config": {"dot_dimension_numbers": GEMM}}).encode()
    return writer.op("get-tuple-element", call, shape=shapes.tuple_shapes[0], tuple_index=0)


def join_again(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    more = writer.op("constant", shape=array(3, 2))
    return writer.op("concatenate", joined, more, tag=5, shape=array(2 * ROWS + 3, 2), dimensions=[0])


def add_other_pieces(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    """What is added has pieces of one row, of h, and of seven."""
    rows = [writer.cut(joined, 0, 1, 8), writer.op("constant", shape=array(2 * ROWS - 1, 2))]
    others = writer.op("concatenate", *rows, tag=9, shape=joined.shape, dimensions=[0])
    return writer.op("add", joined, others, tag=5, shape=joined.shape)


def sum_with_another(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    """Over all devices, as the combiner joins two sums."""
    shapes = tuple_of(joined.shape, array(3))
    total = writer.op("all-reduce", joined, writer.op("constant", shape=array(3)), tag=5, shape=shapes)
    return writer.op("get-tuple-element", total, shape=joined.shape, tuple_index=0)


def exchange(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    return writer.op("collective-permute", joined, tag=5, shape=joined.shape)


def gather_columns(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    """The columns of two devices side by side: the pieces are rows."""
    return writer.op("all-gather", joined, tag=5, shape=array(2 * ROWS, 4), dimensions=[1])


def gather_rows(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
    """Both devices' rows, one behind the other, of which the second device's are taken."""
    gathered = writer.op("all-gather", joined, tag=5, shape=array(4 * ROWS, 2), dimensions=[0])
    return writer.cut(gathered, 2 * ROWS, 4 * ROWS, 8)


def flatten_by(opcode: str) -> Make:
    def flatten(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
        flat = writer.op(opcode, joined, shape=array(4 * ROWS))
        return writer.op("exponential", flat, tag=5, shape=flat.shape)

    return flatten


@dataclass(frozen=True)
class Form:
    """What is computed with the joined value, as written and as scheduled."""

    program: Make
    schedule: Make
    border: int = ROWS
    reverses: bool = False


def same(make: Make, border: int = ROWS, reverses: bool = False) -> Form:
    return Form(make, make, border, reverses)


FORMS = {
    "elementwise": same(lambda writer, joined: writer.op("exponential", joined, tag=5, shape=joined.shape)),
    "reversed": same(reverse, reverses=True),
    "padded": same(pad, border=ROWS + 1),
    "reduced": same(total),
    "product": same(multiply),
    "product by a library": Form(multiply, call_library),
    "joined again": same(join_again),
    "added to other pieces": same(add_other_pieces),
    "summed with another": same(sum_with_another),
    "exchanged": same(exchange),
    "columns gathered": same(gather_columns),
    "rows gathered": same(gather_rows),
    "flattened": Form(flatten_by("reshape"), flatten_by("bitcast"), border=2 * ROWS),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("order", "expected"), [("kj", "latent"), ("jk", "stale")])
def test_a_piece_depends_on_its_own_operand_whatever_is_computed_with_all(
    form: Form, order: str, expected: str
) -> None:
    program = Writer().write("kj", form.program, form.border, form.reverses)
    schedule = Writer().write(order, form.schedule, form.border, form.reverses)
    assert verdicts(judge(program, schedule, "of h", "of g", "sums")) == [expected, "fresh", "fresh"]


def test_a_slice_across_the_border_of_two_pieces_depends_on_both() -> None:
    program, schedule = (Writer().write(order, multiply, ROWS + 1, reverses=True) for order in ("kj", "jk"))
    assert verdicts(judge(program, schedule, "of g", "of both", "sums")) == ["fresh", "stale", "fresh"]


def test_a_bitcast_that_exchanges_the_dimensions_exchanges_where_the_pieces_lie() -> None:
    def transpose(opcode: str) -> Make:
        def make(writer: Writer, joined: HloInstructionProto) -> HloInstructionProto:
            square = writer.op("broadcast", joined, tag=8, shape=array(2 * ROWS, 2 * ROWS, 2), dimensions=[0, 2])
            turned = writer.op(opcode, square, shape=square.shape, dimensions=[1, 0, 2])
            if opcode == "bitcast":
                turned.shape.layout.minor_to_major.extend([2, 0, 1])
            return writer.op("exponential", turned, tag=5, shape=array(2 * ROWS, 2 * ROWS, 2))

        return make

    program, schedule = (
        Writer().write("kj", transpose(opcode), ROWS, reverses=False) for opcode in ("transpose", "bitcast")
    )
    assert verdicts(judge(program, schedule, "upper", "lower", "sums")) == ["latent", "latent", "fresh"]
