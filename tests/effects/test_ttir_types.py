"""Types in the syntax of several Triton versions."""

import pytest

from ligerdiag.effects.libtriton import parse_module, parse_pointee, parse_shape, print_module


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
def test_sizes_and_pointees_are_parsed(text: str, shape: tuple[int, ...], pointee: str) -> None:
    assert parse_shape(text) == shape
    assert parse_pointee(text) == pointee


def test_a_sum_of_a_whole_block_is_read_in_triton_3_1_s_syntax() -> None:
    """Dumps of such kernels once had unknown effects."""
    text = """module { tt.func public @k(%arg0: tensor<8xf32>) {
        %0 = tt.reshape %arg0 {allow_reorder = true} : tensor<8xf32> -> tensor<2x4xf32>
        %1 = tt.reshape %0 {allow_reorder = false} : tensor<2x4xf32> -> tensor<8xf32>
        tt.return } }"""
    module, context = parse_module(text.encode())
    first, second = [line for line in print_module(module).splitlines() if "tt.reshape" in line]
    assert "allow_reorder" in first
    assert "allow_reorder" not in second
    del module, context
