"""Reads that nothing orders with a write."""

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluation.label_memory import LuckyRead
from tests.analysis.pair_files import judge_pair


def list_lucky(context: Context) -> list[tuple[str, bool]]:
    """Returns the opcode of each reader that is right by luck, and whether it comes after the write."""
    names = {one.id: one.opcode for one in context.optimized.instructions}
    found = [lucky for one in context.verdicts.outputs.values() for cause in one.causes for lucky in cause.lucky]
    assert all(isinstance(one, LuckyRead) for one in found)
    return [(names[one.reader], one.after) for one in found]


@pytest.mark.parametrize(
    ("label", "reader"),
    [
        ("y first", "abs"),
        ("from a copy", "copy"),  # what reads the copy is safe; the copy itself is not
        ("a copy first, the kernel before y", "copy"),
        ("an async computation", "abs"),
    ],
)
def test_the_reader_that_is_right_by_luck_is_named(label: str, reader: str) -> None:
    assert list_lucky(judge_pair("twin_reader", label)) == [(reader, False)]
