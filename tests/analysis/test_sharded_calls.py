"""`programs/sharded_calls.py`: a kernel that a shard_map calls overwrites the array that its pieces are of.

The pieces were values of their own: a fused loss that calls its kernel in a shard_map was called fresh where its gradient
misses the kernel, and clobbered where it is right. Replay ran a kernel again on what another device had left in a constant.
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


def test_the_program_as_written_computes_what_its_reference_does(reports: Mapping[str, CaseReport]) -> None:
    assert len(reports) == 5
    assert {name for name, one in reports.items() if any(found.rule == "LD016" for found in one.findings)} == set()
    assert {name for name, one in reports.items() if one.disagreements or one.error} == set()


def test_gradients_see_what_the_kernel_left_in_the_pieces(reports: Mapping[str, CaseReport]) -> None:
    assert reports["residual_of_a_sharded_kernel"].outputs == {"loss": Verdict.FRESH, "w": Verdict.LATENT}
    assert reports["residual_that_is_computed_again"].outputs == {"loss": Verdict.FRESH, "w": Verdict.STALE}
    assert reports["residual_of_an_activation"].outputs == {"loss": Verdict.FRESH, "w": Verdict.STALE}


def test_an_argument_that_a_shard_map_hands_through_is_known_again(reports: Mapping[str, CaseReport]) -> None:
    assert reports["argument_handed_through"].outputs == {"x": Verdict.FRESH, "sums": Verdict.FRESH}
