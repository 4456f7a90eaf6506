"""Types as Triton's versions print them."""

import pytest

from ligerdiag.effects.libtriton import parse_pointee, parse_shape


@pytest.mark.parametrize(
    ("text", "shape", "pointee"),
    [
        ("!tt.tensordesc<tensor<8x16xf32>>", (8, 16), "f32"),
        ("!tt.tensordesc<8x16xf32>", (8, 16), "f32"),
        ("!tt.tensordesc<8x16xsi32, #shared>", (8, 16), "si32"),
        ("!tt.ptr<tensor<8x16xf32>>", (8, 16), "f32"),
        ("tensor<8x16x!tt.ptr<bf16>>", (8, 16), "bf16"),
        ("tensor<4x!tt.ptr<f32, 3>>", (4,), "f32"),
        ("!tt.ptr<!tt.ptr<i8>>", (), "!tt.ptr<i8>"),
        ("tensor<8x16xf32>", (8, 16), ""),
        ("f32", (), ""),
    ],
)
def test_sizes_and_pointees(text: str, shape: tuple[int, ...], pointee: str) -> None:
    assert parse_shape(text) == shape
    assert parse_pointee(text) == pointee
