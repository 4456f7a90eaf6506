"""A small part of `tools.claims`: no mutation of a real pair of modules makes a verdict better than its claim allows."""

import json
from pathlib import Path

import jsonschema
import pytest

from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.report.json import render_json
from tests.dumps.conftest import Inspect, Pick
from tools.claims.pairs import iterate_kernel_calls, load_pair
from tools.claims.tally import run
from tools.json_schema import load_schema

COUNTS = (80, pytest.param(250, marks=pytest.mark.nightly))


def test_an_impossible_operand_number_matches_the_schema(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", "optimizations.hlo.pb")
    for path in folder.iterdir():
        proto = HloProto.FromString(path.read_bytes())
        for call in iterate_kernel_calls(proto):
            call.output_operand_aliasing.add(operand_index=-1, output_shape_index=(0,))
        path.write_bytes(proto.SerializeToString())
    report = inspect(folder)
    assert "LD018" in {finding.rule for finding in report.cases[0].findings}
    jsonschema.Draft202012Validator(load_schema()).validate(json.loads(render_json(report)))


@pytest.mark.parametrize("count", COUNTS)
def test_no_mutation_makes_a_verdict_better_than_its_claim_allows(count: int, dumps: Path, cache: Path) -> None:
    pairs = [load_pair(dumps / name) for name in ("losses", "losses-untagged", "loop", "loop-untagged")]
    tally = run(pairs, 0, count, cache / "effects")
    assert not tally.contradictions, tally.render()
    assert not tally.tracebacks, tally.render()
    assert tally.done == count
    assert {"refused", "other"} <= set(tally.outcomes)
