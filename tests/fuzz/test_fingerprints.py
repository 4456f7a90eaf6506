"""Fingerprints confirm claims about the schedule that are true, and refute those that are not.

The right answers are in the programs: XLA's passes that merge, join, slice and unroll are known, and so are the names
that they give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.model.findings import Verdict
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tools.fuzz.fingerprint_campaign import NOT_CLAIMED, claim_today, make_row, observe_artifact, render
from tools.fuzz.fingerprints import (
    Claim,
    Fingerprints,
    JudgedClaim,
    Relation,
    compare_arrays,
    judge_claims,
)

_PROGRAMS = Path(__file__).parent / "fingerprint_programs.py"
_TRUSTED = ("name", "operands", "carrier", "operand")


@dataclass(frozen=True)
class _Program:
    fingerprints: Fingerprints
    claims: Sequence[Claim]
    verdicts: Mapping[str, Verdict]

    def judge(self, claims: Sequence[Claim] | None = None) -> list[JudgedClaim]:
        return judge_claims(self.fingerprints, self.claims if claims is None else claims)

    def find(self, opcode: str) -> list[JudgedClaim]:
        """Returns the claims about the instructions with this opcode, and the equalities that nobody claims."""
        return [one for one in self.judge() if one.opcode == opcode]


@pytest.fixture(scope="module")
def programs(shared_cache: Path) -> dict[str, _Program]:
    found: dict[str, _Program] = {}
    draws = [
        [np.random.default_rng([draw, n]).normal(size=(16, 16)).astype(np.float32) for n in range(2)]
        for draw in range(2)
    ]
    with Pool(cache=Cache(shared_cache), jobs=2) as pool:
        cases = discover_cases([str(_PROGRAMS)], pool=pool)
        for result in compile_cases(cases, [load_target("h100")], pool=pool):
            assert result.artifact is not None, result.error
            observed = observe_artifact(result.artifact, draws, shared_cache / "effects")
            outputs = observed.analysed.inspection.outputs
            found[result.case.id] = _Program(observed.fingerprints, claim_today(observed), outputs)
    return found


@pytest.mark.parametrize("name", ["read_after", "run_in_loop", "merge_equal"])
def test_true_claims_are_confirmed(programs: dict[str, _Program], name: str) -> None:
    trusted = [one for one in programs[name].judge() if one.evidence in _TRUSTED and one.operation_opcode != "dot"]
    assert len(trusted) >= 4
    assert "custom-call" in {one.opcode for one in trusted}
    assert {one.relation for one in trusted} == {Relation.SAME}, trusted


@pytest.mark.parametrize("name", ["read_after", "run_in_loop"])
def test_false_claims_are_refuted(programs: dict[str, _Program], name: str) -> None:
    """Each instruction is taken for the operation of the next one."""
    program = programs[name]
    true = [one for one in program.claims if one.evidence == "name"]
    paths = [one.path for one in true]
    equal = {(one.instruction, path) for one in program.judge(true) for path in one.equals}
    moved = [replace(one, path=path) for one, path in zip(true, [*paths[1:], paths[0]], strict=True)]
    judged = [one for one in program.judge(moved) if one.evidence == "name" and not one.is_trivial]
    false = [one for one in judged if (one.instruction, one.path) not in equal]
    assert len(false) >= 3
    assert {one.relation for one in false} <= {Relation.OTHER, Relation.PART, Relation.WHOLE}, false
    assert sum(one.relation is Relation.OTHER for one in false) >= len(false) // 2


def test_an_operation_of_a_function_has_a_value_for_each_call(programs: dict[str, _Program]) -> None:
    program = programs["read_after"]
    true = [one for one in program.claims if len(one.path) == 2 and one.evidence == "name"]
    first, other = sorted({one.path[0] for one in true})
    exchanged = [replace(one, path=(first + other - one.path[0], one.path[1])) for one in true]
    for claims, relation in ((true, Relation.SAME), (exchanged, Relation.OTHER)):
        judged = [one for one in program.judge(claims) if one.opcode == "exponential" and one.evidence == "name"]
        assert [one.relation for one in judged] == [relation] * 2


def test_a_slice_of_a_joined_product_is_not_the_product_whose_tag_it_has(programs: dict[str, _Program]) -> None:
    program = programs["join_products"]
    (product,) = program.find("dot")
    assert product.relation is Relation.WHOLE
    claims = [one for one in program.find("slice") if one.evidence not in NOT_CLAIMED]
    assert [one.path for one in claims] == [product.path] * 2
    true, false = sorted(claims, key=lambda one: one.relation is Relation.OTHER)
    assert (true.relation, true.equals) == (Relation.SAME, (product.path,))
    assert false.relation is Relation.OTHER
    (other,) = false.equals
    assert other > product.path
    assert ("another", (other,)) in [(one.evidence, one.equals) for one in program.find("slice")]


def test_an_instruction_that_xla_merged_equals_both_operations(programs: dict[str, _Program]) -> None:
    (sine,) = programs["merge_equal"].find("sine")
    assert sine.relation is Relation.SAME
    assert len(sine.equals) == 2
    assert sine.path in sine.equals


def test_an_instruction_in_a_loop_is_compared_iteration_by_iteration(programs: dict[str, _Program]) -> None:
    program = programs["run_in_loop"]
    (cosine,) = [one for one in program.fingerprints.schedule if one.instruction.opcode == "cosine"]
    assert [len(run[0]) for run in cosine.runs] == [3, 3]
    early = replace(cosine, runs=tuple([((run[0][0], run[0][0], run[0][2]),) for run in cosine.runs]))
    others = tuple([one for one in program.fingerprints.schedule if one is not cosine])
    (claim,) = [one for one in program.claims if one.instruction == cosine.instruction.id and one.evidence == "name"]
    assert [one.relation for one in program.judge([claim]) if one.evidence == "name"] == [Relation.SAME]
    stuck = judge_claims(replace(program.fingerprints, schedule=(*others, early)), [claim])
    assert [one.relation for one in stuck if one.evidence == "name"] == [Relation.OTHER]


def test_a_slice_that_xla_moved_behind_a_product_keeps_its_name_and_is_the_product(
    programs: dict[str, _Program],
) -> None:
    named = [one for one in programs["sink_slices"].find("slice") if one.evidence == "moved"]
    assert [(one.relation, one.operation_opcode) for one in named] == [(Relation.OTHER, "slice")] * 2
    assert all(one.equals and one.path not in one.equals for one in named)


def test_a_slice_behind_a_product_that_reads_the_intended_version_is_fresh(programs: dict[str, _Program]) -> None:
    assert set(programs["sink_slices"].verdicts.values()) == {Verdict.FRESH}


@pytest.mark.parametrize(
    ("seen", "meant", "expected"),
    [
        ([1, 2, 4], [1, 2, 4], "same"),
        ([1, 2, 4 + 1e-12], [1, 2, 4], "same"),
        ([4, 1, 2], [1, 2, 4], "moved"),
        ([1, 4], [1, 2, 4], "part"),
        ([1, 2, 3, 4], [1, 2, 4], "whole"),
        ([1, 2, 4.01], [1, 2, 4], "near"),
        ([1, 2, 4.5], [1, 2, 4], "other"),
        ([1, 3], [1, 2, 4], "other"),
        ([1, np.nan], [1, 2], "open"),
    ],
)
def test_arrays_are_compared_within_roundings(seen: list[float], meant: list[float], expected: str) -> None:
    assert compare_arrays(np.array(seen, np.float64), np.array(meant, np.float64)).value == expected


def test_the_summary_counts_and_names_refuted_claims(programs: dict[str, _Program]) -> None:
    judged = programs["sink_slices"].judge()
    text = "\n".join(render([replace(make_row("sink", judged), claims="today")]))
    assert "## today\n\n1 programs" in text
    assert "| moved | slice | slice | another | 2 | `sink` `slice_ld" in text
