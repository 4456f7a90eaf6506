"""`programs/rows_put_back.py`: what a scatter or a dynamic-update-slice puts elsewhere is not what a slice reads."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict

PROGRAM = Path(__file__).parent / "programs" / "rows_put_back.py"


@pytest.mark.xfail(
    strict=True,
    reason="pieces.py follows the pieces of a concatenation, and not of an update at a constant place: the program's "
    "second call depends on all that the first one's rows were put into, the schedule's on its own rows alone",
)
def test_rows_that_were_not_put_back_yet_do_not_depend_on_those_that_were(shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(str(PROGRAM),), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert case.outputs == {"sums": Verdict.FRESH}
