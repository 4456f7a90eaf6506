"""The train step of a Llama on meshes of GPUs that this machine does not have: the verdicts of kernels/llama/grid.py.

XLA joins the gradients of the query, key and value projections; the rotary embedding has concatenations written by its
author.
"""

from pathlib import Path

import pytest

from kernels.llama.grid import CASES
from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Verdict

GRID = Path(__file__).parents[2] / "kernels" / "llama" / "grid.py"
CURES = ("aliased", "out_of_place", "shard_map", "partitioned")
BY_ORDER = {
    "llama[dp-100M-1-trivial]",
    "llama[dp-100M-1-barrier]",
    "llama[dp-100M-1-trivial-seed]",
    "llama[dp-100M-2-trivial-seed]",
    "llama[fsdp-100M-2-trivial-seed]",
    "llama[dp-1B-8-trivial-seed]",
    "llama[fsdp-1B-8-trivial-seed]",
}
"""Every reader runs after the kernel; on one H200 the training of `barrier` equals plain JAX's (docs/measurements)."""
DAILY = {"llama[dp-100M-1-hidden]", "llama[fsdp-100M-2-trivial-seed]"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(case.id, marks=() if case.id in DAILY else pytest.mark.nightly) for case in CASES],
)
def test_gradients_are_fresh_if_the_write_is_declared_or_every_reader_waits(name: str, shared_cache: Path) -> None:
    options = CheckOptions(selectors=(f"{GRID}::{name}",), replay=False, cache_directory=shared_cache)
    (case,) = check(options).cases
    assert case.error == ""
    stale = {output for output, verdict in case.outputs.items() if verdict is not Verdict.FRESH}
    if name in BY_ORDER or name.removesuffix("]").endswith(CURES):
        assert stale == set()
    else:
        assert {case.outputs[output] for output in stale} == {Verdict.STALE}
        assert set(case.outputs) - stale == {"loss", "state.count"}
