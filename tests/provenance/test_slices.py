"""A slice of an operation has the number of the operation on slices, as XLA and the author may write either."""

import pytest

from ligerdiag.provenance.identification import Identification
from tests.provenance.test_identification import find, names, read

PROGRAM = """
ENTRY e {
  x = f32[8,6] parameter(0)
  y = f32[8,6] parameter(1)
  rows = f32[8] parameter(2)
  factor = f32[] parameter(3)
  w = f32[6,4] parameter(4)
  of_x_ld1 = f32[4,6] slice(x), slice={[0:4], [0:6]}
  of_y_ld2 = f32[4,6] slice(y), slice={[0:4], [0:6]}
  of_rows_ld3 = f32[4] slice(rows), slice={[0:4]}
  rows_ld4 = f32[4,6] broadcast(of_rows_ld3), dimensions={0}
  factor_ld5 = f32[4,6] broadcast(factor), dimensions={}
  sum_ld6 = f32[4,6] add(of_x_ld1, rows_ld4)
  product_ld7 = f32[4,6] multiply(sum_ld6, factor_ld5)
  dot_ld8 = f32[4,4] dot(of_y_ld2, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  flat_ld9 = f32[24] reshape(product_ld7)
  ROOT r = (f32[4,6], f32[4,4], f32[24]) tuple(product_ld7, dot_ld8, flat_ld9)
}
"""
SCHEDULE = """
ENTRY e {
  x = f32[8,6] parameter(0)
  y = f32[8,6] parameter(1)
  rows = f32[8] parameter(2)
  factor = f32[] parameter(3)
  w = f32[6,4] parameter(4)
  broadcast.1 = f32[8,6] broadcast(rows), dimensions={0}
  broadcast.2 = f32[8,6] broadcast(factor), dimensions={}
  add.1 = f32[8,6] add(x, broadcast.1)
  multiply.1 = f32[8,6] multiply(add.1, broadcast.2)
  transpose.1 = f32[6,8] transpose(multiply.1), dimensions={1,0}
  dot.1 = f32[4,8] dot(w, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  joined = f32[10,8] concatenate(transpose.1, dot.1), dimensions={0}
  product = f32[6,4] slice(joined), slice={[0:6], [0:4]}
  as_written = f32[4,6] transpose(product), dimensions={1,0}
  other_rows = f32[4,6] slice(multiply.1), slice={[4:8], [0:6]}
  every_second = f32[4,6] slice(multiply.1), slice={[0:8:2], [0:6]}
  dot.2 = f32[4,4] slice(joined), slice={[6:10], [0:4]}
  dot = f32[4,4] transpose(dot.2), dimensions={1,0}
  reshape.1 = f32[48] reshape(multiply.1)
  first = f32[24] slice(reshape.1), slice={[0:24]}
  bytes = u8[8,6,4] bitcast-convert(multiply.1)
  half = u8[4,6,4] slice(bytes), slice={[0:4], [0:6], [0:4]}
  ROOT r = (f32[4,6], f32[4,4]) tuple(as_written, dot)
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("as_written", {"ld7"}),
        ("dot", {"ld8"}),
        ("other_rows", set[str]()),
        ("every_second", set[str]()),
        ("first", set[str]()),  # a part of a dimension that the reshape makes
        ("half", set[str]()),
    ],
)
def test_a_slice_is_the_operation_on_slices(name: str, expected: set[str]) -> None:
    optimized = read(SCHEDULE)
    assert names(Identification(read(PROGRAM), optimized).identify(find(optimized, name))) == expected


def test_two_slices_of_bytes_are_two_values() -> None:
    text = """
ENTRY e {
  x = f32[8] parameter(0)
  bytes_ld1 = u8[8,4] bitcast-convert(x)
  low_ld2 = u8[4,4] slice(bytes_ld1), slice={[0:4], [0:4]}
  high_ld3 = u8[4,4] slice(bytes_ld1), slice={[4:8], [0:4]}
  ROOT r = (u8[4,4], u8[4,4]) tuple(low_ld2, high_ld3)
}
"""
    program = read(text)
    identification = Identification(program, program)
    assert names(identification.identify(find(program, "low_ld2"))) == {"ld2"}
    assert names(identification.identify(find(program, "high_ld3"))) == {"ld3"}


@pytest.mark.parametrize("last", ["slice(OPERAND), slice={[0:2], [0:3]}", "transpose(OPERAND), dimensions={1,0}"])
def test_a_part_of_a_long_chain_has_a_number(last: str) -> None:
    operands = ["x", *(f"n{number}" for number in range(1499))]
    steps = [f"  n{number} = f32[4,3] multiply({one}, {one})" for number, one in enumerate(operands)]
    shape = "f32[2,3]" if last.startswith("slice") else "f32[3,4]"
    text = "\n".join(
        ["ENTRY e {", "  x = f32[4,3] parameter(0)", *steps, f"  ROOT r_ld1 = {shape} {last}", "}"]
    ).replace("OPERAND", "n1499")
    program = read(text)
    assert names(Identification(program, program).identify(find(program, "r_ld1"))) == {"ld1"}
