"""Declared writes whose new contents nobody uses, in programs as HLO text."""

import pytest

from ligerdiag.analysis.unused_contents import find_unused_contents
from ligerdiag.analysis.writes import iterate_kernel_calls
from ligerdiag.effects.access import Access, CallEffects
from tests.replay.xla_cpu import parse_text

CALL = (
    '(f32[8], f32[8]) custom-call(x), custom_call_target="triton_kernel_call", output_to_operand_aliasing={{1}: (0, {})}'
    ', metadata={op_name="call#ld2"}'
)

LIBRARY = 'u = f32[4] custom-call(v), custom_call_target="library"'


def find(text: str) -> list[tuple[int, list[str]]]:
    """Returns the operand of each write that is found, and the names of its readers."""
    module = parse_text(f"HloModule m\n\n{text}\n")
    effects = {
        call.id: CallEffects(kernel="k", operands=(Access.READ_WRITE,), outputs=(Access.WRITE, Access.NONE))
        for _, call in iterate_kernel_calls(module)
    }
    return [(one.operand, [reader.name for reader in one.readers]) for one in find_unused_contents(module, effects)]


def program(after: str, *, before: str = "x = f32[8] negate(p)", more: str = "") -> str:
    return (
        f"{more}\n\nENTRY main {{\n  p = f32[8] parameter(0)\n  {before}\n  c = {CALL}\n"
        f"  s = f32[8] get-tuple-element(c), index=0\n  n = f32[8] get-tuple-element(c), index=1\n  {after}\n}}"
    )


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("r = f32[8] add(s, x)\n  ROOT t = (f32[8]) tuple(r)", [(0, ["r"])]),
        ("r = f32[8] add(s, x)\n  ROOT t = (f32[8], f32[8]) tuple(r, n)", []),
        ("r = f32[8] add(n, x)\n  ROOT t = (f32[8]) tuple(r)", []),
        ("dead = f32[8] negate(n)\n  r = f32[8] add(s, x)\n  ROOT t = (f32[8]) tuple(r)", [(0, ["r"])]),
        ("dead = f32[8] negate(x)\n  ROOT t = (f32[8]) tuple(s)", []),
        ("ROOT t = (f32[8], f32[8]) tuple(s, x)", [(0, ["t"])]),
        (
            f"v = f32[4] slice(n), slice={{[0:4]}}\n  {LIBRARY}\n  r = f32[8] add(s, x)\n  ROOT t = (f32[8]) tuple(r)",
            [(0, ["r"])],
        ),
        ("v = f32[2,4] reshape(n)\n  ROOT t = (f32[2,4], f32[8]) tuple(v, x)", []),
        (f"v = f32[4] slice(n), slice={{[0:4]}}\n  {LIBRARY}\n  ROOT t = (f32[4], f32[8]) tuple(u, x)", []),
    ],
)
def test_the_new_contents_are_unused_and_the_old_ones_are_read(after: str, found: list[tuple[int, list[str]]]) -> None:
    assert find(program(after)) == found


BEFORE = 'x = f32[8] negate(p)\n  b = f32[8] abs(x), metadata={op_name="abs#ld1"}'


def test_a_reader_before_the_call_and_scratch_memory_do_not_count() -> None:
    assert find(program("ROOT t = (f32[8], f32[8]) tuple(b, s)", before=BEFORE)) == []
    zeros = "z = f32[] constant(0)\n  x = f32[8] broadcast(z), dimensions={}"
    assert find(program("r = f32[8] add(s, x)\n  ROOT t = (f32[8]) tuple(r)", before=zeros)) == []


USED = "f {\n  a = f32[8] parameter(0)\n  ROOT b = f32[8] negate(a)\n}"
DROPPED = "f {\n  a = f32[8] parameter(0)\n  y = f32[8] parameter(1)\n  ROOT b = f32[8] negate(y)\n}"


def test_a_called_function_uses_what_it_reads() -> None:
    after = "r = f32[8] call(n), to_apply=f\n  q = f32[8] add(s, x)\n  ROOT t = (f32[8], f32[8]) tuple(q, r)"
    assert find(program(after, more=USED)) == []
    after = "r = f32[8] call(n, x), to_apply=f\n  ROOT t = (f32[8], f32[8]) tuple(s, r)"
    assert find(program(after, more=DROPPED)) == [(0, ["b"])]
