"""Lines of a kernel's Python source, found from the locations in its IR."""

import pytest

from ligerdiag.effects.ttir_module import parse_places
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
