"""Skipping inert instructions changes no verdict."""

import pytest

from ligerdiag.analysis.evaluation.labels import InertInstructions
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import Program
from tests.analysis.conftest import Programs, inspect_all
from tests.analysis.pair_files import judge_pair
from tests.hlo.building import find


@pytest.mark.parametrize("file", ["straight", "loops", "calls", "meshes"])
def test_verdicts_are_the_same_if_nothing_is_skipped(
    file: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: Programs = request.getfixturevalue(file)
    skipped = inspect_all(programs)
    monkeypatch.setattr(InertInstructions, "is_inert", lambda *_: False)
    followed = inspect_all(programs)
    assert skipped == followed


@pytest.mark.parametrize(("label", "reader"), [("an instruction", "abs"), ("a fusion", "fusion")])
def test_an_inert_operation_that_should_depend_on_a_write_is_still_reported(label: str, reader: str) -> None:
    context = judge_pair("operation_on_another_value", label)
    assert [finding.reader.opcode for finding in context.verdicts.stale] == [reader]


def test_an_operation_in_a_nested_fusion_keeps_the_outer_one_from_being_inert() -> None:
    """The entry calls `outer`, which calls `inner`, which has the operation with tag 1."""
    program = Program()
    inner, outer = program.computation("inner"), program.computation("outer")
    operation = program.op(inner, "abs", program.op(inner, "parameter"), tag=1)
    program.op(outer, "fusion", program.op(outer, "parameter"), calls=[inner])
    entry = program.computation("entry")
    fusion = program.op(entry, "fusion", program.op(entry, "parameter"), calls=[outer])
    program.schedule(entry)
    module, _ = parse_hlo(program.bytes())
    outermost = find(module, fusion)

    def is_inert_if(*started: int, wanted: frozenset[tuple[int, ...]] = frozenset()) -> bool:
        return InertInstructions(module, frozenset(started), wanted).is_inert(outermost)

    assert is_inert_if()
    assert not is_inert_if(operation.id)
    assert not is_inert_if(fusion.id)
    assert not is_inert_if(wanted=frozenset({(1,)}))
