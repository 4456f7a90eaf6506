"""On small cases of this repository, the intended program as replay computes it is what Python computes."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.replay.estimate import estimate_artifact
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.case_levels import SMALL, runs_daily
from tests.rotation import current_turn, take_turns
from tests.witness.comparing import Comparison, compare_in_process
from tests.witness.process import open_interpreting_process

ROOT = Path(__file__).parents[2]
SECONDS = 1.0
"""Largest estimate of a small case; its comparison takes three times as long."""

NOT_COVERED = {
    "autotuned": "autotuned",
    "mosaic": "mosaic_gpu_v2",
    "fused_alias": "mosaic_gpu_v2",
    "pallas_cross_entropy": "Only interpret mode",
    "partial_write": "Only interpret mode",
    "moved_ref": "Only interpret mode",
    "shared_bytes": "Only interpret mode",
    "unknown_effect": "",
}
"""How the ids of cases begin that JAX on the CPU or Triton's interpreter does not cover, and a word of the reason."""

SOME = "some"
"""A tenth of the cases that run every day, see tests/case_levels.py, in turns, and the saved residual of an
exponential.
"""
SAVED = "saved_residual[exp-"
OTHERS = "others"
"""All other cases, except for LLAMA."""
LLAMA = "llama"
"""Two cases, as slow as all others together: Python compiles their parts for four devices one by one."""
AT_LEAST = {SOME: 4, OTHERS: 60, LLAMA: 2}
"""Numbers of cases that must be compared."""

type Comparisons = Mapping[str, Comparison]


def choose(case_id: str, group: str) -> bool:
    if (group == LLAMA) != case_id.startswith("llama_step"):
        return False
    if "flce" in case_id and SMALL not in case_id:
        return False
    is_some = case_id.startswith(SAVED) or crc32(case_id.encode()) % 10 == 0
    return group == LLAMA or (runs_daily(case_id) and is_some) == (group == SOME)


@pytest.fixture(
    scope="module", params=[SOME, *(pytest.param(one, marks=pytest.mark.nightly) for one in (OTHERS, LLAMA))]
)
def group(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def comparisons(group: str, shared_cache: Path) -> Iterator[Comparisons]:
    found: dict[str, Any] = {}
    with Pool(cache=Cache(shared_cache), jobs=1) as pool, open_interpreting_process() as witness:
        cases = discover_cases(["cases"], pool=pool, directory=ROOT)
        chosen = [c for c in cases if math.prod(c.mesh.values()) <= 8 and choose(c.id, group)]
        if group == SOME:
            saved = [c for c in chosen if c.id.startswith(SAVED)]
            chosen = [*saved, *take_turns([c for c in chosen if c not in saved], current_turn())]
        for result in compile_cases(chosen, [load_target("h100")], pool=pool):
            assert result.artifact is not None, result.error
            if estimate_artifact(result.artifact, 1).seconds <= SECONDS:
                job = (result.case.source, result.case.id, str(result.artifact.directory))
                found[result.case.id] = witness.submit(compare_in_process, *job)
        yield {name: Comparison(**future.result()) for name, future in found.items()}


def test_the_intended_program_computes_what_python_computes(comparisons: Comparisons) -> None:
    different = {name: one.disagreements for name, one in comparisons.items() if one.disagreements}
    assert different == {}


def test_only_known_cases_cannot_be_compared(group: str, comparisons: Comparisons) -> None:
    reasons = {name: one.not_covered for name, one in comparisons.items() if one.not_covered}
    unknown = {
        n: why for n, why in reasons.items() if not any(n.startswith(k) for k, w in NOT_COVERED.items() if w in why)
    }
    assert unknown == {}
    assert len(comparisons) - len(reasons) >= AT_LEAST[group]


@pytest.mark.parametrize("group", [SOME], indirect=True, scope="module")
def test_cases_whose_kernel_overwrites_a_saved_value_are_recognized(group: str, comparisons: Comparisons) -> None:
    saved = {name for name, one in comparisons.items() if one.overwritten_saves}
    assert group != SOME or saved >= {"saved_residual[exp-loss-hidden]", "saved_residual[exp-perplexity-hidden]"}
    assert all("aliased" not in name and "out_of_place" not in name for name in saved), saved
