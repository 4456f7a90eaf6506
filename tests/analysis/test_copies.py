"""`programs/copies.py`: a copy is a separate value, whatever JAX makes of it."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict

PROGRAMS = Path(__file__).parent / "programs" / "copies.py"


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("copy_overwritten", {"other"}),
        ("copy_kept", {"other"}),
        ("copies_by_other_names", {"placed", "ref"}),
        ("copies_in_refs", {"assigned", "read"}),
        ("results_that_equal_their_operand", {"power", "reduced", "chosen"}),
        ("kernel_in_a_branch_that_is_always_taken", set()),
        ("exchange_on_one_device", {"exchanged"}),
        ("copy_of_a_derived_value", set()),
        ("cast_before_and_after_a_step", {"cast"}),
    ],
)
def test_a_copy_and_its_source_are_two_values(name: str, outputs: set[str], shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(f"{PROGRAMS}::{name}",), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert [found.rule for found in case.findings if found.rule == "LD016"] == []
    assert {one for one, verdict in case.outputs.items() if verdict is Verdict.CLOBBERED} == outputs
    assert case.disagreements == ()
