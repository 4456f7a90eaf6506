"""Names in somebody else's dump: a lost or exchanged name makes no verdict better."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ligerdiag.hlo.xla_pb2 import HloInstructionProto
from tests.dumps.conftest import cache, dumps
from tools.claims.judging import find_improved, judge
from tools.claims.mutation import Claim
from tools.claims.pairs import list_instructions, load_pair

__all__ = ["cache", "dumps"]

type Change = Callable[[list[HloInstructionProto]], Iterator[None]]
"""Changes names one after the other, and takes each change back when it is asked for the next one."""


def lose_each(instructions: list[HloInstructionProto]) -> Iterator[None]:
    for one in instructions:
        name = one.metadata.op_name
        one.metadata.op_name = ""
        yield
        one.metadata.op_name = name


def exchange_each(instructions: list[HloInstructionProto]) -> Iterator[None]:
    """Exchanges each name with the next different one of the same opcode."""
    for opcode in sorted({one.opcode for one in instructions}):
        for one, other in pairwise([one for one in instructions if one.opcode == opcode]):
            names = one.metadata.op_name, other.metadata.op_name
            if names[0] != names[1]:
                one.metadata.op_name, other.metadata.op_name = names[::-1]
                yield
                one.metadata.op_name, other.metadata.op_name = names


def join_each(instructions: list[HloInstructionProto]) -> Iterator[None]:
    """Puts the next one's name in front of each."""
    for one, other in pairwise(instructions):
        name = one.metadata.op_name
        one.metadata.op_name = f"{other.metadata.op_name};{name}"
        yield
        one.metadata.op_name = name


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.nightly), 20])
@pytest.mark.parametrize("change", [lose_each, exchange_each, join_each], ids=lambda change: change.__name__)
def test_no_lost_or_exchanged_name_makes_a_verdict_better(dumps: Path, cache: Path, change: Change, step: int) -> None:
    """step: every how many names one is changed."""
    pair = load_pair(dumps / "flce")
    before = judge(pair, cache / "effects")
    better: list[str] = []
    for side in pair.protos:
        named = [one for one in list_instructions(side) if one.metadata.op_name and one.opcode != "parameter"]
        for number, _ in enumerate(change(named)):
            if number % step:
                continue
            found = find_improved(before, judge(pair, cache / "effects"), [Claim.NOT_BETTER])
            better += [f"{number} {line}" for line in found]
    assert better == []
