"""Tags of an optimized module from elsewhere are trusted only as far as the operands agree with them."""

import pytest

from ligerdiag.analysis.tag_trust import are_in_order, compute_tag_trust
from ligerdiag.hlo.module import HloModule
from tests.replay.by_hand import parse_text

PROGRAM = """HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  one = f32[] constant(1), metadata={op_name="one#ld9"}
  ones = f32[4] broadcast(one), dimensions={}, metadata={op_name="ones#ld9"}
  a = f32[4] add(x, ones), metadata={op_name="a#ld1"}
  b = f32[4] add(y, x), metadata={op_name="b#ld2"}
  c = f32[4] multiply(a, b), metadata={op_name="c#ld3"}
  k = f32[4] custom-call(a, b), custom_call_target="triton_kernel_call", metadata={op_name="k#ld4"}
  ROOT r = (f32[4], f32[4]) tuple(c, k)
}
"""
OPTIMIZED = PROGRAM.replace("HloModule m", "HloModule m, is_scheduled=true")


def parse(text: str = OPTIMIZED, **names: str) -> HloModule:
    """Parses the module; `names` gives instructions another op_name."""
    for instruction, name in names.items():
        head, _, rest = text.partition(f"  {instruction} = ")
        line, _, others = rest.partition("\n")
        before, _, _ = line.partition("op_name=")
        text = f'{head}  {instruction} = {before}op_name="{name}"}}\n{others}'
    return parse_text(text)


def find_refuted(**names: str) -> set[str]:
    """Returns the names of the optimized instructions whose tags are refuted."""
    optimized = parse(**names)
    refuted = compute_tag_trust(parse(PROGRAM), optimized).refuted
    return {one.name for one in optimized.entry.instructions if one.id in refuted}


def test_a_tag_that_agrees_with_the_operands_is_trusted() -> None:
    assert find_refuted() == set()
    assert find_refuted(a="b#ld2") == set()  # computed from less than the operation: a pass may have simplified it


def test_a_tag_of_an_operation_with_fewer_inputs_is_refuted() -> None:
    assert find_refuted(b="a#ld1") == {"b"}
    assert find_refuted(b="a#ld1;b#ld2") == {"b"}


def test_a_call_must_agree_with_its_operation_operand_by_operand() -> None:
    program = PROGRAM.replace("custom-call(a, b)", "custom-call(b, a)")
    optimized = parse()
    (refuted,) = compute_tag_trust(parse(program), optimized).refuted
    assert next(one.name for one in optimized.entry.instructions if one.id == refuted) == "k"


def test_a_name_that_a_pass_gave_to_another_operation_is_not_refuted() -> None:
    assert find_refuted(c="a#ld1") == set()


def test_a_refuted_tag_is_removed_from_the_module() -> None:
    optimized = parse(b="a#ld1")
    trusted = compute_tag_trust(parse(PROGRAM), optimized).without_refuted(optimized)
    assert len(trusted.tags) == len(optimized.tags) - 1


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({}, True),
        ({"a": "b#ld2", "b": "a#ld1"}, False),
        ({"a": "c#ld3;a#ld1"}, False),
        ({"x": "x#ld4"}, False),
        ({"ones": "ones#ld4"}, False),
    ],
)
def test_the_tags_of_a_program_must_ascend(names: dict[str, str], expected: bool) -> None:
    text = PROGRAM.replace("f32[4] parameter(0)", 'f32[4] parameter(0), metadata={op_name="x"}')
    text = text.replace("#ld9", "")
    assert are_in_order(parse(text, **names)) is expected
