"""To XLA, a call that JAX hoists out of a loop is a new call; whether it does what the author's call does is unknown."""

from pathlib import Path

from ligerdiag import api
from ligerdiag.model.findings import Attribution, Verdict

PROGRAMS = Path(__file__).parent / "programs" / "calls_out_of_loops.py"


def test_a_call_that_jax_hoists_out_of_a_loop_makes_no_output_wrong(shared_cache: Path) -> None:
    (case,) = api.check(api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)).cases
    assert case.error == ""
    assert case.replay is not None
    assert {one.attribution for one in case.replay.outputs.values()} == {Attribution.FRESH}
    assert not {Verdict.STALE, Verdict.CLOBBERED} & set(case.outputs.values())
    assert [note for note in case.coverage.not_covered if "is not in the program as written" in note]
