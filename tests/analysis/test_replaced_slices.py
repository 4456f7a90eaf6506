"""Which updates replace exactly the elements that a kernel has overwritten, on variants of one schedule.

The pairs `rows_put_back_in_place` and `fewer_rows_put_back` show what follows.
"""

from dataclasses import replace

import pytest

from ligerdiag.analysis.evaluation.replaced_slices import find_replacing
from tests.analysis.by_hand import judge_modules
from tests.analysis.pair_files import load_pairs, read_pair

KERNEL = "  kernel = f32[4] fusion(h, i), kind=kCustom, calls=on_rows\n"
PUT = "  put = f32[8,4] fusion({}, h, i), kind=kLoop, calls=put_back\n"


def count_replaced(old: str, new: str) -> int:
    """Returns the number of updates that replace what the kernel overwrote. old, new: a change of the update's fusion, or of
    its call.
    """
    pair = load_pairs("rows_put_back_in_place")["rows from after the kernel"]
    before, behind = pair.schedule.split("put_back {", 1)
    assert old in behind
    changed = replace(pair, schedule=f"{before}put_back {{{behind.replace(old, new, 1)}")
    context = judge_modules(*read_pair(changed), *pair.expected)
    writes = {
        one.call.id: [write for write in context.writes if write.index == one.write] for one in context.actual.writes
    }
    found = find_replacing(context.optimized, context.actual.writes, writes)
    assert all(ones == list(context.actual.writes) for ones in found.values())
    return len(found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("multiply(number, two)", "multiply(number, two), metadata={op_name='renamed'}".replace("'", '"')),
        ("zero = s32[] constant(0)", "zero = s32[] constant(0)\n  unused = s32[] constant(7)"),
    ],
)
def test_an_update_of_the_same_rows_replaces_them(old: str, new: str) -> None:
    assert count_replaced(old, new) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("multiply(number, two)", "add(number, two)"),
        ("multiply(number, two)", "multiply(two, two)"),
        ("two = s32[] constant(2)", "two = s32[] constant(3)"),
        ("fusion(kernel, h, i)", "fusion(kernel, h, one)"),
        (KERNEL + PUT.format("kernel"), PUT.format("all") + KERNEL),  # before the kernel
        (
            "dynamic-update-slice(q, scaled_ld8, from_ld3, zero)",
            "dynamic-update-slice(q, scaled_ld8, from_ld3, number)",
        ),
        (
            "ROOT put_ld9 = f32[8,4] dynamic-update-slice(q, scaled_ld8, from_ld3, zero)",
            "first = f32[1,4] slice(scaled_ld8), slice={[0:1], [0:4]}\n"
            "  ROOT put_ld9 = f32[8,4] dynamic-update-slice(q, first, from_ld3, zero)",
        ),
    ],
)
def test_an_update_that_may_be_of_other_rows_does_not(old: str, new: str) -> None:
    assert count_replaced(old, new) == 0
