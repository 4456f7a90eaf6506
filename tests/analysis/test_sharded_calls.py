"""`programs/sharded_calls.py`: a kernel that a shard_map calls overwrites the array that its shards belong to.

The shards used to be separate values: a fused loss that calls its kernel in a shard_map was called fresh although its
gradient misses the kernel, and clobbered although it is right. Replay used to run a kernel on a constant that another
device had already overwritten.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "programs" / "sharded_calls.py"


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> Mapping[str, CaseReport]:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


def test_the_program_as_written_agrees_with_its_reference(reports: Mapping[str, CaseReport]) -> None:
    assert len(reports) == 5
    assert {name for name, one in reports.items() if any(found.rule == "LD016" for found in one.findings)} == set()
    assert {name for name, one in reports.items() if one.disagreements or one.error} == set()


def test_gradients_depend_on_what_the_kernel_left_in_the_shards(reports: Mapping[str, CaseReport]) -> None:
    assert reports["residual_of_a_sharded_kernel"].outputs == {"loss": Verdict.FRESH, "w": Verdict.LATENT}
    assert reports["residual_that_is_computed_again"].outputs == {"loss": Verdict.FRESH, "w": Verdict.STALE}
    assert reports["residual_of_an_activation"].outputs == {"loss": Verdict.FRESH, "w": Verdict.STALE}


def test_an_argument_that_a_shard_map_returns_is_recognized(reports: Mapping[str, CaseReport]) -> None:
    assert reports["argument_handed_through"].outputs == {"x": Verdict.FRESH, "sums": Verdict.FRESH}
