"""A summary of a fusion gives the same labels as the instructions of the fusion."""

import pytest

from ligerdiag.analysis.evaluation.fusions import FusionSummaries, FusionSummary
from ligerdiag.analysis.evaluation.label_memory import Places
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.conftest import Programs, inspect_all
from tests.hlo.building import Builder, array, find, tuple_of


def summarize(opcode: str) -> tuple[FusionSummary | None, tuple[int, ...]]:
    """Summarizes a fusion with two results: `opcode` of both parameters, and the second parameter negated.

    Also returns the slices of both results.
    """
    builder = Builder()
    fused = builder.computation("fused")
    parameters = [builder.add(fused, "parameter", parameter_number=number) for number in range(2)]
    mixed = builder.add(fused, opcode, parameters)
    second = builder.add(fused, "negate", [parameters[1]])
    builder.add(fused, "tuple", [mixed, second], tuple_of(array(4), array(4)))
    entry = builder.computation("entry")
    x, y = (builder.add(entry, "parameter", parameter_number=number) for number in range(2))
    builder.define(x, offset=0)
    builder.define(y, offset=16)
    fusion = builder.add(entry, "fusion", [x, y], tuple_of(array(4), array(4)), [fused])
    builder.define(fusion, 0, offset=32)
    builder.define(fusion, 1, offset=48)
    module, buffers = parse_hlo(builder.bytes())
    assert buffers is not None
    places = Places(buffers, Positions(module, buffers))
    located = places.locate(find(module, fusion))
    return FusionSummaries(module, places).find(find(module, fusion)), located


def test_each_result_depends_on_its_own_parameters() -> None:
    summary, (first, second) = summarize("add")
    assert summary is not None
    x, y = 0b01, 0b10
    united = summary.unite([x, y])
    assert {place: united[combination] for place, combination in summary.results} == {first: x | y, second: y}


@pytest.mark.parametrize("opcode", ["concatenate", "custom-call"])
def test_a_fusion_that_needs_more_than_unions_has_no_summary(opcode: str) -> None:
    assert summarize(opcode)[0] is None


@pytest.mark.parametrize("file", ["straight", "loops", "calls", "meshes"])
def test_verdicts_are_the_same_if_every_fusion_is_followed(
    file: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: Programs = request.getfixturevalue(file)
    summarized = inspect_all(programs)
    monkeypatch.setattr(FusionSummaries, "find", lambda *_: None)
    followed = inspect_all(programs)
    assert summarized == followed
