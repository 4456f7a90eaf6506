"""Lines of a kernel's Python source, found from the locations in its IR."""

import pytest

from ligerdiag.effects.ttir_module import parse_argument_names, parse_places
from ligerdiag.model.findings import SourceLine

STORE = "    tt.store %3, %6 : tensor<64x!tt.ptr<f32>> loc({})"
KERNEL = SourceLine(file="/me/kernels.py", line=39)


@pytest.mark.parametrize(
    ("location", "definitions"),
    [
        ('"/me/kernels.py":39:4', ""),
        ("#loc7", '#loc7 = loc("/me/kernels.py":39:4)'),
        ("#loc8", '#loc7 = loc("/me/kernels.py":39:4)\n#loc8 = loc("dx"(#loc7))'),
        (
            "#loc9",
            '#loc7 = loc("/me/kernels.py":39:4)\n#loc8 = loc("/me/b.py":1:2)\n#loc9 = loc(callsite(#loc7 at #loc8))',
        ),
        (
            "#loc9",
            '#loc1 = loc("/x/site-packages/triton/standard.py":5:1)\n#loc7 = loc("/me/kernels.py":39:4)\n'
            "#loc9 = loc(callsite(#loc1 at #loc7))",
        ),
    ],
)
def test_the_innermost_line_of_the_user_s_code_counts(location: str, definitions: str) -> None:
    line = STORE.format(location)
    assert parse_places(f"module {{\n{line}\n}}\n{definitions}\n", [line]) == (KERNEL,)


@pytest.mark.parametrize("location", ["unknown", "#loc3", "#loc", '"name"'])
def test_a_missing_location_gives_no_place(location: str) -> None:
    assert parse_places("#loc = loc(unknown)\n#loc3 = loc(#loc3)\n", [STORE.format(location)]) == (None,)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (
            '%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x_ptr"(#loc)), %n: i32 loc("n"(#loc))',
            ("x_ptr", "n"),
        ),
        ("%arg0: !tt.ptr<f32> loc(#loc1), %arg1: i32 loc(#loc2)", ("x_ptr", "")),
        ('%arg0: !tt.ptr<f32> loc("/me/kernels.py":7:0), %arg1: i32 loc("/me/kernels.py":7:0)', ()),
        ('%arg0: !tt.ptr<f32> loc("p"(#loc)), %arg1: !tt.ptr<f32> loc("p"(#loc))', ("", "")),
        ('%arg0: !tt.ptr<f32> loc("x.0"(#loc)), %arg1: i32 loc("\\1B[1m"(#loc))', ()),
        ('%arg0: !tt.ptr<f32> loc("x_ptr"(#loc))', ()),
        ("%arg0: !tt.ptr<f32>, %arg1: i32", ()),
    ],
)
def test_arguments_have_the_names_of_the_kernel_s_parameters(arguments: str, names: tuple[str, ...]) -> None:
    """A text that gives no name to some argument, as Triton before 3.3 writes it, gives none that could be wrong."""
    text = '#loc = loc("/me/kernels.py":7:0)\n#loc1 = loc("x_ptr"(#loc))\n#loc2 = loc("/me/kernels.py":7:0)\nmodule {\n'
    text += "  tt.func private @other(%arg0: i32 loc(#loc1)) {\n"
    text += f"  tt.func public @k({arguments}) attributes {{noinline = false}} {{\n  }}\n}}\n"
    assert parse_argument_names(text, "k", 2) == names
