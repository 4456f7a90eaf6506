"""The helper that users are offered, with the jax-triton installed here; tests/docs/test_plain_install.py has the other."""

from pathlib import Path

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Verdict

PROGRAM = Path(__file__).parents[1] / "compile" / "programs" / "in_place.py"


def test_the_operand_is_counted_among_the_arrays_and_its_new_contents_come_last(tmp_path: Path) -> None:
    (case,) = check(CheckOptions(selectors=(str(PROGRAM),), cache_directory=tmp_path)).cases
    assert case.error == ""
    assert set(case.outputs.values()) == {Verdict.FRESH}
    assert case.findings == ()
    assert case.replay is not None
    assert case.replay.state.value == "done", case.replay.reason
    assert case.disagreements == ()
