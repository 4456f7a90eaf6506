"""`programs/rows_put_back.py`: a slice does not depend on what a scatter or a dynamic-update-slice writes elsewhere."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict

PROGRAM = Path(__file__).parent / "programs" / "rows_put_back.py"


@pytest.mark.xfail(
    strict=True,
    reason="pieces.py follows the pieces of a concatenation, but not those of an update at a constant index: in the program "
    "the second call depends on the whole updated array, in the schedule only on its own rows",
)
def test_rows_that_were_not_put_back_do_not_depend_on_rows_that_were(shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(str(PROGRAM),), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert case.outputs == {"sums": Verdict.FRESH}
