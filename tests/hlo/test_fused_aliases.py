"""A fused call's declared output is its operand or not: modules by hand, in the forms of XLA's dynamic-slice fusion."""

import pytest

from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.fused_aliases import BrokenAlias, find_broken_aliases
from tests.replay.by_hand import assign
from tests.replay.xla_cpu import parse_text

CALL = "custom-call(taken), custom_call_target={target}, output_to_operand_aliasing={{{{}}: (0, {{}})}}"


def find(fused: str, entry: str, places: dict[str, int], *, target: str = '"k"', **options: bool) -> list[BrokenAlias]:
    text = f"""HloModule m, is_scheduled=true
fused {{
{fused.replace("CALL", CALL.format(target=target))}
}}
ENTRY main {{
{entry}
}}
"""
    module = parse_text(text)
    return list(find_broken_aliases(module, Positions(module, assign(module, places)), **options))


WHOLE = """ p = f32[8] parameter(0)
 taken = f32[8] bitcast(p)
 ROOT call = f32[8] CALL"""
TAKES_WHOLE = """ x = f32[8] parameter(0)
 h = f32[8] sine(x)
 ROOT f = f32[8] fusion(h), kind=kCustom, calls=fused"""
HALF = """ p = f32[16] parameter(0)
 taken = f32[8] slice(p), slice={[0:8]}
 ROOT call = f32[8] CALL"""
TAKES_HALF = """ x = f32[16] parameter(0)
 h = f32[16] sine(x)
 ROOT f = f32[8] fusion(h), kind=kCustom, calls=fused"""
ROW = """ p = f32[4,8] parameter(0)
 i = s32[] parameter(1)
 zero = s32[] constant(0)
 row = f32[1,8] dynamic-slice(p, i, zero), dynamic_slice_sizes={1,8}
 taken = f32[8] bitcast(row)
 call = f32[8] CALL
 again = f32[1,8] bitcast(call)
 ROOT u = f32[4,8] dynamic-update-slice(p, again, INDEX, zero)"""
TAKES_ROW = """ x = f32[4,8] parameter(0)
 i = s32[] parameter(1)
 h = f32[4,8] sine(x)
 ROOT f = f32[4,8] fusion(h, i), kind=kCustom, calls=fused"""
STACKED = """ taken = f32[8] parameter(0)
 p = f32[4,8] parameter(1)
 i = s32[] parameter(2)
 zero = s32[] constant(0)
 call = f32[8] CALL
 again = f32[1,8] bitcast(call)
 ROOT u = f32[4,8] dynamic-update-slice(p, again, i, zero)"""
TAKES_STACK = """ x = f32[8] parameter(0)
 stack = f32[4,8] parameter(1)
 i = s32[] parameter(2)
 h = f32[8] sine(x)
 ROOT f = f32[4,8] fusion(h, stack, i), kind=kCustom, calls=fused"""


@pytest.mark.parametrize(
    ("fused", "entry", "places", "broken"),
    [
        (WHOLE, TAKES_WHOLE, {"h": 0, "f": 0}, False),
        (WHOLE, TAKES_WHOLE, {"h": 0, "f": 64}, True),
        (HALF, TAKES_HALF, {"h": 0, "f": 64}, True),
        (HALF, TAKES_HALF, {"h": 0, "f": 0}, True),  # a whole array is not its half
        (ROW.replace("INDEX", "i"), TAKES_ROW, {"h": 0, "f": 0, "i": 64}, False),
        (ROW.replace("INDEX", "zero"), TAKES_ROW, {"h": 0, "f": 0, "i": 64}, True),
        (ROW.replace("INDEX", "i"), TAKES_ROW, {"h": 0, "f": 128, "i": 64}, True),
        (STACKED, TAKES_STACK, {"h": 0, "stack": 64, "f": 64, "i": 192}, True),
    ],
    ids=["same", "other", "half", "half-in-place", "row", "another-row", "row-elsewhere", "stacked"],
)
def test_an_alias_holds_if_both_have_the_same_bytes(
    fused: str, entry: str, places: dict[str, int], broken: bool
) -> None:
    found = find(fused, entry, places)
    assert [(one.call.name, one.operand, one.output, one.certain) for one in found] == [("call", 0, (), True)] * broken


def test_a_broken_alias_is_not_certain_without_xlas_own_assignment() -> None:
    (found,) = find(WHOLE, TAKES_WHOLE, {"h": 0, "f": 64}, is_assigned=False)
    assert not found.certain
    (found,) = find(WHOLE, TAKES_WHOLE, {"h": 0})
    assert not found.certain


def test_a_broken_alias_is_not_certain_if_the_operand_is_computed() -> None:
    made = WHOLE.replace("bitcast(p)", "negate(p)")
    (found,) = find(made, TAKES_WHOLE, {"h": 0, "f": 0})
    assert not found.certain


def test_library_calls_of_xla_have_no_broken_alias() -> None:
    assert not find(WHOLE, TAKES_WHOLE, {"h": 0, "f": 64}, target='"__cublas$gemm"')


def test_an_output_that_the_fusion_does_not_return_has_no_broken_alias() -> None:
    unused = WHOLE.replace("ROOT call", "call") + "\n ROOT other = f32[8] negate(taken)"
    assert not find(unused, TAKES_WHOLE, {"h": 0, "f": 64})
